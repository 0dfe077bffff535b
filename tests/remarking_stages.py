"""Pipelines that make remarks, by kind, importable by workers and other processes."""

import json

import numpy as np
import pandas as pd
from experiment_stages import Retriever
from word_tokenizer import WordTokenizer

import fairtk
from fairtk import Candidates, FairQR, FairSampler, Generator, Groups, QueryRefiner, Target
from fairtk import remarks as kinds
from fairtk.credit import Citations
from fairtk.datasets import lamp
from fairtk.errors import DataWarning
from fairtk.llm import ChatModel, Completion, FunctionModel
from fairtk.measures import RemarkKind
from fairtk.transformers import FairTransformer, remark

QIDS = [f"q{i}" for i in range(7)]
EVEN, ODD = QIDS[::2], QIDS[1::2]
TOPICS = pd.DataFrame({"qid": QIDS, "query": [f"words of {qid}" for qid in QIDS]})
OWN = "tests:few documents"


class Shorter(FairTransformer):
    """R -> R: the first four documents of queries with an odd number, with a remark on them."""

    SETTINGS = ()
    REMARKS = {OWN: RemarkKind(DataWarning, "{stage}: fewer documents for {queries}: {detail}")}

    def transform(self, inp):
        out = inp[(inp["rank"] < 4) | ~inp["qid"].str[-2:].isin(ODD)].reset_index(drop=True)
        qids = inp["qid"].unique()
        n_lost = inp["qid"].value_counts()[qids] - out["qid"].value_counts()[qids]
        remark(OWN, "Shorter", n_lost, qids, [[f"of {qid}"] for qid in qids])
        return out


class Flat(FairTransformer):
    """R -> R: all scores of odd queries are equal."""

    SETTINGS = ()

    def transform(self, inp):
        is_odd = inp["qid"].isin(ODD)
        return inp.assign(score=inp["score"].mask(is_odd, 1.0))


class Itself(FairTransformer):
    """R -> R: the first document of odd queries is the query."""

    SETTINGS = ()

    def transform(self, inp):
        is_own = (inp["rank"] == inp["rank"].min()) & inp["qid"].isin(ODD)
        return inp.assign(docno=inp["docno"].mask(is_own, inp["qid"]))


class Cites(FairTransformer):
    """R -> answers: those of odd queries have no citation, the others one beyond the prompt."""

    SETTINGS = ()

    def transform(self, inp):
        return inp.assign(qanswer=np.where(inp["qid"].isin(ODD), "None.", "So [1] and [99]."))


class Words(WordTokenizer):
    """A backend whose tokens are words, and whose window is 60 of them."""

    name, model_max_length = "words", 60

    @property
    def tokenizer(self):
        return self

    def num_special_tokens_to_add(self, pair=False):
        return 0

    def generate(self, prompts):
        return ["yes"] * len(prompts)

    def digest(self):
        return "words"


class English(Words):
    """A backend to which the word "odd" is unknown."""

    def unknown_share(self, text):
        return text.split().count("odd") / len(text.split())

    def digest(self):
        return "english"


class Samples(ChatModel):
    """A model that samples its answers."""

    name, tokenizer, free, repeats = "samples", Words(), True, ""

    def parameters(self):
        return {}

    def outcomes(self, chats):
        return ((index, Completion("yes")) for index, _ in enumerate(chats))


class Long(FairTransformer):
    """Q -> Q: odd queries are longer."""

    SETTINGS = ("size", "word")

    def __init__(self, size, word="word"):
        self.size = size
        self.word = word

    def transform(self, inp):
        texts = [f" {self.word}" * self.size if qid in ODD else "" for qid in inp["qid"]]
        return inp.assign(query=inp["query"] + texts)


class Blank(FairTransformer):
    """R -> R: the first document of odd queries has no text."""

    SETTINGS = ()

    def transform(self, inp):
        is_blank = (inp["rank"] == inp["rank"].min()) & inp["qid"].isin(ODD)
        return inp.assign(text=np.where(is_blank, " ", "text"))


class Wordy(FairTransformer):
    """R -> R: each document has 20 words."""

    SETTINGS = ()

    def transform(self, inp):
        return inp.assign(text="word " * 20)


class Searcher(Retriever):
    """A retriever that ignores the word "the"."""

    def tokens(self, text):
        return [word for word in text.split() if word != "the"]


def refine(prompts):
    """Refine the queries with an even number; the answer to others is empty."""
    return ["" if any(f"of {qid}" in p for qid in ODD) else "new words" for p in prompts]


def add_the(prompts):
    """Add words to all queries, one of which the retriever ignores for even queries."""
    return ["the more" if any(f"of {qid}" in p for qid in EVEN) else "more" for p in prompts]


def strange(prompts):
    """Return the words of the query, but others for odd queries."""
    return ["sitar" if any(f"of {q}" in p for q in ODD) else "words more" for p in prompts]


