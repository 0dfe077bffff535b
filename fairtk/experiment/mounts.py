"""Whether a folder lies on a network file system, where SQLite's write-ahead log does not work."""

from __future__ import annotations

from pathlib import Path

from fairtk.errors import StoreError

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = (
    *("nfs", "cifs", "smb", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "pvfs2"),
    *("orangefs", "ncpfs", "coda", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs"),
    *("fuse.rclone", "fuse.gcsfuse", "fuse.davfs", "davfs"),
)


def refuse_network_folder(folder: Path) -> None:
    """Raise if processes on several machines could have the folder's files open.

    Raises:
        StoreError: the folder lies on a network file system.
    """
    kind = file_system(folder)
    if kind.startswith(_NETWORK):
        raise StoreError(
            f"{folder}: this folder lies on a network file system ({kind}), where a store could "
            "be damaged: give a save_dir on a local disk, e.g. in $TMPDIR, and copy the folder "
            "when the experiment has ended"
        )


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of file system that a folder lies on; "" where that is not known.

    Args:
        folder: the folder, which must exist.
        mounts: Linux's table of mounts; other systems have none.
    """
    if not mounts.exists():
        return ""
    place = folder.resolve()
    found, depth = "", -1
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4].encode().decode("unicode_escape"))
        if place.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = right.split()[0], len(point.parts)
    return found
