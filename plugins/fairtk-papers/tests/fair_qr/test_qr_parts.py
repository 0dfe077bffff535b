"""Parts of a study: folds, names of files, tables as text, BM25 over a collection."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
import qr_world
from fairtk_papers.fair_qr.report import latex
from fairtk_papers.fair_qr.values import iterations
from fairtk_papers.studies import file_name
from hypothesis import given
from hypothesis import strategies as st

from fairtk.display import Table
from fairtk.errors import DataWarning, NotFoundError, ParameterError
from fairtk.experiment import folds
from fairtk.llm import KeywordRefiner
from fairtk.testing import TransformerContract
from fairtk.transformers import CollectionBM25
from fairtk.transformers.candidates import SeenNames

QIDS = st.lists(st.text(max_size=8), min_size=1, max_size=40, unique=True)


# Folds -------------------------------------------------------------------------------------------


@given(QIDS, st.integers(2, 9), st.integers(0, 99), st.randoms(use_true_random=False))
def test_folds_are_even_and_know_no_order(qids, count, seed, rng):
    found = folds(qids, count, seed)
    assert found.keys() == set(qids)
    sizes = Counter(found.values())
    assert set(sizes) == set(range(min(count, len(qids))))
    assert max(sizes.values()) - min(sizes.values()) <= 1
    shuffled = rng.sample(qids, len(qids))
    assert folds(shuffled, count, seed) == found


def test_folds_come_from_chance():
    qids = [str(n) for n in range(100)]
    found = [tuple(map(folds(qids, 4, seed).get, qids)) for seed in range(20)]
    assert len(set(found)) == 20
    # neighbors share a fold in about a quarter of the cases, as they would by chance
    together = np.mean([fold[n] == fold[n + 1] for fold in found for n in range(99)])
    assert 0.2 < together < 0.3


# Files -------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=12) | st.text("aAbB.%-_=", max_size=5), unique=True, max_size=30))
def test_names_of_files_differ_even_where_case_does_not(texts):
    names = [file_name(text) for text in texts]
    assert len({name.lower() for name in names}) == len(texts)
    assert all(re.fullmatch(r"[\w~=% -]+", name, re.ASCII) and len(name) < 200 for name in names)
    assert file_name("12") == "12" and file_name("a/b").partition("=")[0] == "a%2Fb"
    assert file_name("x" * 180) == "x" * 180 and len(file_name("x" * 5000)) < 200
    # nobody can choose a text that is another one's name
    assert file_name(file_name("A").lower()).lower() != file_name("A").lower()


# Ids --------------------------------------------------------------------------------------------

ODD = ["a/b", "..", "con 1.x", "Ä|ö&$", "A/B", "q" * 300, "100%", '"\\]']


@pytest.mark.slow
def test_odd_qids_go_through_a_whole_study(gender, tmp_path):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    names = dict(zip(gender.topics["qid"], ODD, strict=True))
    groups, target = gender.attributes["gender"]
    frame = target.to_frame()
    target = type(target).from_frame(frame.assign(qid=frame["qid"].map(names)), groups=groups)
    data = replace(
        gender,
        topics=gender.topics.assign(qid=gender.topics["qid"].map(names)),
        qrels=gender.qrels.assign(qid=gender.qrels["qid"].map(names)),
        attributes={"the_gender (|x|)": (groups, target)},
    )
    only = {"systems": ("fair-qr",)}
    study = qr_world.study(data, tmp_path / "odd", KeywordRefiner(terms=1), **only)
    results = study.run()
    assert set(results.per_query["qid"]) == set(ODD) and results.missing.empty
    assert not any(study.pending(cell) for cell in study.cells)
    page = results.save(tmp_path / "odd").read_text()
    links = re.findall(r"!\[(?:[^\]\\]|\\.)*\]\(([^)]*)\)", page)
    assert len(links) == 4  # trade-off, refinements, the two most telling topics
    for link in links:
        assert " " not in link and (tmp_path / "odd" / unquote(link)).is_file()
    # every row of a table in Markdown has as many cells as its header
    tables = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    assert len(tables) == 7
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


# Tables ------------------------------------------------------------------------------------------


def test_latex_has_a_sign_of_multiplication():
    assert r"a & nDCG $\times$ AWRF \\" in latex(Table(["a", "nDCG x AWRF"], [["b", "c"]]))


# Counts ------------------------------------------------------------------------------------------


def test_iterations_are_counted_by_hand():
    trace = pd.DataFrame(
        [("1", 0, True), ("1", 1, True), ("1", 2, False), ("2", 0, True), ("3", 0, True),
         ("3", 1, True), ("3", 2, True), ("3", 3, True), ("3", 4, False)],
        columns=["qid", "iteration", "kept"],
    )  # fmt: skip
    found = iterations(trace).set_index("count")
    # asked: 2, 0, 4; kept: 1, 0, 3
    assert found.loc["asked"].tolist() == [2.0, 1.0, 2.0, 3.0, 4, 3]
    assert found.loc["kept", ["mean", "25%", "50%", "75%"]].tolist() == [4 / 3, 0.5, 1.0, 2.0]
    assert iterations(trace[:0]).columns.tolist() == ["count", *found.columns]


# BM25 --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    docs = [{"docno": f"d{n}", "text": "tie " * (1 + n // 4)} for n in range(8)]
    docs.append({"docno": "other", "text": "tide mill"})
    return CollectionBM25(tmp_path_factory.mktemp("bm25") / "index", lambda: docs, num_results=6)


class TestCollectionBM25(TransformerContract):
    @pytest.fixture(autouse=True)
    def _set(self, bm25):
        self.bm25 = bm25

    def make(self):
        return CollectionBM25(self.bm25.folder, self.bm25.documents, num_results=6)

    def others(self):
        one = self.bm25.folder, self.bm25.documents
        return [CollectionBM25(*one), CollectionBM25(*one, k1=1.2), CollectionBM25(*one, b=0.75)]

    def other_values(self):
        folder = Path(self.bm25.folder).with_name("other values")
        return {"folder": str(folder), "documents": lambda: self.bm25.documents()}

    def inp(self):
        queries = ["(Tie* AND", "?!", 'tide~2 "mill"']
        return pd.DataFrame({"qid": ["3", "1", "2"], "query": queries, "more": ["x", "y", "z"]})

    def test_queries_are_bags_of_words_and_come_back_whole(self):
        run = self.bm25(self.inp())
        assert list(run) == ["qid", "query", "more", "docno", "score", "rank"]
        assert list(dict.fromkeys(run["qid"])) == ["3", "2"]  # the order of the queries
        assert run.set_index("qid")["more"].to_dict() == {"3": "x", "2": "z"}
        assert run[run["qid"] == "2"]["docno"].tolist() == ["other"]
        assert list(self.bm25(run)) == list(run)  # rankings are queries, too


def test_equal_scores_are_ordered_by_docno_descending(bm25):
    run = bm25(pd.DataFrame({"qid": ["1"], "query": ["tie"]}))
    assert run["docno"].tolist()[:4] == ["d7", "d6", "d5", "d4"]
    assert run["rank"].tolist() == list(range(6)) and run["score"].is_monotonic_decreasing
    assert run["score"].dtype == np.float64


def test_threads_change_no_result(tmp_path):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    rng = np.random.default_rng(5)
    words = np.array([f"w{i}" for i in range(50)])
    docs = [{"docno": f"d{i}", "text": " ".join(rng.choice(words, 8))} for i in range(300)]
    docs += [{"docno": "d7", "text": "a second record of an id"}]
    queries = pd.DataFrame({"qid": ["1", "2"], "query": ["w1 w2 w3", "second record"]})
    with pytest.warns(DataWarning, match="1 of 301 documents.*'d7'"):
        runs = [CollectionBM25(tmp_path / str(n), lambda: docs, threads=n)(queries) for n in (1, 3)]
    pd.testing.assert_frame_equal(*runs)
    assert set(runs[0]["qid"]) == {"1"}  # the first record of an id counts
    with pytest.raises(ParameterError, match="threads"):
        CollectionBM25(tmp_path, lambda: docs, threads=0)


ONE_CORE = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import pandas as pd
from fairtk.transformers import CollectionBM25, candidates
candidates._BATCH = 5
docs = [{"docno": f"d{n}", "text": "a word"} for n in range(40)]
topics = pd.DataFrame({"qid": ["1"], "query": ["word"]})
print(len(CollectionBM25(sys.argv[1], lambda: docs)(topics)))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away here")
def test_one_core_is_enough(tmp_path):
    """PISA has no thread there that would take a batch, and waited for one."""
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    command = [sys.executable, "-c", ONE_CORE, str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "40\n", done.stderr


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=12))
def test_names_that_occurred(batches):
    seen, known = SeenNames(), set()
    for batch in batches:
        expected = []
        for name in batch:
            expected.append(name not in known)
            known.add(name)
        assert seen.add(batch).tolist() == expected


def test_settings_share_a_folder(bm25, tmp_path):
    queries = pd.DataFrame({"qid": ["1"], "query": ["tie"]})
    bm25(queries)
    searching = {"num_results": 6, "k1": 1.2, "b": 0.75}
    other = CollectionBM25(bm25.folder, lambda: pytest.fail("read again"), **searching)
    assert other(queries).equals(CollectionBM25(tmp_path, bm25.documents, **searching)(queries))
    # tf of d7 and of d0 is 2 and 1: the scores' ratio depends on k1 and b
    runs = (bm25(queries), other(queries))
    ratios = [run["score"].iloc[0] / run["score"].iloc[-1] for run in runs]
    assert ratios[0] != pytest.approx(ratios[1])
    kept = CollectionBM25(bm25.folder, lambda: pytest.fail("read again"), num_results=6)
    kept.prepare()
    assert kept(queries).equals(bm25(queries))
    for wrong in ({"k1": -1}, {"b": 1.5}, {"b": True}, {"k1": "x"}, {"num_results": 0}):
        with pytest.raises(ParameterError):
            CollectionBM25(tmp_path, None, **wrong)


def test_changes_of_unknown_systems_and_attributes_are_refused(gender, tmp_path):
    results = qr_world.study(gender, tmp_path, KeywordRefiner(), systems=("bm25",)).run()
    with pytest.raises(NotFoundError, match="'fair-qr'"):
        results.changes("gender")
    with pytest.raises(NotFoundError, match="'gendr'.*'gender'"):
        results.changes("gendr")
