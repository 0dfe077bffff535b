"""The versions that an experiment ran with."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from datetime import UTC, datetime
from typing import Any

_PACKAGES = (
    *("fairtk", "pyterrier", "ir_measures", "ir_datasets", "numpy", "pandas", "scipy", "pyarrow"),
    *("pytrec-eval-terrier", "cwl-eval", "pyterrier-pisa", "pyterrier-rag"),
    *("torch", "transformers", "tokenizers", "distributed"),
)


def environment() -> dict[str, Any]:
    """Return versions and the kind of machine, as JSON values; nothing that names a user."""
    from fairtk import __version__

    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "fairtk": __version__,
        "python": sys.version.split()[0],
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": versions,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
