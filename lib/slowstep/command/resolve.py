"""What a command starts: the interpreter, its options, and the Python program with its arguments. No shell is used."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slowstep.settings.command import Command
from slowstep.settings.errors import SettingsError

PYTHON = re.compile(r"python(\d+(\.\d+)?)?")

WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""The interpreter's own options that take a value."""

SEVERAL = ("mpirun", "mpiexec", "srun", "horovodrun")
"""Launchers of several processes that are no Python programs, and start theirs where nobody can follow."""

LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
"""Launchers that are Python programs."""

MAIN = "__main__.py"
"""The file by which Python runs a folder."""

OPENED = re.compile(r"/dev/(stdin|fd/.*)|/proc/[^/]+/fd/.*")
"""The paths of what a process has open."""

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")

MOST_READ, LONGEST_LINE, MOST_LINES = 2**16, 200, 3
"""The bytes of a shell's script that are read, and the letters of a line of it and the lines that are told."""

MINIMA = {"python": (3, 10), "torch": (2, 6)}

ALONE = """
import sys
sys.path[:] = [place for place in sys.path if place]
"""
"""What stands before the lines that are asked of an interpreter: files of the user's folder are none of its modules."""

LONGEST_ANSWER = 120
"""The most seconds that an interpreter may take to answer."""

INSTALLED = """
import json, sys
from importlib.metadata import version
try:
    torch = version("torch")
except Exception:
    torch = ""
print("\\n" + json.dumps({"python": ".".join(map(str, sys.version_info[:3])), "torch": torch}))
"""

LAUNCHED = """
import json, os, sys
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_simple_launcher_cmd_env
given = launch_command_parser().parse_args(json.loads(sys.argv[1]))
given = _validate_launch_command(given)[0]
alone = not (given.multi_gpu or given.use_fsdp or given.use_deepspeed) and given.mpirun_hostfile is None
command, env = prepare_simple_launcher_cmd_env(given) if alone else ([], {})
changed = {name: value for name, value in env.items() if os.environ.get(name) != value}
print("\\n" + json.dumps({"command": command, "env": changed}))
"""

STREAM = "a program from standard input, a pipe or a device can be read once, and each trial reads it"


class CommandError(SettingsError):
    """The error of a command that can't be diagnosed. Its text says why, and what to do."""


