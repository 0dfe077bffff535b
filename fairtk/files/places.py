"""What the place of a file allows: locks between processes, and whether it is on a network."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "lustre"),
        *("gpfs", "beegfs", "glusterfs", "orangefs", "pvfs2", "9p", "fuse.sshfs"),
        *("fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"),
    )
)
"""File systems on which several machines may write; locks and shared memory fail there."""

_MOUNTS = Path("/proc/self/mounts")


def network_of(path: Path) -> str:
    """Return the name of the network file system that a path is on; empty: none that is known.

    The file need not be there, its folder must be.
    """
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place = path.resolve()
    found, kind = -1, ""
    for line in lines:
        _, where, name, *_ = line.split(" ")
        point = Path(where.replace("\\040", " "))
        # of two mounts on one point the later is on top
        if len(point.parts) >= found and place.is_relative_to(point):
            found, kind = len(point.parts), name
    return kind if kind in NETWORK else ""


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """Keep other processes (and threads) that ask for the same away from a folder or file.

    It must be there. The system frees the lock when a process dies. Where it has no such locks,
    nothing is locked.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        number = os.open(place, os.O_RDONLY)
    except OSError:  # a place that may not be read
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
