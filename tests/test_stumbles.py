"""What made a newcomer stop: each guess works, or its message says what to write."""

import numpy as np
import pandas as pd
import pytest
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, FairSampler, Results
from fairtk.errors import DataWarning, FormatError, ParameterError
from fairtk.measures import parse
from fairtk.transformers import CollectionBM25

QRELS = pd.DataFrame({"qid": ["1", "2"], "docno": ["d0", "d3"], "label": 1})
RUN = pd.DataFrame(
    [(q, f"d{d}", 9.0 - d) for q in "12" for d in range(8)], columns=["qid", "docno", "score"]
)
SAMPLES = FairSampler(alpha=2, n_samples=200, cutoff=3)(RUN)
GROUPS = pd.DataFrame({"docno": [f"d{d}" for d in range(8)], "group": list("xyxyxyxy")})


def test_the_point_of_a_sampled_run_is_near_the_exact_curve():
    sweep = fairtk.frontier(QRELS, {"r": RUN, "s": SAMPLES}, "EE_D@3", "EE_D@3", alphas=[2])
    exact, sampled = (sweep.curve.set_index("system").loc[name, "x"] for name in "rs")
    plain = fairtk.evaluate(QRELS, SAMPLES, "EE_D@3").means.iloc[0, 0]
    unbiased = fairtk.evaluate(QRELS, SAMPLES, "EE_D(estimator='unbiased')@3").means.iloc[0, 0]
    assert sampled == unbiased < plain
    assert abs(unbiased - exact.iloc[0]) < 0.02


def test_a_frontier_warns_of_runs_with_different_documents():
    shallow = RUN.groupby("qid").head(4)
    with pytest.warns(DataWarning, match=r"qid .1.: 4 to 8"):
        fairtk.frontier(QRELS, {"r": RUN, "s": shallow}, "EE_D@3", "EE_R@3", alphas=[1])


def test_a_measure_may_stand_alone_in_an_experiment():
    for measure in ("EE_D@3", EE_D @ 3):
        assert fairtk.Experiment({"r": RUN}, None, QRELS, measure).means.loc["r", "EE_D@3"] == 1


def test_groups_may_have_names():
    results = fairtk.evaluate(QRELS, RUN, "AWRF@4", groups={"side": GROUPS}, target="uniform")
    assert results.measures == ["AWRF(groups='side',target='uniform')@4"]
    np.testing.assert_allclose(results.means, 0.99, atol=0.01)  # ranks 1 to 4 alternate


@pytest.mark.parametrize("target", ["uniform", "population"])
def test_a_measure_may_name_its_target_only(target):
    in_measure = fairtk.evaluate(QRELS, RUN, f"AWRF(target='{target}')@4", groups=GROUPS)
    in_option = fairtk.evaluate(QRELS, RUN, "AWRF@4", groups=GROUPS, target=target)
    np.testing.assert_array_equal(in_measure.means, in_option.means)
    with pytest.raises(ParameterError, match="`groups`"):
        fairtk.evaluate(QRELS, RUN, f"AWRF(target='{target}')@4")


def test_citing_objects():
    assert fairtk.cite(EE_D @ 5) == fairtk.cite("EE_D")
    assert fairtk.cite(FairSampler) == fairtk.cite(FairSampler()) == fairtk.cite("FairSampler")


def test_messages_say_what_to_write(tmp_path):
    with pytest.raises(ParameterError, match=r"write E\(nDCG@3\)"):
        fairtk.precision(QRELS, SAMPLES, nDCG @ 3)
    with pytest.raises(ParameterError, match="estimator='unbiased'"):
        parse("EE_D(estimator=unbiased)@5")
    with pytest.raises(ParameterError, match="lambda"):
        CollectionBM25(tmp_path, [{"docno": "d", "text": "t"}])
    with pytest.raises(FormatError, match="nowhere"):
        Results.load(tmp_path / "nowhere")
    fairtk.Experiment({"r": FairSampler(n_samples=2)}, RUN, QRELS, "EE_D@3", save_dir=tmp_path)
    with pytest.raises(FormatError, match="open_results"):
        Results.load(tmp_path)
