"""The user's files, safe from a trial: it sees overlays over all disks, and what it writes goes to its own folder.

The process gets a mount namespace of its own. It needs to be root, or to be allowed user namespaces, as most Linux
distributions allow (user_namespaces(7), the kernel's filesystems/overlayfs). A file that is opened to be changed is
copied first. Shared memory (/dev/shm) is memory of the trial's own over the user's, as large as that; it ends with the
trial, and two trials may use one name in it, and in what System V and message queues share. The system's settings can
only be read. Sockets at which others listen lead to them, since an overlay's own would
lead nowhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence

from slowstep_probe.processes import moves

NEW_MOUNTS, NEW_IPC, NEW_USER = 0x00020000, 0x08000000, 0x10000000
BIND, RECURSIVE, PRIVATE, REMOUNT = 0x1000, 0x4000, 0x40000, 0x20
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXECUTION = 0x1, 0x2, 0x4, 0x8
"""Flags of unshare(2) and mount(2), from linux/sched.h and linux/mount.h."""

VIRTUAL = re.compile(
    "proc|sysfs|devtmpfs|devpts|cgroup2?|mqueue|securityfs|debugfs|tracefs|bpf|pstore|hugetlbfs|configfs|fusectl|autofs|"
    "nsfs|binfmt_misc|rpc_pipefs|efivarfs|fuse.lxcfs"
)
"""File systems that hold no files of a user."""

OF_SYSTEM = ("/proc", "/sys", "/dev")
"""The folders whose files tell of the system, and are none of a user's."""

SETTINGS = ("/proc/sys", "/sys")
"""The folders in which root changes how the system works, for all of its processes."""

DEVICES = "/dev"
"""It holds no files, but shared memory."""

SHARED_MEMORY = "/dev/shm"

OF_NVIDIA = "/dev/nvidiactl"
"""The device of NVIDIA's driver. Processes that pass each other memory of a GPU, two arms say, have to see the same
shared memory, so the folders in it are protected one by one there, and single files are not."""

OF_A_PROCESS = re.compile(r"sem\.(?:mp-.*|\w{6})$|torch_")
"""The beginnings of names in shared memory that nobody knows but the process that has made them. Where there are no
others, a trial gets an empty one: each tensor of a loader worker takes 80 us longer in an overlay (AMD EPYC)."""

TMPFS_FOR_USERS = (6, 6)
"""The first version of Linux whose tmpfs can be the upper layer of an ordinary user's overlay."""

GLIBC = (2, 34)
"""The first version of glibc that has its shared memory in /dev/shm whatever is mounted there. An earlier one looks for
a tmpfs, which an overlay is not (its sysdeps/unix/sysv/linux/shm-directory.c)."""


OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of this package."""

LARGEST_COPY = 2**30
"""The bytes of the largest file that is copied, if it is a mount of its own. A larger one may only be read."""


LISTENED_AT, FLAGS, PATH = 0x10000, 3, 7
"""The flag of a socket that waits for connections (linux/net.h), and columns of /proc/net/unix."""

MPS = "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"
"""The variable that names the folder of NVIDIA's multi-process service, whose pipes lead nowhere either, and where it
is by default."""

PIPES = ("control", "control_lock", "control_privileged", "log")
"""The names of these pipes."""

SOCKETS = "pymp-"
"""The beginning of the names of multiprocessing's temporary folders."""


class Protection:
    """The overlays of this process."""

    def __init__(self, folder: str):
        self.folder = folder
        self.over: dict[str, str] = {}
        """The folders with an overlay, each with the folder of what was written to it."""
        self.copies: dict[str, tuple[str, int]] = {}
        """The files that are mounts of their own, each with the copy in its place and the time of its last change."""
        self.open: list[str] = []
        """The folders and files of which what is written would stay."""

    def written(self) -> list[str]:
        """Return the files that were written, by the paths at which they seem to lie.

        The sockets by which Python's own processes pass tensors to each other are none of the program's, and neither
        is the bytecode of the kit's own modules, which an interpreter may keep whatever it is told (`python -I`).
        """
        found = []
        for target, upper in self.over.items():
            for parent, folders, files in os.walk(upper):
                folders[:] = [name for name in folders if not name.startswith(SOCKETS)]
                found += [os.path.normpath(os.path.join(target, os.path.relpath(parent, upper), f)) for f in files]
        found += [path for path, (copy, changed) in self.copies.items() if os.stat(copy).st_mtime_ns != changed]
        return sorted(path for path in found if not _below(path, OWN))


