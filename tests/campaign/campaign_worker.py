"""A worker: runs cases one after the other, and may be thrown away at any of them.

It reads ``{"family": ..., "seed": ...}`` from standard input, a line each, and writes a verdict per
line to the file descriptor that it is given. Memory is bounded, so that a case which takes too much
ends in an error and not in a machine that swaps.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import shutil
import sys
import tempfile
import traceback
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
MORE_MEMORY = 3 << 29  # 1.5 GiB beyond what the imports took


def main() -> None:
    """Serve cases until the input ends."""
    results = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    faulthandler.enable()
    sys.path.insert(0, str(HERE))
    prepare()
    root = Path(tempfile.mkdtemp(prefix="campaign-"))
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            verdict = run(asked["family"], asked["seed"], root)
            results.write(json.dumps(verdict) + "\n")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def prepare() -> None:
    """Import what cases need, make the plugin of the repository known, and bound the memory."""
    import campaign_files  # noqa: F401
    import campaign_frames  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pyterrier  # noqa: F401

    from fairtk import plugins
    from fairtk.plugins.registry import measures

    classic = HERE.parents[1] / "plugins" / "fairtk-classic"
    if "ABR" not in measures.names() and classic.is_dir():
        sys.path.append(str(classic))
        import fairtk_classic

        plugins.register(fairtk_classic, "fairtk-classic", "0")
    limit = memory("VmData:") + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))


def memory(name: str) -> int:
    """Return a figure of /proc/self/status in bytes; 0 where there is none."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) << 10
    return 0


def run(family: str, seed: int, root: Path, show: bool = False) -> dict[str, object]:
    """Return the verdict of a case as a mapping."""
    import campaign_files
    import campaign_folders
    import campaign_frames
    from campaign_case import CAMPAIGN, MEMORY, Verdict

    folder = root / str(seed)
    folder.mkdir()
    try:
        families = {
            "files": campaign_files.run_case,
            "folders": campaign_folders.run_case,
            "frames": campaign_frames.run_case,
        }
        verdict = families[family](seed, folder, show)
    except MemoryError:
        verdict = Verdict(family, seed, outcome=MEMORY, detail=traceback.format_exc(limit=-3))
    except Exception:
        verdict = Verdict(family, seed, outcome=CAMPAIGN, detail=traceback.format_exc(limit=-4))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return asdict(verdict)


if __name__ == "__main__":
    main()
