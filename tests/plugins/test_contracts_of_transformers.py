"""Every built-in transformer passes the contract that plugin authors' transformers have to pass."""

from functools import cache

import pandas as pd
import pyterrier as pt
import pytest

from fairtk import (
    BM25Scorer,
    Candidates,
    FairSampler,
    Fitted,
    FlanT5,
    Generator,
    OracleSampler,
    PerSample,
    PlackettLuceExposure,
    Seen,
    demo,
)
from fairtk.datasets import lamp
from fairtk.plugins import registry
from fairtk.testing import (
    ScorerContract,
    TransformerContract,
    toy_qrels,
    toy_run,
    toy_samples,
    toy_topics,
)
from fairtk.transformers import DeterministicExposure, FairTransformer, OracleExposure


class TestFairSampler(TransformerContract):
    def make(self):
        return FairSampler(alpha=2, n_samples=5, cutoff=3)

    def others(self):
        return [FairSampler(alpha=2, n_samples=5), FairSampler(), FairSampler(seed=1)]

    def other_values(self):
        refused = {"target_disparity": 0.5, "max_relevance_loss": 0.1, "relevance": "scores"}
        return {"method": "stratified", **refused}


@pytest.mark.filterwarnings("ignore:.*all scores of:fairtk.errors.DataWarning")
class TestFairSamplerOnTies(TestFairSampler):
    def inp(self):
        return toy_run().assign(score=1.0).drop(columns="rank")


class TestOracleSampler(TransformerContract):
    def make(self):
        return OracleSampler(toy_qrels(), n_samples=5)

    def others(self):
        other = toy_qrels().assign(label=1)
        return [OracleSampler(toy_qrels(), n_samples=6), OracleSampler(other, n_samples=5)]


class TestCalibratedFairSampler(TransformerContract):
    def make(self):
        return FairSampler(max_relevance_loss=0.1, relevance="scores", n_samples=5, cutoff=2)

    def others(self):
        return [
            FairSampler(target_disparity=0.8, n_samples=5, cutoff=2),
            FairSampler(max_relevance_loss=0.2, relevance="scores", n_samples=5, cutoff=2),
            FairSampler(max_relevance_loss=0.1, relevance=toy_qrels(), n_samples=5, cutoff=2),
        ]

    def other_values(self):
        return {"method": "stratified", "alpha": 2, "target_disparity": 0.5}


# q4 has a single document, so that its disparity is 1
@pytest.mark.filterwarnings("ignore:FairSampler. target_disparity=0.9:fairtk.errors.DataWarning")
class TestFairSamplerToDisparity(TransformerContract):
    def make(self):
        return FairSampler(target_disparity=0.9, n_samples=5, cutoff=2)

    def other_values(self):
        refused = {"alpha": 2, "max_relevance_loss": 0.1, "relevance": "scores"}
        return {"method": "stratified", **refused}


class TestPlackettLuceExposure(TransformerContract):
    def make(self):
        return PlackettLuceExposure(alpha=2, cutoff=2)

    def others(self):
        return [
            *(PlackettLuceExposure(alpha=3, cutoff=2), PlackettLuceExposure(alpha=2)),
            PlackettLuceExposure(alpha=2, cutoff=2, browsing="DCG"),
        ]


class TestOracleExposure(TransformerContract):
    def make(self):
        return OracleExposure(toy_qrels(), cutoff=2)

    def others(self):
        return [OracleExposure(toy_qrels()), OracleExposure(toy_qrels().head(2), cutoff=2)]

    def other_values(self):
        return {"browsing": "RBP(p=0.8)"}


class TestFixedExposure(TransformerContract):
    def make(self):
        return DeterministicExposure(cutoff=2)

    def others(self):
        return [DeterministicExposure(), DeterministicExposure(cutoff=2, browsing="TREC")]


class TestBM25Scorer(ScorerContract):
    def make(self):
        return BM25Scorer()

    def others(self):
        return [BM25Scorer(k1=1.2), BM25Scorer(b=0.4), BM25Scorer(tokenize=str.split)]


class TestPerSample(TransformerContract):
    def make(self):
        return PerSample(BM25Scorer())

    def others(self):
        return [PerSample(BM25Scorer(), joint=True), PerSample(BM25Scorer(b=0.1))]

    def inp(self):
        return toy_samples()


