"""The user's files, safe from a trial: it sees overlays over all disks, and what it writes goes to its own folder.

The process gets a mount namespace of its own. It needs to be root, or to be allowed user namespaces, as most Linux
distributions allow (user_namespaces(7), the kernel's filesystems/overlayfs). A file that is opened to be changed is
copied first. What is memory (/dev/shm) stays as it is, since loader workers hand over their batches there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Sequence

NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
"""Flags of unshare(2) and mount(2), from linux/sched.h and linux/mount.h."""

VIRTUAL = re.compile(
    "proc|sysfs|devtmpfs|devpts|cgroup2?|mqueue|securityfs|debugfs|tracefs|bpf|pstore|hugetlbfs|configfs|fusectl|autofs|"
    "nsfs|binfmt_misc|rpc_pipefs|efivarfs|ramfs|fuse.lxcfs"
)
"""File systems that hold no files of a user."""

MEMORY = "/dev/shm"


class Protection:
    """The overlays of this process."""

    def __init__(self, folder: str):
        self.folder = folder
        self.over: dict[str, str] = {}
        """The folders with an overlay, each with the folder of what was written to it."""
        self.open: list[str] = []
        """The folders that have none."""

    def written(self) -> list[str]:
        """Return the files that were written, by the paths at which they seem to lie."""
        found = []
        for target, upper in self.over.items():
            for parent, _, files in os.walk(upper):
                found += [os.path.normpath(os.path.join(target, os.path.relpath(parent, upper), f)) for f in files]
        return sorted(found)


def protect(folder: str, writable: Sequence[str]) -> Protection:
    """Put overlays over all disks of this process, which has one thread, and return them.

    What is written goes to `folder`. The folders `writable` stay as they are. What can't have an overlay is in `open`.
    """
    found = Protection(os.path.join(folder, "overlays"))
    os.makedirs(found.folder, exist_ok=True)
    targets = _targets()
    as_user = _unshared()
    if as_user is None:
        found.open = targets
        return found
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None)
    # paths below an overlay lead into it, so what lies underneath is reached by descriptors
    lowers = {target: os.open(target, os.O_PATH | os.O_CLOEXEC) for target in targets}
    kept = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in dict.fromkeys([folder, *writable])}
    base = os.open(found.folder, os.O_PATH | os.O_CLOEXEC)
    for number, target in enumerate(targets):
        upper, work = (f"/proc/self/fd/{base}/{number}{kind}" for kind in ("", ".work"))
        for made in (upper, work):
            os.mkdir(made)
        options = f"lowerdir=/proc/self/fd/{lowers[target]},upperdir={upper},workdir={work}" + ",userxattr" * as_user
        if libc.mount(b"overlay", os.fsencode(target), b"overlay", 0, options.encode()) == 0:
            found.over[target] = os.path.join(found.folder, str(number))
        else:
            found.open.append(target)
    for path, descriptor in kept.items():
        if libc.mount(f"/proc/self/fd/{descriptor}".encode(), os.fsencode(path), None, BIND | RECURSIVE, None):
            found.open.append(path)
    for descriptor in [*lowers.values(), *kept.values(), base]:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.chdir(os.getcwd())  # the working directory is still the one underneath
    return found


def unprotected(protection: Protection) -> str:
    """Return what to say where the system allows no overlays."""
    places = ", ".join(protection.open[:5])
    return (
        f"what the program writes to {places} would stay, since this system allows no overlay there; run it in a "
        "container, or on a copy with --unprotected"
    )


def _targets() -> list[str]:
    """Return the folders to protect, parents before what is mounted in them."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            rows = [line.split() for line in lines]
    except OSError:
        return ["/"]
    kinds: dict[str, tuple[str, bool]] = {}
    for row in rows:  # a later mount hides an earlier one at the same place
        path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), row[4])
        kinds[path] = (row[row.index("-") + 1], "ro" in row[5].split(","))
    found = []
    for path, (kind, read_only) in kinds.items():
        if read_only or VIRTUAL.fullmatch(kind) or path == MEMORY or not os.path.isdir(path):
            continue
        if path == "/":
            inside = [os.path.join("/", name) for name in os.listdir("/")]
            found += [one for one in inside if os.path.isdir(one) and not os.path.islink(one) and one not in kinds]
        else:
            found.append(path)
    return sorted(found)


def _unshared() -> bool | None:
    """Give this process mounts of its own; return whether a user namespace was needed, None if it can't be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "unshare"):
        return None
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEW_MOUNTS) == 0:
        return False
    if libc.unshare(NEW_MOUNTS | NEW_USER):
        return None
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError), open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return True
