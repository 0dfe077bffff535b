"""What notebooks show: first rows, with everything escaped."""

import pandas as pd
import pytest
from small_frames import small_groups

import fairtk
from fairtk import Target
from fairtk.display.tables import frame_html


def test_first_rows_and_how_many_more():
    html = frame_html(pd.DataFrame({"a": range(25), "b": "<x>"}), "of & all", most=20)
    assert html.count("<tr>") == 21
    assert "&lt;x&gt;" in html and "<x>" not in html
    assert html.endswith("<p>of &amp; all (5 more rows)</p>")


def test_groups_and_targets():
    groups = small_groups("abcc", "xyxy")
    html = groups._repr_html_()
    assert "<th>documents</th>" in html and "3 documents" in html and "side" in html
    other = small_groups("abcc", "xyxy", "other")
    assert (groups * other)._repr_html_().count("<table>") == 2
    target = Target.uniform(groups, unknown=False)._repr_html_()
    assert target.count("0.5000") == 2 and "Target over side" in target


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
def test_explanations_and_the_demo():
    groups = small_groups("ab", "xy")
    measure = fairtk.AWRF(groups=groups, target=Target.uniform(groups, unknown=False)) @ 2
    run = pd.DataFrame({"qid": "1", "docno": ["a"], "score": [1.0]})
    qrels = pd.DataFrame({"qid": "1", "docno": ["b"], "label": [1]})
    html = fairtk.explain(qrels, run, measure)._repr_html_()
    assert "<th>cost</th>" in html and ".by_rank" in html
    # group x: shown alone; y: not at all; half of the target each
    assert 'aria-label="1, target 0.5"' in html and 'aria-label="0, target 0.5"' in html
    assert "84 topics" in fairtk.demo.load()._repr_html_()