def protect(folder: str, writable: Sequence[str]) -> Protection:
    """Put overlays over all disks of this process, which has one thread, and return them.

    What is written goes to `folder`. The folders `writable` stay as they are. What can't have an overlay is in `open`.
    """
    found = Protection(os.path.join(folder, "overlays"))
    os.makedirs(found.folder, exist_ok=True)
    mounted = _mounted()
    targets = _targets(mounted)
    as_user = _unshared()
    if as_user is None:
        found.open = targets
        return found
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None)
    in_memory = _is_writable_memory(mounted)
    own_memory = in_memory and _may_be_its_own([folder, *writable, *mounted], as_user)
    if in_memory and not own_memory:
        targets += _folders_in_memory([folder, *writable])
    inner = [path for path in mounted if path not in targets and any(_below(path, target) for target in targets)]
    files = _files(mounted)
    found.copies = _copies(files, found.folder)
    disks = _disks([*targets, folder, *writable])
    # paths below an overlay lead into it, so what lies underneath is reached by descriptors
    mounts = _reached(inner)
    kept = _reached([*_sockets([*targets, SHARED_MEMORY]), *_pipes_of_devices()])
    kept |= {path: _opened(path) for path in (folder, *writable)}
    copies = {path: _opened(copy) for path, (copy, _) in found.copies.items()}
    lowers = {target: _opened(target) for target in targets}
    base = _opened(found.folder)
    _put_overlays(libc, found, lowers, mounts, base, as_user)
    if own_memory and not _own_memory(libc, base, as_user):
        found.open.append(SHARED_MEMORY)
    for path, descriptor in (kept | copies).items():
        if not _bound(libc, descriptor, path) and path in (folder, *writable):
            found.open.append(path)
    found.open += [path for path in files if path not in copies and not _read_only(libc, path)]
    for path in () if as_user else SETTINGS:
        if os.path.isdir(path) and not os.statvfs(path).f_flag & READ_ONLY:
            _read_only(libc, path, RECURSIVE)
    if not os.path.exists(OF_NVIDIA):
        libc.unshare(NEW_IPC)  # a system without that is no less safe in all else
    if not _read_only(libc, "/") and os.access("/", os.W_OK):
        found.open.append("/")
    for descriptor in [*lowers.values(), *mounts.values(), *kept.values(), *copies.values(), base]:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.chdir(os.getcwd())  # the working directory is still the one underneath
    moves.allow(disks)
    return found


def _files(mounted: Mapping[str, tuple[str, bool]]) -> list[str]:
    """Return the user's files that are mounts of their own and can be written to."""
    found = [path for path, (kind, read_only) in mounted.items() if not (read_only or VIRTUAL.fullmatch(kind))]
    return [path for path in found if os.path.isfile(path) and not any(_below(path, top) for top in OF_SYSTEM)]


def _copies(files: Sequence[str], folder: str) -> dict[str, tuple[str, int]]:
    """Copy files into a folder, unless they are too large; return each copy with the time of its last change, in ns."""
    found = {}
    for number, path in enumerate(files):
        copy = os.path.join(folder, f"{number}.file")
        if os.stat(path).st_size <= LARGEST_COPY and _copied(path, copy):
            found[path] = (copy, os.stat(copy).st_mtime_ns)
    return found


def _put_overlays(
    libc: ctypes.CDLL,
    found: Protection,
    lowers: Mapping[str, int],
    mounts: Mapping[str, int],
    base: int,
    as_user: bool,
) -> None:
    """Put an overlay over each folder of `lowers`, and what is mounted within one back into its place.

    Both are given by path, with a descriptor of what lies there now. `base` is the descriptor of the folder that gets
    what is written. A folder that can't have an overlay may be read alone; if that can't be had, it stays open.
    """
    # a mount brings those within it as they are, so what is to lie over them comes afterwards
    for number, target in enumerate(sorted({*lowers, *mounts})):
        if target in mounts:
            _bound(libc, mounts[target], target)
            continue
        upper, work = (f"/proc/self/fd/{base}/{number}{kind}" for kind in ("", ".work"))
        for made in (upper, work):
            os.mkdir(made)
        options = f"lowerdir=/proc/self/fd/{lowers[target]},upperdir={upper},workdir={work}"
        options += ",userxattr" if as_user else ",redirect_dir=on"  # a folder can be renamed without a copy
        if libc.mount(b"overlay", os.fsencode(target), b"overlay", 0, options.encode()) == 0:
            found.over[target] = os.path.join(found.folder, str(number))
        elif not _read_only(libc, target) and os.access(target, os.W_OK):
            found.open.append(target)


def _disks(paths: Iterable[str]) -> dict[str, int]:
    """Return the number of the disk that each of these paths lies on, as far as this user may ask."""
    found = dict[str, int]()
    for path in paths:
        with contextlib.suppress(OSError):
            found[path] = os.stat(path).st_dev
    return found


def _is_writable_memory(mounted: Mapping[str, tuple[str, bool]]) -> bool:
    kind, read_only = mounted.get(SHARED_MEMORY, ("", True))
    return kind == "tmpfs" and not read_only


def _may_be_its_own(used: Sequence[str], as_user: bool) -> bool:
    """Return whether a namespace may have shared memory of its own; not where what is `used` or mounted lies in it."""
    glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[-1:]  # another library has no such name
    if (glibc and _version(glibc[0]) < GLIBC) or (as_user and _version(os.uname().release) < TMPFS_FOR_USERS):
        return False
    return not os.path.exists(OF_NVIDIA) and not any(_below(path, SHARED_MEMORY) for path in used)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _folders_in_memory(used: Sequence[str]) -> list[str]:
    """Return the folders in the shared memory, without those that hold what is `used`."""
    with os.scandir(SHARED_MEMORY) as entries:
        found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(path for path in found if not any(_below(one, path) or one == path for one in used))