def resolve(words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Command:
    """Return the command of these words; CommandError if it is none that can be diagnosed."""
    words = list(words)
    given: dict[str, str] = {}
    rest = list(words)
    by_env = rest[:1] != [] and os.path.basename(rest[0]) == "env"
    rest = rest[by_env:]
    while rest and re.fullmatch(r"[A-Za-z_]\w*=.*", rest[0], re.DOTALL):  # as a shell takes them
        name, _, value = rest.pop(0).partition("=")
        given[name] = value
    if by_env and rest and rest[0].startswith("-"):
        raise CommandError(f"env {rest[0]}: options of env can't be taken; change the environment of slowstep itself")
    if not rest:
        raise CommandError("no command was given; put it after --, as in `slowstep survey -- python train.py`")
    _refuse_several(rest[0])
    python, options, arguments = _python_of(rest, folder, dict(env) | given)
    command = Command(words=words, python=python, options=options, arguments=arguments, folder=str(folder), env=given)
    command = _installed(command, dict(env) | given)
    if _is_accelerate(arguments):
        return _unwrapped(command, dict(env) | given)
    if (folder / arguments[0] / MAIN).is_file():  # as Python runs a folder
        return replace(command, arguments=[os.path.join(arguments[0], MAIN), *arguments[1:]])
    if arguments[0] != "-m" and _is_stream(folder / arguments[0]):
        raise CommandError(f"{arguments[0]}: {STREAM}; put it into a file, and name that")
    if arguments[0] != "-m" and not (folder / arguments[0]).is_file():
        raise CommandError(f"{arguments[0]}: there is no such file in {folder}")
    if arguments[0] != "-m" and zipfile.is_zipfile(folder / arguments[0]):
        file = arguments[0]
        unpacked = Path(file).with_suffix("") if Path(file).suffix else Path(f"{file}_unpacked")
        steps = [
            shlex.join(["python", *words]) for words in (["-m", "zipfile", "-e", file, str(unpacked)], [str(unpacked)])
        ]
        raise CommandError(
            f"{file}: it is an archive with a program in it, whose code can't be looked at there. Unpack it "
            f"(`{steps[0]}`), and give `{steps[1]}`"
        )
    return command


def _is_stream(path: Path) -> bool:
    """Return whether a path leads to no file of its own: a pipe, a device, or what is open here (`/dev/stdin`)."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return False
    is_open = OPENED.fullmatch(os.path.abspath(path)) is not None
    return is_open or not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def _python_of(words: list[str], folder: Path, env: Mapping[str, str]) -> tuple[str, list[str], list[str]]:
    """Return the interpreter, its options and the program's arguments."""
    found = _executable(words[0], folder, env)
    if PYTHON.fullmatch(os.path.basename(found)):
        options, arguments = _split(words[1:])
        return found, options, arguments
    interpreter = _shebang(found)
    if interpreter is None:
        raise CommandError(f"{words[0]} is no Python program ({found}); {_name_instead(_script_in(words, folder))}")
    python = _executable(interpreter[0], folder, env)
    if not PYTHON.fullmatch(os.path.basename(python)):
        raise CommandError(f"{words[0]} is run by {interpreter[0]}, which is no Python; {_name_instead(Path(found))}")
    return python, interpreter[1:], [found, *words[1:]]


def _script_in(words: Sequence[str], folder: Path) -> Path | None:
    """Return the script that a shell is given; None if the words are none of a shell's with a script."""
    if os.path.basename(words[0]) not in SHELLS:
        return None
    return next((folder / word for word in words[1:] if os.path.isfile(folder / word)), None)


def _name_instead(script: Path | None) -> str:
    """Return what to do about a script of a shell, which is not run: it may change files that nobody protects."""
    text = "name the Python command that it starts"
    started = _starts(script) if script else []
    if not started:
        return f"{text}, as in `slowstep survey -- python train.py`"
    lines = [f"line {number} `{textwrap.shorten(line, LONGEST_LINE, placeholder=' …')}`" for number, line in started]
    return f"{text}; {script.name} has in {', '.join(lines[-MOST_LINES:])}"


def _starts(script: Path) -> list[tuple[int, str]]:
    """Return the lines of a script that start Python programs, by their numbers. A line may go on in the next ones."""
    try:
        with script.open("rb") as file:
            text = file.read(MOST_READ).decode("utf-8", errors="replace")
    except OSError:
        return []
    found, number = [], 1
    for line in re.findall(r"(?:[^\n\\]|\\.)*\n?", text, re.DOTALL):
        words = [os.path.basename(word) for word in re.split(r"(?:^|\s)#", line, maxsplit=1)[0].split()]
        if any(PYTHON.fullmatch(word) or word in LAUNCHERS for word in words[:-1]):
            found.append((number, " ".join(line.replace("\\\n", " ").split())))
        number += line.count("\n")
    return found


def _executable(name: str, folder: Path, env: Mapping[str, str]) -> str:
    if os.sep in name:
        path = os.path.join(folder, os.path.expanduser(name))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        if os.path.isfile(path):
            raise CommandError(f"{name} may not be executed; start it by its interpreter: `python {name} …`")
    else:
        path = shutil.which(name, path=env.get("PATH", os.defpath)) or ""
        if path:
            return os.path.abspath(path)
        if (folder / name).is_file():
            raise CommandError(
                f"{name}: command not found, but there is a file of that name; start it by `python {name} …`"
            )
    if len(name.split()) > 1 and not os.path.lexists(folder / name):
        raise CommandError(f"'{name}': command not found; it stands in quotes as one word, so leave them out")
    raise CommandError(f"{name}: command not found")


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the interpreter's own options, and the program that follows them."""
    options: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        if bundled := re.fullmatch(r"-([bBdEiIOPqsSuvx]+)([mc].*)", rest[0]):  # -um module
            rest[:1] = [f"-{bundled[1]}", f"-{bundled[2]}"]
        if rest[0].startswith("-m"):
            module = [rest[0][2:]] if len(rest[0]) > 2 else rest[1:2]
            if not module:
                raise CommandError("python -m: no module was named")
            return options, ["-m", *module, *rest[1 if len(rest[0]) > 2 else 2 :]]
        if rest[0].startswith("-c"):
            raise CommandError("python -c: put the program into a file, so that its lines have places")
        if rest[0] in WITH_VALUE and len(rest) > 1:
            options.append(rest.pop(0))
        options.append(rest.pop(0))
    if not rest or rest[0] == "-":
        raise CommandError("python without a program reads it from standard input; name a file")
    return options, rest


def _shebang(path: str) -> list[str] | None:
    """Return the words of the interpreter in a script's first lines; None if there are none."""
    try:
        with open(path, "rb") as file:
            text = file.read(2048)
    except OSError:
        return None
    if not text.startswith(b"#!"):
        return None
    lines = text.decode("utf-8", errors="replace").splitlines()
    words = lines[0][2:].split()
    if words and os.path.basename(words[0]) == "env":
        words = [w for w in words[1:] if not w.startswith("-")]
    if words and os.path.basename(words[0]) == "sh" and len(lines) > 1:
        # pip writes this where the interpreter's path is too long for the kernel, or has a space in it
        long_form = re.match(r"""'''exec' (?P<python>"[^"]+"|\S+) "\$0" "\$@\"""", lines[1])
        if long_form:
            return [long_form["python"].strip('"')]
    return words or None


def _refuse_several(name: str) -> None:
    launcher = os.path.basename(name)
    if launcher in SEVERAL:
        raise CommandError(
            f"{launcher} starts several processes in its own way, which can't be diagnosed yet; give the command that "
            "starts them on one node: `torchrun --nproc-per-node 2 train.py …`"
        )


def _is_accelerate(arguments: Sequence[str]) -> bool:
    if arguments[0] == "-m":
        return arguments[1] in ("accelerate.commands.launch", "accelerate.commands.accelerate_cli") or (
            arguments[1] == "accelerate" and arguments[2:3] == ["launch"]
        )
    return os.path.basename(arguments[0]) == "accelerate" and arguments[1:2] == ["launch"]


def _unwrapped(command: Command, env: Mapping[str, str]) -> Command:
    """Return the command that `accelerate launch` would start, with the environment that it would set.

    One that starts several processes stays as it is.
    """
    after = command.arguments.index("launch") + 1 if "launch" in command.arguments else 2
    told = _ask(command, LAUNCHED, "command", env, json.dumps(command.arguments[after:]))
    if not told["command"]:  # it starts several, as the survey will see
        return command
    options, arguments = _split(told["command"][1:])
    env = command.env | told["env"]
    return replace(command, python=told["command"][0], options=options, arguments=arguments, env=env)


def _installed(command: Command, env: Mapping[str, str]) -> Command:
    """Return the command with the versions in its environment; CommandError if they are too old."""
    told = _ask(command, INSTALLED, "torch", env)
    if not told["torch"]:
        raise CommandError(
            f"{command.python} has no torch; activate the environment that trains, or name its interpreter, as "
            "in `/path/to/env/bin/python train.py`"
        )
    for package, least in MINIMA.items():
        release = tuple(int(part) for part in re.findall(r"\d+", told[package].split("+")[0])[:2])
        if release < least:
            wanted = ".".join(map(str, least))
            raise CommandError(
                f"{command.python} has {package} {told[package]}; slowstep needs {wanted} or later there"
            )
    return replace(command, python_version=told["python"], torch_version=told["torch"])


def _ask(command: Command, program: str, wanted: str, env: Mapping[str, str], *arguments: str) -> dict:
    """Return what a few lines of Python print as JSON, run by the command's interpreter in its folder.

    That is a mapping with the key `wanted`.
    """
    words = [command.python, *command.options, "-c", ALONE + program, *arguments]
    try:
        done = subprocess.run(
            words,
            cwd=command.folder,
            env=dict(env),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=LONGEST_ANSWER,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"{command.python} gives no answer within {LONGEST_ANSWER} seconds of its start") from None
    except OSError as error:
        raise CommandError(f"{command.python} can't be run: {error}") from None
    answers = [found for line in done.stdout.splitlines() if wanted in (found := _mapping(line))]
    if done.returncode or not answers:
        last = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        raise CommandError(f"{command}: {last}")
    return answers[-1]


def _mapping(line: str) -> dict:
    """Return what a line of JSON holds; {} if it holds no mapping. A `sitecustomize` may print anything, too."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