def fair_qr(answer=add_the, grouped=QIDS, targeted=QIDS, **options):
    """Return FAIR-QR; only some queries have documents with groups, or a target."""
    frame = pd.DataFrame(
        [(f"{qid}-d{i}", "fm"[i % 2]) for qid in grouped for i in range(8)],
        columns=["docno", "group"],
    )
    groups = Groups.from_frame(frame, name="gender")
    weights = pd.DataFrame(
        [(qid, level, 0.9 if level == "f" else 0.1) for qid in targeted for level in "fm"],
        columns=["qid", "group", "weight"],
    )
    target = Target.from_frame(weights, groups)
    options = {"depth": 4, "max_iterations": 1, **options}
    return FairQR(Searcher(), groups, target, FunctionModel(answer), **options)


def candidates(folder):
    """Return a stage with candidates of even queries; the first has none."""
    profile = [{"id": "1", "title": "t", "text": "x", "date": "2020-01-01"}]
    asks = "Generate a headline for the following article: "
    questions = [
        {"id": qid, "input": f"{asks}{qid}", "profile": [] if qid == QIDS[0] else profile}
        for qid in EVEN
    ]
    golds = {"task": "LaMP_4", "golds": [{"id": qid, "output": "gold"} for qid in EVEN]}
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "dev_questions.json").write_text(json.dumps(questions))
    (folder / "dev_outputs.json").write_text(json.dumps(golds))
    return Candidates(lamp.from_folder(folder, task=4))


def named(stage, name):
    """Return a stage whose model or dataset has no identity."""
    return fairtk.identified(stage, name)


def labels():
    """Return labels of even queries."""
    rows = [(qid, f"{qid}-d0", 1) for qid in EVEN]
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


PIPELINES = {
    kinds.UNKNOWN_QUERIES: (lambda folder: named(candidates(folder), "candidates"), ODD),
    kinds.NO_CANDIDATES: (lambda folder: named(candidates(folder), "candidates"), QIDS[:1]),
    # four documents in four ranks always have the normalized disparity 1
    kinds.TARGET_MISSED: (
        lambda _: Retriever() >> Shorter() >> FairSampler(target_disparity=0.7, cutoff=4),
        ODD,
    ),
    kinds.NO_USEFUL_DOCUMENT: (
        lambda _: (
            Retriever()
            >> FairSampler(max_relevance_loss=0.1, relevance=labels(), cutoff=4)
            >> Shorter()
        ),
        ODD,
    ),
    kinds.EQUAL_SCORES: (lambda _: Retriever() >> Flat() >> FairSampler(n_samples=2), ODD),
    kinds.OWN_CANDIDATE: (lambda _: Retriever() >> Itself() >> FairSampler(n_samples=2), ODD),
    kinds.LONG_QUESTIONS: (
        lambda _: Long(90) >> Retriever() >> Generator(Words(), prompt="lamp-7", cutoff=1),
        ODD,
    ),
    kinds.FULL_PROMPTS: (
        lambda _: Long(52) >> Retriever() >> Generator(Words(), prompt="lamp-7", cutoff=1),
        ODD,
    ),
    kinds.EMPTY_DOCUMENTS: (lambda _: Retriever() >> Blank() >> Generator(Words(), cutoff=2), ODD),
    kinds.DROPPED_DOCUMENTS: (
        lambda _: Long(20) >> Retriever() >> Wordy() >> Generator(Words(), cutoff=4),
        QIDS,
    ),
    kinds.UNKNOWN_TOKENS: (
        lambda _: Long(4, "odd") >> Retriever() >> Generator(English(), prompt="lamp-7", cutoff=1),
        ODD,
    ),
    kinds.ONE_ANSWER: (
        lambda _: named(Retriever() >> Generator(Samples(), cutoff=1), "samples"),
        QIDS,
    ),
    kinds.KEPT_FAILURES: (lambda _: named(fair_qr(refine, failed="keep"), "kept"), ODD),
    kinds.OFF_TOPIC: (lambda _: named(fair_qr(strange), "strange"), ODD),
    kinds.NOT_REFINED: (
        lambda _: named(QueryRefiner(FunctionModel(refine), group="g"), "refiner") >> Retriever(),
        ODD,
    ),
    kinds.NO_GROUPED_DOCUMENT: (lambda _: named(fair_qr(grouped=EVEN), "grouped"), ODD),
    kinds.NO_EFFECT: (lambda _: named(fair_qr(pool="union"), "union"), QIDS),
    kinds.NO_TARGET: (lambda _: named(fair_qr(targeted=EVEN), "targeted"), ODD),
    kinds.IGNORED_WORDS: (lambda _: named(fair_qr(), "words"), EVEN),
    kinds.UNCITED: (lambda _: Retriever() >> Cites() >> Citations(), ODD),
    kinds.INVALID_CITATIONS: (lambda _: Retriever() >> Cites() >> Citations(), EVEN),
    OWN: (lambda _: Retriever() >> Shorter(), ODD),
}
"""For each kind, a function from a folder to a pipeline, and the queries that it concerns."""