def _own_memory(libc: ctypes.CDLL, base: int, as_user: bool) -> bool:
    """Put memory of this namespace's own, as large as the shared memory, over that; return whether it could be had.

    `base` is the descriptor of the folder in which it gets its place.
    """
    told, mode = os.statvfs(SHARED_MEMORY), stat.S_IMODE(os.stat(SHARED_MEMORY).st_mode)
    options = f"size={told.f_blocks * told.f_frsize},mode={mode:o}".encode()
    if all(OF_A_PROCESS.match(name) for name in os.listdir(SHARED_MEMORY)):
        return libc.mount(b"tmpfs", SHARED_MEMORY.encode(), b"tmpfs", 0, options) == 0
    own = f"/proc/self/fd/{base}/memory"
    os.mkdir(own)
    if libc.mount(b"tmpfs", own.encode(), b"tmpfs", 0, options):
        return False
    upper, work = f"{own}/upper", f"{own}/work"
    for made in (upper, work):
        os.mkdir(made)
    os.chmod(upper, mode)
    layers = f"lowerdir={SHARED_MEMORY},upperdir={upper},workdir={work}" + ",userxattr" * as_user
    return libc.mount(b"overlay", SHARED_MEMORY.encode(), b"overlay", 0, layers.encode()) == 0


def _copied(path: str, copy: str) -> bool:
    """Copy a file with its times; return whether that could be had."""
    try:
        shutil.copy2(path, copy)
    except OSError:
        return False
    return True


def _opened(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _sockets(targets: Sequence[str]) -> list[str]:
    """Return the sockets within these folders at which somebody listens."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as lines:
            rows = [line.rstrip("\n").split(maxsplit=PATH) for line in lines][1:]
    except OSError:
        return []
    served = [row[PATH] for row in rows if len(row) > PATH and int(row[FLAGS], 16) & LISTENED_AT]
    return [path for path in dict.fromkeys(served) if any(_below(path, target) for target in targets)]


def _pipes_of_devices() -> list[str]:
    """Return the pipes of NVIDIA's multi-process service, if it runs."""
    paths = [os.path.join(os.environ.get(*MPS), name) for name in PIPES]
    with contextlib.suppress(OSError):
        kind = os.stat(paths[0]).st_mode
        return paths if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) else []
    return []


def _bound(libc: ctypes.CDLL, descriptor: int, path: str) -> bool:
    """Put what a descriptor leads to, with all mounts within it, at a path; return whether that could be had."""
    return libc.mount(f"/proc/self/fd/{descriptor}".encode(), os.fsencode(path), None, BIND | RECURSIVE, None) == 0


def _reached(paths: Iterable[str]) -> dict[str, int]:
    """Return descriptors of those paths that this user can reach: others have mounts in folders of their own."""
    found = dict[str, int]()
    for path in paths:
        with contextlib.suppress(OSError):
            found[path] = _opened(path)
    return found


def _below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


def _read_only(libc: ctypes.CDLL, path: str, inner: int = 0) -> bool:
    """Let nothing be written to a mount, or to a folder, in this namespace; return whether that could be had.

    What is mounted within it stays in its place, as it is, if `inner` is RECURSIVE.
    """
    where = os.fsencode(path)
    if path != "/" and libc.mount(where, where, None, BIND | inner, None):
        return False
    kept = os.statvfs(path).f_flag & (NO_SUID | NO_DEVICES | NO_EXECUTION)  # locked where a user namespace is needed
    return libc.mount(None, where, None, REMOUNT | BIND | READ_ONLY | kept, None) == 0


def unprotected(protection: Protection) -> str:
    """Return what to say where the system allows no overlays."""
    places = ", ".join(protection.open[:5])
    return (
        f"what the program writes to {places} would stay, since this system allows no overlay there; run it where it "
        "may mount (CAP_SYS_ADMIN, or user namespaces), or on a copy with --unprotected"
    )


def _mounted() -> dict[str, tuple[str, bool]]:
    """Return the kind of each mount, by its path, and whether it is read-only. A later mount hides an earlier one."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            rows = [line.split() for line in lines]
    except OSError:
        return {"/": ("", False)}
    return {
        re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), row[4]): (
            row[row.index("-") + 1],
            "ro" in row[5].split(","),
        )
        for row in rows
    }


def _targets(kinds: Mapping[str, tuple[str, bool]]) -> list[str]:
    """Return the folders to protect, of the mounts `kinds`, parents before what is mounted in them."""
    found = []
    for path, (kind, read_only) in kinds.items():
        if read_only or VIRTUAL.fullmatch(kind) or not os.path.isdir(path):
            continue
        if path == "/":
            inside = [os.path.join("/", name) for name in os.listdir("/")]
            found += [one for one in inside if os.path.isdir(one) and not os.path.islink(one) and one not in kinds]
        else:
            found.append(path)
    return sorted(one for one in found if one != DEVICES and not _below(one, DEVICES))


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
