"""Stored results and answers are found by new versions of fairtk and of plugins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairtk
from fairtk import FairSampler, Generator, demo
from fairtk.llm import HuggingFaceSeq2Seq
from fairtk.transformers import BM25Scorer

ROOT = Path(__file__).parents[2]
PLUGIN = """
import fairtk
class Declared(fairtk.FairSampler):
    identity_name = "acme_rank.Declared"
    output_version = 1
class Plain(fairtk.FairSampler):
    pass
"""
RUN = """
import json, sys
import fairtk
from acme_rank import Declared, Plain
from fairtk import BM25Scorer, FlanT5, demo
topics = demo.load().topics
topics = topics.head(3)
start = fairtk.experiment.identified(fairtk.Candidates(demo.load().dataset), "candidates")
reader = FlanT5(model=sys.argv[2], prompt="lamp-2", device="cpu")
systems = {
    "fairtk": start >> BM25Scorer() >> reader,
    "plugin": start >> BM25Scorer() >> Declared(n_samples=2, cutoff=2) >> reader,
    "undeclared": start >> BM25Scorer() >> Plain(n_samples=2, cutoff=2),
}
options = dict(save_dir=sys.argv[1])
before = fairtk.plan(systems, topics, **options)
results = fairtk.Experiment(systems, topics, **options)
print(json.dumps({
    "version": fairtk.__version__,
    "stored": before.cells.set_index("system")["stored"].to_dict(),
    "missing prompts": int(before.prompts["missing"].sum()),
}))
"""


def install(folder, version, plugin_version):
    """Write a copy of fairtk of some version, and a plugin with its metadata, into a folder."""
    shutil.copytree(
        ROOT / "fairtk", folder / "fairtk", ignore=shutil.ignore_patterns("__pycache__")
    )
    init = folder / "fairtk" / "__init__.py"
    text = init.read_text(encoding="utf-8")
    init.write_text(text.replace(fairtk.__version__, version), encoding="utf-8")
    (folder / "acme_rank.py").write_text(PLUGIN, encoding="utf-8")
    for name, number, module in (
        ("fairtk", version, "fairtk"),
        ("acme-rank", plugin_version, "acme_rank"),
    ):
        info = folder / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        (info / "top_level.txt").write_text(f"{module}\n")
        if name == "fairtk":
            (info / "entry_points.txt").write_text("[fairtk]\nbuiltin = fairtk.builtin\n")
    return folder


def run(folder, store):
    environment = {**os.environ, "PYTHONPATH": str(folder), "FAIRTK_PLUGINS": ""}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, str(store), str(demo.model_folder())],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_new_version_of_fairtk_and_of_a_plugin_finds_what_is_stored(tmp_path):
    old = install(tmp_path / "old", "0.3.0", "1.0")
    new = install(tmp_path / "new", "99.0.0", "2.0")
    first = run(old, tmp_path / "store")
    assert first["stored"] == {"fairtk": 0, "plugin": 0, "undeclared": 0}
    second = run(new, tmp_path / "store")
    assert second["version"] == "99.0.0"
    # a class that declares no output_version is recomputed
    assert second["stored"] == {"fairtk": 3, "plugin": 3, "undeclared": 0}
    assert second["missing prompts"] == 0
    third = run(new, tmp_path / "store")
    assert third["stored"] == {"fairtk": 3, "plugin": 3, "undeclared": 3}


@pytest.fixture
def work(tmp_path):
    data = demo.load()
    topics = data.topics.head(3)
    backend = HuggingFaceSeq2Seq(demo.model_folder(), device="cpu")
    start = fairtk.Candidates(data.dataset) >> BM25Scorer()
    systems = {
        "ranked": start,
        "sampled": start >> FairSampler(n_samples=2, cutoff=2),
        "answered": start >> FairSampler(n_samples=2, cutoff=2) >> Generator(backend, "lamp-2"),
        "fixed": start >> Generator(backend, "lamp-2", cutoff=2),
    }
    return systems, topics, {"save_dir": tmp_path / "store"}


def test_a_raised_output_version_recomputes_what_depends_on_it(work, monkeypatch):
    systems, topics, options = work
    fairtk.Experiment(systems, topics, **options)
    stored = fairtk.plan(systems, topics, **options)
    assert not stored.cells["missing"].any()
    monkeypatch.setattr(FairSampler, "output_version", 2)
    now = fairtk.plan(systems, topics, **options)
    counts = now.cells.set_index("system")["stored"].to_dict()
    assert counts == {"ranked": 3, "sampled": 0, "answered": 0, "fixed": 3}
