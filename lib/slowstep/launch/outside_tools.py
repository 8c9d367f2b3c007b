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

COPIES = ("aws", "az", "azcopy", "gcloud", "gsutil", "mc", "oci", "ossutil", "rclone", "rsync", "s3cmd", "s5cmd", "scp")
"""Tools that copy to another machine, or from it."""

HELD = {
    **dict.fromkeys(ALWAYS, "*"),
    **dict.fromkeys(("doas", "sudo"), "|".join(f"*[/\\ ]{name}' '*" for name in ALWAYS)),
    **dict.fromkeys(COPIES, "*' put-'*|*' delete'*|*' create-'*|*' terminate-'*|*' stop'*|*' upload'*"),
    "scontrol": "*' requeue'*|*' update '*|*' hold '*|*' release '*|*' suspend '*|*' write '*",
    "systemctl": "*off*|*reboot*|*halt*|*suspend*|*' stop '*|*' restart '*",
    "git": "*' push '*",
    "hf": "*' upload'*|*' delete'*",
    "huggingface-cli": "*' upload'*|*' delete'*",
    "kubectl": "*' delete '*|*' apply '*|*' create '*|*' scale '*|*' patch '*",
    "runpodctl": "*' stop '*|*' remove '*|*' send '*",
    "vastai": "*' stop '*|*' destroy '*",
    "wandb": "*' sync '*",
    "curl": "*' -d'*|*' --data'*|*' --json'*|*' -F'*|*' --form'*|*' -T'*|*' --upload'*|*POST*|*PUT*|*PATCH*|*DELETE*",
    "wget": "*' --post'*|*' --method'*|*' --body'*",
}
"""The tools with the words, as a pattern of the shell, with which they change something."""

READS = "*' ls '*|*' cat '*|*' du '*|*' stat '*|*' head '*|*' lsf '*|*' presign '*|*' stash '*|*://localhost*|*://127.0.0.1*"
"""The words with which they only read, or ask this machine."""

SCRIPT = """\
#!/bin/sh
held() {{ echo "slowstep: not done in a trial: {name} $*" >&2; exit 0; }}
case " $* " in
{reads}) ;;
{held}) held "$@" ;;
*)
{copies};;
esac
exec {tool} "$@"
"""

COPYING = """\
to=
for word do
  case "$to,$word" in
    ,-*|,/*|,.*|,http:*|,https:*) ;;
    ,*:*) to=there ;;
    there,-*|there,*:*) break ;;
    there,*) to=; break ;;
  esac
done
test -z "$to" || held "$@"
"""
"""What finds the first word that names another machine. If a path of this one follows, that is where a copy goes."""


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
    return {
        name: SCRIPT.format(
            name=name, reads=READS, held=HELD[name], copies=COPYING if name in COPIES else "", tool=shlex.quote(tool)
        )
        for name, tool in found.items()
        if tool
    }
