"""Studies whose servers cut prompts: the utility is undefined, in each table, figure and page."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from fairtk_papers.fair_rag import RagResults, save_model_sections
from fairtk_papers.fair_rag.figures import plot_trade_off, trade_off_text
from fairtk_papers.fair_rag.results import write_figures
from fairtk_papers.fair_rag.tables import MODEL, normalized_utility, trade_offs
from rag_world import study
from test_normalizing import frame, value

from fairtk import Generator, prompts
from fairtk.errors import UndefinedWarning
from fairtk.experiment import open_results
from fairtk.llm import Completion
from fairtk.report.page import load_sections, page_text

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")

TAG = re.compile(r"\. is ([\w -]+)[.,]")


class ShortWindow:
    """A model that names the tags of the passages; its server cuts prompts with more than one."""

    name = "short window"

    def generate(self, prompts):
        return [self.answer(TAG.findall(text)) for text in prompts]

    def answer(self, tags):
        tokens = 2 if len(tags) > 1 else None
        return Completion(f"It is {' or '.join(tags)}.", prompt_tokens=tokens)

    def digest(self):
        return self.name


class LongWindow(ShortWindow):
    name = "long window"

    def answer(self, tags):
        return Completion(f"It is {' or '.join(tags)}.")


def reader(model):
    return lambda task, cutoff: Generator(model, prompts.get(f"lamp-{task}"), cutoff)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut")
    settings = {"utility": "contains", "credit": "one-out"}
    cut = study(folder, make=reader(ShortWindow()), **settings)
    cut.generators["other"] = reader(LongWindow())
    result = cut.run(keep_rankings=True)
    return result, folder, result.save(folder)


def test_statuses_by_model_and_policy(results):
    result, folder, _ = results
    rows = result.answer_status.set_index(["generator", "alpha"])
    assert not rows.index.duplicated().any()
    # 3 queries with 3 rankings per alpha and of the oracle, and one deterministic ranking
    expected = {0.0: 9, 8.0: 9, "oracle": 9, "deterministic": 3}
    for generator, status in (("tiny", "prompt cut"), ("other", "ok")):
        part = rows.xs(generator)
        assert part[status].to_dict() == expected
        assert (part.drop(columns=["task", "retriever", status]) == 0).all(axis=None)
    loaded = RagResults.load(folder).answer_status
    pd.testing.assert_frame_equal(loaded, result.answer_status, check_dtype=False)
    pd.testing.assert_frame_equal(result.tables()["answer_status"], result.answer_status)


def test_tables(results):
    result, _, folder = results
    tables = result.tables()
    keys = {"value", "EU", "normalized EU", "baseline"}
    for name, table in tables.items():
        if "generator" not in table or name in ("answer_status", "label_agreement"):
            continue
        cut, other = (table[table["generator"] == generator] for generator in ("tiny", "other"))
        # each model has the same rows, whether its values are defined or not
        shape = [c for c in ("alpha", "policy", "interval", "x", "y", "statistic") if c in table]
        assert (
            cut[shape].astype(str).to_numpy().tolist()
            == other[shape].astype(str).to_numpy().tolist()
        ), name
        if "y" in table:
            cut = cut[cut["y"] == "normalized EU"]
        if name == "credit":
            assert (cut["undefined"] == 1).all()
        for column in keys & {*table.columns} - ({"value"} if name == "uniform_end" else set()):
            assert cut[column].isna().all(), (name, column)
        if "note" in table and "value" in table:
            assert (cut["note"] != "").all(), name
    for path in (p for p in (folder / "tables").iterdir() if p.suffix != ".csv"):
        assert not re.search(r"\bnan\b", path.read_text(encoding="utf-8")), path.name
    means = result.means_with_intervals()
    assert set(means.loc[means["generator"] == "tiny", "EU"]) == {"undefined"}


@pytest.mark.slow
def test_figures_and_pages(results):
    result, folder, settings = results
    write_figures(result, settings)
    assert len([*(settings / "figures").glob("*.svg")]) >= 8
    places = save_model_sections(result, folder)
    for place in places:
        text = page_text(open_results(place), sections=load_sections(place))
        assert "undefined" in text
        at = re.search(r"[ >]nan\b", text)
        assert at is None, text[at.start() - 300 : at.end()]


def test_a_line_without_points():
    rows = [
        ("LaMP-2", "BM25", "g", alpha, qid, measure, value)
        for alpha in (0, 8, "deterministic")
        for qid in "ab"
        for measure, value in (("EE_D", 0.5), ("EE_R", 0.5), ("normalized EU", np.nan))
    ]
    values = pd.DataFrame(rows, columns=[*MODEL, "alpha", "qid", "measure", "value"])
    for x in ("EE_D", "EE_R"):
        [legend] = plot_trade_off(values, x, "normalized EU").legends
        assert [text.get_text() for text in legend.texts] == ["BM25 (undefined)"]
        assert "BM25: undefined" in trade_off_text(values, x, "normalized EU", "a figure")
    slopes = trade_offs(values)
    assert slopes.groupby("table").size().to_dict() == {3: 4, 4: 4, 5: 4}
    undefined = slopes[slopes["table"] > 3]
    assert undefined["value"].isna().all() and (undefined["note"] != "").all()
    assert (undefined["queries"] == 0).all()


def test_undefined_utilities_are_not_normalized():
    nan = np.nan
    runs = pd.concat(
        [
            # the mean of alpha 1 and the best ranking are unknown
            frame({1: [0.2, nan], 8: [0.4, 0.4], "oracle": [0.5], "deterministic": [0.1]}, "a"),
            # the best ranking may be the oracle's second one
            frame({1: [0.2, 0.4], "oracle": [0.5, nan]}, "b"),
            # only the deterministic ranking, which does not count for the best, is unknown
            frame({1: [0.2, 0.4], "oracle": [0.5], "deterministic": [nan]}, "c"),
            frame({1: [0.0], "oracle": [0.0], "deterministic": [nan]}, "d"),
        ]
    )
    with pytest.warns(UndefinedWarning, match="'a', 'b', 'c', 'd'"):
        result = normalized_utility(runs)
    rows = result[result["retriever"] == "BM25"]
    assert rows[rows["qid"].isin(["a", "b"])]["value"].isna().all()
    assert value(result, 1, "c") == pytest.approx(0.3 / 0.5)
    assert np.isnan(value(result, "deterministic", "c"))
    assert value(result, 1, "d") == 1.0 and np.isnan(value(result, "deterministic", "d"))
