"""What setup.cfg cannot say: authors and addresses, which release.toml has."""

import tomllib
from pathlib import Path

from setuptools import setup

release = tomllib.loads(Path(__file__).with_name("release.toml").read_text(encoding="utf-8"))
setup(
    author=", ".join(a.get("name") or f"{a['given']} {a['family']}" for a in release["authors"]),
    project_urls={
        "Documentation": release["site"],
        "Source": release["repository"],
        "Changelog": f"{release['repository']}/blob/main/CHANGELOG.md",
    },
)
