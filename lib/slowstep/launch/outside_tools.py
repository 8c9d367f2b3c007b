"""Tools that act elsewhere, or on the machine as a whole: a trial finds others of their names first on its PATH.

A trial runs the program's beginning many times. One that submits its next job there, copies checkpoints to a store,
pushes a commit, or switches the machine off once it has failed would do so as often. What stands in for a tool does
nothing, says so on standard error, and succeeds; what only reads is done by the tool itself.
"""

from __future__ import annotations

import functools
import shlex
import shutil
from pathlib import Path

ALWAYS = (
    *("bkill", "bsub", "qdel", "qsub", "sbatch", "scancel", "mail", "mailx", "msmtp", "mutt", "sendmail", "ssmtp"),
    *("halt", "poweroff", "reboot", "shutdown"),
)
"""Tools that read nothing."""

NEVER = "''"
"""A pattern of the shell that matches no word of a command."""

ADDRESSES = ",http:*|,https:*"
"""Addresses by HTTP, as an option gives them."""

COPIES = {
    **dict.fromkeys(
        ("aws", "az", "gcloud", "gsutil", "ossutil", "s3cmd", "s5cmd"), (ADDRESSES, ",*://*", "there,*://*")
    ),
    **dict.fromkeys(("rclone", "rsync", "scp"), (ADDRESSES, ",*:*", "there,*:*")),
    "azcopy": (NEVER, ",https:*", "there,https:*"),
}
"""Tools that copy to another machine, or from it: words that are passed over before one of them names another machine,
what does so, and what does so behind it."""

MESSAGES = ("hook", "slack", "discord", "telegram", "ntfy", "notif", "push", "mail", "sms")
"""Parts of the addresses at which POST leaves a message. Other requests by POST are made: many of them read."""


CHANGES = (
    *("put", "delete", "create", "terminate", "stop", "start", "run"),
    *("send", "submit", "update", "cancel", "reboot"),
)
"""The beginnings of the commands of AWS that change something."""


def _with(words: str) -> str:
    """Return the shell's pattern of a command line with one of some words."""
    return "|".join(f"*' {word} '*" for word in words.split())


def _posted() -> str:
    """Return the pattern of curl's words that leave a message somewhere."""
    options = ("' -d'", "' --data'", "' --json'", "' -F'", "' --form'", "POST")
    return "|".join(f"*{a}*{b}*" for one in MESSAGES for o in options for a, b in ((one, o), (o, one)))


def _methods() -> str:
    """Return the pattern of curl's words that change what lies at an address."""
    named = (f"*'X {m} '*|*'X{m} '*|*' --request {m} '*|*' --request={m} '*" for m in ("PUT", "PATCH", "DELETE"))
    return "|".join((*named, "*' -T'*", "*' --upload-file'*", _with("-sT -fT -sST -fsST -fsSLT")))


HELD = {
    **dict.fromkeys(ALWAYS, "*"),
    **dict.fromkeys(("doas", "sudo"), "|".join(f"*[/\\ ]{name}' '*" for name in ALWAYS)),
    **dict.fromkeys(COPIES, _with("delete create terminate stop upload submit remove")),
    "aws": "|".join((*(f"*' {verb}-'*" for verb in CHANGES), _with("rb mb publish"))),
    "oci": _with("put bulk-upload delete bulk-delete create terminate"),
    "mc": _with("rm rb mb mirror put pipe"),
    "scontrol": _with("requeue update hold release suspend write"),
    "systemctl": "*off*|*reboot*|*halt*|*suspend*|" + _with("stop restart"),
    "git": _with("push"),
    **dict.fromkeys(("hf", "huggingface-cli"), _with("upload upload-large-folder delete delete-files")),
    "kubectl": _with("delete apply create scale patch replace"),
    "runpodctl": _with("stop remove send"),
    "vastai": _with("stop destroy"),
    "wandb": _with("sync"),
    "curl": f"{_methods()}|{_posted()}",
    "wget": "*' --post'*|*' --method'*|*' --body'*",
}
"""The tools with the words, as a pattern of the shell, with which they change something."""

HERE = "*://localhost*|*://127.0.0.1*"
DONE = {"git": _with("stash"), "curl": HERE, "wget": HERE}
"""The words with which they do it on this machine alone."""

READS = _with("ls lsf lsl lsd lsjson size about cat du stat head presign")
"""The words with which tools that copy only read."""

SCRIPT = """\
#!/bin/sh
held() {{ echo "slowstep: not done in a trial: {name} $1" >&2; exit 0; }}
case " $* " in
{done}) ;;
{held}) held "$@" ;;
{reads}) ;;
*)
{copies};;
esac
exec {tool} "$@"
"""

COPYING = """\
to= option=
for word do
  case "$to,$word" in
    ,-*|,/*|,.*|{passed}) ;;
    {first}) to=there ;;
    there,-) to=; break ;;
    there,-*) option=yes; continue ;;
    {last}) break ;;
    there,*/*|there,.*) to=; break ;;
    there,*) test "$option" || {{ to=; break; }} ;;
  esac
  option=
done
test -z "$to" || held "$@"
"""
"""What finds the first word that names another machine. If a path of this one follows, that is where a copy goes, and
so is standard output (`-`). A word behind an option may be its value, and is no such path unless it has a slash."""


def hold(folder: Path, path: str) -> str:
    """Put the tools that stand in for those on a PATH into a folder, and return the PATH that leads to them first."""
    folder.mkdir()
    for name, text in _scripts(path).items():
        (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
        (folder / name).chmod(0o755)
    return f"{folder}:{path}"


@functools.cache
def _scripts(path: str) -> dict[str, str]:
    """Return the text of each tool that stands in for one which is installed, by its name."""
    found = {name: shutil.which(name, path=path) for name in HELD}
    return {name: _script(name, tool) for name, tool in found.items() if tool}


def _script(name: str, tool: str) -> str:
    copies = ""
    if name in COPIES:
        passed, first, last = COPIES[name]
        copies = COPYING.format(passed=passed, first=first, last=last)
    reads = READS if name in COPIES else NEVER
    return SCRIPT.format(
        name=name, done=DONE.get(name, NEVER), held=HELD[name], reads=reads, copies=copies, tool=shlex.quote(tool)
    )
