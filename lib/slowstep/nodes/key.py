"""The key by which the nodes of a session know each other. It is in a file or in the environment, never in a command.

Nodes with a common home folder find the same file. Others get a copy of it, or the same SLOWSTEP_KEY.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from slowstep.settings.errors import SettingsError

VARIABLE = "SLOWSTEP_KEY"

SHORTEST = 16
"""The characters of a key that nobody guesses."""


class NoKey(SettingsError):
    """There is no key yet."""


def default_file() -> Path:
    """Return the file of the key where none is named; SettingsError if this user has no home."""
    try:
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "slowstep" / "nodes.key"
    except RuntimeError:
        why = f"no home folder is known here (HOME); name the file of the key by --key-file, or set {VARIABLE}"
        raise SettingsError(f"the key of the nodes: {why}") from None


def read_key(file: str = "") -> bytes:
    """Return the key of the environment, or else of a file; SettingsError says what is wrong with it, NoKey that there
    is none.
    """
    if not file and (given := os.environ.get(VARIABLE)):
        return _long_enough(given, VARIABLE)
    path = Path(file) if file else default_file()
    try:
        text = path.read_text(encoding="ascii").strip()
        if path.stat().st_mode & 0o077:
            raise SettingsError(f"{path}: others may read this key; `chmod 600 {path}`")
    except FileNotFoundError:
        raise NoKey(
            f"{path}: there is no key; copy that file from the node where `slowstep diagnose` runs, or name it by "
            f"--key-file, or set {VARIABLE} to the same words on all nodes"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: the key can't be read: {error}") from None
    if not text:  # perhaps it is written at this moment
        raise NoKey(f"{path}: the key is empty; remove the file, and `slowstep diagnose` makes a new one")
    return _long_enough(text, str(path))


def made_key(file: str = "") -> bytes:
    """Return the key as `read_key` does; a file that is not there is made, with a random key."""
    path = Path(file) if file else default_file()
    if (file or not os.environ.get(VARIABLE)) and not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                with open(descriptor, "w", encoding="ascii") as out:
                    out.write(secrets.token_hex(32) + "\n")
        except OSError as error:
            raise SettingsError(
                f"{path}: the key can't be written: {error.strerror}; name a file by --key-file"
            ) from None
    return read_key(file)


def _long_enough(text: str, place: str) -> bytes:
    if len(text) < SHORTEST:
        raise SettingsError(f"{place}: a key has at least {SHORTEST} characters, and this one has {len(text)}")
    return text.encode()
