"""FAIR-QR refines what a dense retriever is asked, too."""

import ir_measures
import pytest
from fairtk_baselines import VectorSearch

from fairtk import AWRF, FairQR
from fairtk.demo.invented_people import write_invented_folder
from fairtk.llm import KeywordRefiner

pytest.importorskip("fairtk_papers")

from fairtk_papers.fair_qr import from_trec_fair

NAMES = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}

pytestmark = pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")


@pytest.mark.parametrize("rerank", [True, False])
def test_exposure_gets_nearer_to_its_target(rerank, tmp_path, monkeypatch):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    write_invented_folder(tmp_path / "wiki")
    data = from_trec_fair(tmp_path / "wiki", ["gender"])
    groups, target = data.attributes["gender"]
    search = VectorSearch("lsa", data.documents, tmp_path / "index", collection=data.collection)
    refined = FairQR(search, groups, target, KeywordRefiner(), depth=10, rerank=rerank)
    measure = AWRF(groups=groups, target=target) @ 10
    before, after = (
        ir_measures.calc_aggregate(
            [measure], data.qrels.rename(columns=NAMES), system(data.topics).rename(columns=NAMES)
        )[measure]
        for system in (search, refined)
    )
    trace = refined.trace
    assert trace["iteration"].max() >= 1
    assert after > before
    # every list that was kept is nearer to the target than the one before
    kept = trace[trace["kept"]].groupby("qid")["divergence"]
    assert kept.apply(lambda d: d.is_monotonic_decreasing).all()