class TestPerSampleJointly(TestPerSample):
    def make(self):
        return PerSample(BM25Scorer(), joint=True)

    def others(self):
        return [PerSample(BM25Scorer()), PerSample(BM25Scorer(b=0.1), joint=True)]


class TestPerSampleOnPlainRuns(TestPerSample):
    def inp(self):
        return toy_run()


class Boost(FairTransformer, pt.Estimator):
    """R -> R: adds a number to scores, which is times the number of training topics."""

    SETTINGS = ("times",)

    def __init__(self, times=2):
        super().__init__()
        self.times = times

    def fit(self, topics, qrels, *_):
        self.number = self.times * topics["qid"].nunique()

    def transform(self, inp):
        self.check_inputs(inp, ["qid", "docno", "score"])
        return inp.assign(score=inp["score"] + self.number)


class TestFitted(TransformerContract):
    topics = pd.DataFrame({"qid": ["1", "2", "3"], "query": "words"})
    qrels = pd.DataFrame({"qid": ["1", "2", "3"], "docno": "d1", "label": 1})
    folds = {"1": 0, "2": 1, "3": 2}

    def make(self):
        return Fitted(Boost(), self.topics, self.qrels, self.folds)

    def others(self):
        return [
            Fitted(Boost(3), self.topics, self.qrels, self.folds),
            Fitted(Boost(), self.topics.head(2), self.qrels, self.folds),
            Fitted(Boost(), self.topics, self.qrels.head(2), self.folds),
            Fitted(Boost(), self.topics, self.qrels),
            self.make().leave_out(1),
        ]

    def other_values(self):
        return {"system": Boost(5), "folds": {**self.folds, "1": 1}, "without": 2}


class TestSeen(TransformerContract):
    def make(self):
        return Seen(BM25Scorer())

    def others(self):
        return [Seen(BM25Scorer(b=0.1)), Seen(FairSampler(n_samples=2))]


@cache
def movies():
    return lamp.from_folder(demo.collection_folder(), task=2)


class TestCandidates(TransformerContract):
    def make(self):
        return Candidates(movies())

    def others(self):
        return [Candidates("lamp/2/dev"), Candidates("lamp/4/dev")]

    def inp(self):
        queries = pd.DataFrame(list(movies().queries_iter())[:4])
        return queries.rename(columns={"query_id": "qid"})[["qid", "query"]]


class Shouting:
    """A model that answers with the prompt's last words."""

    name = "shouting"
    tokenizer = None

    def __init__(self, words=3):
        self.words = words

    def generate(self, prompts):
        return [" ".join(prompt.split()[-self.words :]).upper() for prompt in prompts]

    def __repr__(self):
        return f"Shouting({self.words})"

    def __eq__(self, other):
        return repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))


class TestGenerator(TransformerContract):
    def make(self):
        return Generator(Shouting(), cutoff=2)

    def others(self):
        return [Generator(Shouting(4), cutoff=2), Generator(Shouting(), cutoff=3)]

    def other_values(self):
        return {"prompt": "lamp-2", "answer": "plain", "on_cut": "fail", "answers": 2}


class TestGeneratorOnSamples(TestGenerator):
    def inp(self):
        return toy_samples()


class TestGeneratorOnTopics(TestGenerator):
    def inp(self):
        return toy_topics()


class TestFlanT5(TransformerContract):
    @pytest.fixture(autouse=True)
    def _one_thread(self):
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

    def make(self):
        return FlanT5(
            model=demo.model_folder(), prompt="rag", cutoff=1, num_beams=2, max_new_tokens=3
        )

    def others(self):
        return [FlanT5(model=demo.model_folder(), prompt="lamp-2"), FlanT5()]

    def other_values(self):
        strings = {"device": "cpu", "dtype": "bfloat16", "revision": "main"}
        answers = {"answer": "plain", "on_cut": "fail", "answers": 2}
        return {"model": "./missing", "prompt": "lamp-2", **answers, **strings}

    def inp(self):
        return toy_run().iloc[[0, 6, 7]]  # two queries


@pytest.mark.parametrize("name", registry.transformers.names())
def test_every_spec_leads_to_its_class(name):
    assert registry.transformers.load(name).__name__ == name
    assert registry.transformers.get(name).summary
