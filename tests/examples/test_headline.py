"""The headline pipeline on a real index: PISA, text loader, sampler, generator, Experiment."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_R, EU, E, FairSampler, FlanT5

# the demo's model writes lower case, and rougeL of the golds is 0
pytestmark = pytest.mark.filterwarnings("ignore:.*is 0 for all answers:fairtk.errors.DataWarning")
pisa = pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")

TOPICS = pd.DataFrame(
    {
        "qid": ["1", "2", "3", "4"],
        "query": ["robot on the moon", "wedding by the sea", "detective and storm", "moon wedding"],
    }
)
TEXTS = {
    "d01": "A robot digs on the moon and dreams of the sea.",
    "d02": "Two robots lose a race to the moon.",
    "d03": "A wedding by the sea goes wrong at the cake.",
    "d04": "A detective counts clouds before the storm.",
    "d05": "The storm takes the roof, and the detective takes the case.",
    "d06": "Nobody expects a second wedding on the same day.",
    "d07": "The moon is missing; a detective asks the tide.",
    "d08": "A lighthouse keeper by the sea paints robots.",
    "d09": "A moon, a wedding, a storm and no umbrella.",
    "d10": "The sea is calm. The band is not.",
    "d11": "A cook becomes mayor by mistake.",
    "d12": "The robot detective retires to the sea.",
}
USEFUL = {"1": ["d01", "d02"], "2": ["d03"], "3": ["d04", "d05"], "4": ["d09", "d06", "d07"]}
GOLD = {"1": "sci-fi", "2": "romance", "3": "action", "4": "comedy"}
MEASURES = [EE_D @ 5, EE_R @ 5, E(nDCG @ 5), EU(utility="rougeL")]


@pytest.fixture(scope="module")
def qrels() -> pd.DataFrame:
    # every document is judged, so that n does not depend on what a system retrieves
    rows = [(q, d, int(d in useful)) for q, useful in USEFUL.items() for d in TEXTS]
    labels = pd.DataFrame(rows, columns=["qid", "docno", "label"])
    answers = pd.DataFrame(GOLD.items(), columns=["qid", "gold_answer"])
    return fairtk.join_answers(labels, answers)


@pytest.fixture(scope="module")
def retriever(tmp_path_factory):
    docs = pd.DataFrame(TEXTS.items(), columns=["docno", "text"])
    index = pisa.PisaIndex(str(tmp_path_factory.mktemp("pisa") / "index"), text_field="text")
    index.index(docs.to_dict("records"))
    texts = docs.set_index("docno")
    text_loader = pt.apply.generic(lambda run: run.join(texts, on="docno"))
    return index.bm25(num_results=12) >> text_loader


@pytest.fixture(scope="module")
def systems(retriever):
    reader = FlanT5(model=fairtk.demo.model_folder(), device="cpu", max_new_tokens=4)
    sampler = FairSampler(alpha=2, n_samples=6, cutoff=5)
    return [retriever >> reader, retriever >> sampler >> reader]


@pytest.fixture(scope="module")
def experiment(systems, qrels):
    def run(**how):
        table = pt.Experiment(
            systems,
            TOPICS,
            qrels,
            MEASURES,
            names=["bm25", "alpha 2"],
            baseline=0,
            verbose=False,
            **how,
        )
        return table.set_index("name")

    return run


@pytest.fixture(scope="module")
def reference(experiment):
    with pytest.warns(UserWarning, match="shared pipeline components"):
        return experiment()


def test_headline(reference):
    means = reference[[str(m) for m in MEASURES]]
    assert means.notna().all(axis=None)
    assert ((means >= 0) & (means <= 1)).all(axis=None)
    # a deterministic ranking has the largest disparity, a sampled one less
    assert reference.loc["bm25", "EE_D@5"] == 1
    assert reference.loc["alpha 2", "EE_D@5"] < 0.9
    # the comparison with the baseline is there: every query is more even
    assert reference.loc["alpha 2", "EE_D@5 -"] == 4
    assert 0 < reference.loc["alpha 2", "EE_D@5 p-value"] < 0.5


@pytest.mark.parametrize(
    "how",
    [{"batch_size": 1}, {"batch_size": 3}, {"plan": "tree"}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:There are shared pipeline components:UserWarning")
def test_same_numbers_however_it_is_run(experiment, reference, how):
    table = experiment(**how)
    assert list(table.columns) == list(reference.columns)
    np.testing.assert_allclose(
        table.to_numpy(dtype=float), reference.to_numpy(dtype=float), rtol=0, atol=1e-12
    )


def test_order_of_topics_changes_nothing(systems):
    columns = ["qid", "sample", "rank", "docno", "qanswer"]
    forward = systems[1](TOPICS)[columns].sort_values(columns[:3], ignore_index=True)
    backward = systems[1](TOPICS[::-1])[columns].sort_values(columns[:3], ignore_index=True)
    pd.testing.assert_frame_equal(forward, backward)


def test_texts_are_loaded_before_the_generator(systems):
    run = systems[1](TOPICS.head(1))
    assert run["text"].tolist() == [TEXTS[d] for d in run["docno"]]


def test_generator_without_texts_says_what_to_do(systems):
    sampled = systems[1](TOPICS.head(1)).drop(columns=["text", "qanswer"])
    reader = FlanT5(model=fairtk.demo.model_folder())
    with pytest.raises(fairtk.errors.ColumnError, match="text_loader"):
        reader(sampled)
