"""One object of each class that declares `output_version`, and its output on packaged data.

A case is a function that returns the object and its output. It gets a folder with small models.
"""

from __future__ import annotations

import types
from functools import cache

import ir_measures
import numpy as np
import pyterrier as pt
import tiny_encoders
import tiny_models
from chat_server import serving
from model_answers import answers_of

from fairtk import (
    BM25Scorer,
    Candidates,
    ContrieverScorer,
    FairQR,
    FairSampler,
    Fitted,
    FlanT5,
    Generator,
    Groups,
    OracleSampler,
    PerSample,
    PlackettLuceExposure,
    QueryRefiner,
    Seen,
    SpladeScorer,
    Target,
    demo,
)
from fairtk.credit import Citations, Subsets
from fairtk.credit.readers import FittedBrowsing
from fairtk.datasets.provider import FairDataset
from fairtk.groups.rows import SparseRows
from fairtk.llm import (
    Chat,
    CTranslate2Seq2Seq,
    FunctionModel,
    HuggingFaceCausal,
    HuggingFaceSeq2Seq,
    KeywordRefiner,
    Ledger,
    Message,
    OpenAICompatible,
)
from fairtk.llm.encoders import MeanEncoder, SpladeEncoder
from fairtk.llm.refinement import Refinement
from fairtk.measures import parse
from fairtk.plugins import registry
from fairtk.transformers import (
    CollectionBM25,
    DeterministicExposure,
    FairTransformer,
    IgnoreIdenticalIds,
    OracleExposure,
    SingleDocumentSampler,
)

RANKS = np.arange(20, dtype=np.int64)
PROMPTS = ["movie tag is the silver market", "a gentle question for the willow"]
QUESTION = (  # of LaMP-1, whose prompt puts titles into the question
    'For an author who has written the paper with the title "silver", which reference is related?'
)
CHAT = Chat(
    (Message("user", "film music"),),
    {"query": "film music", "keywords": "film music", "group": ["female"], "attribute": "gender"},
)


@cache
def topics():
    return demo.load().topics.head(6)


@cache
def candidates():
    frame = demo.load().candidates
    return frame[frame["qid"].isin(topics()["qid"])].reset_index(drop=True)


@cache
def qrels():
    frame = demo.load().qrels
    return frame[frame["qid"].isin(topics()["qid"])].reset_index(drop=True)


@cache
def groups():
    frame = demo.load().groups
    return Groups.from_frame(frame[frame["attribute"] == "production"], name="production")


class Learned(FairTransformer, pt.Estimator):
    """R -> R: adds the number of training labels to scores."""

    identity_name = "tests.Learned"
    output_version = 1

    def fit(self, topics, qrels, *_):
        self.number = len(qrels)

    def transform(self, inp):
        return inp.assign(score=inp["score"] + self.number)


def fitted(folder):
    qids = topics()["qid"]
    system = Fitted(Learned(), topics(), qrels(), dict(zip(qids, (0, 1, 2) * 2, strict=True)))
    return applied(system, ranked())


@cache
def ranked():
    return BM25Scorer().transform(candidates())


@cache
def sampled():
    return FairSampler(alpha=1, n_samples=4, cutoff=5).transform(ranked())


@cache
def answers():
    words = sampled()["docno"].str[-1].map({"1": "classic", "2": "action"}).fillna("comedy")
    first = words.groupby([sampled()["qid"], sampled()["sample"]]).transform("first")
    return sampled().assign(qanswer=first)


@cache
def credit():
    return sampled().assign(credit=1.0 / (sampled()["rank"] + 1.0))


def applied(transformer, frame):
    return transformer, transformer.transform(frame)


def measured(text, run=ranked):
    def case(folder):
        measure = parse(text)
        measure = measure(groups=groups()) if "groups" in measure.SUPPORTED_PARAMS else measure
        if "target" in measure.SUPPORTED_PARAMS:
            measure = measure(target=Target.uniform(groups()))
        return measure, values(measure, run())

    return case


def values(measure, run):
    calculated = ir_measures.iter_calc([measure], qrels(), run)
    return sorted((value.query_id, value.value) for value in calculated)


def weighed(name, **settings):
    def case(folder):
        model = registry.browsing_models.get(name)(**settings)
        return model, model.weights(RANKS)

    return case


def diverged(name):
    def case(folder):
        divergence = registry.divergences.get(name)()
        rows = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
        shown, target = (SparseRows.of_dense(np.array(part)) for part in (rows, rows[::-1]))
        return divergence, divergence.between(shown, target)

    return case


def prompted(name):
    def case(folder):
        prompt = registry.prompts.load(name)()
        rows = (
            demo.load()
            .candidates.head(3)
            .assign(title="a title", article="an article", abstract="an abstract", rating=4)
        )
        return prompt, prompt(QUESTION, rows.to_dict("records"), None)

    return case


def refined(name):
    def case(folder):
        prompt = registry.prompts.load(name)()
        chat = prompt(Refinement("film music", "film music", ("female",), "gender"))
        return prompt, [[m.role, m.content] for m in chat.messages]

    return case


def useful(name):
    def case(folder):
        utility = registry.utilities.load(name)
        utility = utility() if isinstance(utility, type) else utility
        digits = name == "mae"
        answer, gold = ("3", "5") if digits else ("a tale of silver", "silver tale")
        return utility, [utility.score(answer, gold), utility.score(gold, gold)]

    return case


def generated(make):
    def case(folder):
        model = make(folder)
        return model, answers_of(model, PROMPTS)

    return case


def chat_case(make):
    def case(folder):
        model = make(folder)
        texts = [outcome.text for outcome in model.complete([CHAT])]
        return model, texts

    return case


def asked_server(folder):
    """Return a model, and what a server is sent by one like it."""
    with serving(lambda prompt, count: "ok") as server:
        settings = {"api_key_env": None, "temperature": 0.3}
        OpenAICompatible("m", base_url=server.url, **settings).complete([CHAT])
    model = OpenAICompatible("m", base_url="http://127.0.0.1:9/v1", **settings)
    return model, [body for _, body, _ in server.requests]


def documents():
    frame = candidates().drop_duplicates("docno")[["docno", "text"]]
    return frame.to_dict("records")


def collection_bm25(folder):
    stage = CollectionBM25("index", documents, num_results=5)
    return applied(stage, topics()[["qid", "query"]].assign(query="the love of a family"))


def query_loop(folder):
    retriever = pt.Transformer.from_df(ranked())
    genders = ranked()[["docno"]].drop_duplicates()
    genders = genders.assign(group=np.where(genders["docno"].str[-1] < "3", "female", "male"))
    women = Groups.from_frame(genders, name="gender")
    stage = FairQR(retriever, women, Target.uniform(women), KeywordRefiner(), k=10)
    return applied(stage, topics()[["qid", "query"]])


def encoder(make, **settings):
    def case(folder):
        model = make(str(tiny_encoders.save(folder / "encoder", **settings)), device="cpu")
        vectors = model.encode(PROMPTS)
        left, right = np.array([0, 0]), np.array([0, 1])
        return model, model.inner_products(vectors, left, right)

    return case


def neural(make, **settings):
    def case(folder):
        stage = make(tiny_encoders.save(folder / "encoder", **settings), device="cpu")
        return applied(stage, candidates().head(40))

    return case


def t5(folder):
    return HuggingFaceSeq2Seq(demo.model_folder(), device="cpu")


def generate(model, prompts):
    """Answer as a method of a model, so that the model identifies the function."""
    return answers_of(model, prompts)


CASES = {
    "fairtk.MU": weighed("MU"),
    "fairtk.RBP": weighed("RBP", p=0.8),
    "fairtk.GERR": weighed("GERR", p=0.8, u=0.3),
    "fairtk.DCG": weighed("DCG"),
    "fairtk.TREC": weighed("TREC"),
    "fairtk.Fitted": weighed("Fitted", weight=(1.0, 0.5, 0.25)),
    "fairtk.FittedBrowsing": lambda folder: (
        model := FittedBrowsing((1.0, 0.5, 0.25)),
        model.weights(RANKS),
    ),
    "fairtk.kl": diverged("kl"),
    "fairtk.js": diverged("js"),
    "fairtk.ReverseKullbackLeibler": diverged("reverse-kl"),
    "fairtk.Groups": lambda folder: (groups(), groups().to_frame()),
    "fairtk.Target": lambda folder: (
        target := Target.from_qrels(qrels(), groups()),
        target.to_frame(),
    ),
    **{f"fairtk.Lamp{task}": prompted(f"lamp-{task}") for task in range(1, 8)},
    "fairtk.Rag": prompted("rag"),
    "fairtk.Template": lambda folder: (
        prompt := registry.prompts.load("template")("{question}: {documents}"),
        prompt("why?", [{"text": "because"}], None),
    ),
    "fairtk.RefinementPrompt": refined("refine"),
    "fairtk.FewShotRefinement": refined("refine-few-shot"),
    "fairtk.ChainOfThoughtRefinement": refined("refine-chain-of-thought"),
    "fairtk.Accuracy": useful("accuracy"),
    "fairtk.AbsoluteError": useful("mae"),
    "fairtk.ExactMatch": useful("em"),
    "fairtk.Contains": useful("contains"),
    "fairtk.TokenF1": useful("f1"),
    "fairtk.Rouge1": useful("rouge1"),
    "fairtk.RougeL": useful("rougeL"),
    "fairtk.BM25Scorer": lambda folder: applied(BM25Scorer(), candidates()),
    "fairtk.ContrieverScorer": neural(ContrieverScorer, head=False),
    "fairtk.SpladeScorer": neural(SpladeScorer),
    "fairtk.MeanEncoder": encoder(MeanEncoder, head=False),
    "fairtk.SpladeEncoder": encoder(SpladeEncoder),
    "fairtk.Candidates": lambda folder: applied(Candidates(demo.load().dataset), topics()),
    "fairtk.CollectionBM25": collection_bm25,
    "fairtk.FairSampler": lambda folder: applied(FairSampler(alpha=2, n_samples=3), ranked()),
    "fairtk.OracleSampler": lambda folder: applied(OracleSampler(qrels(), n_samples=3), ranked()),
    "fairtk.PerSample": lambda folder: applied(PerSample(BM25Scorer()), sampled()),
    "fairtk.Seen": lambda folder: applied(Seen(BM25Scorer()), candidates()),
    "fairtk.FittedSystem": fitted,
    "fairtk.IgnoreIdenticalIds": lambda folder: applied(
        IgnoreIdenticalIds(),
        ranked().head(40).assign(docno=lambda run: run["docno"].mask(run["rank"] == 0, run["qid"])),
    ),
    "fairtk.SingleDocumentSampler": lambda folder: applied(
        SingleDocumentSampler(), ranked().head(40)
    ),
    "fairtk.DeterministicExposure": lambda folder: applied(DeterministicExposure(), ranked()),
    "fairtk.OracleExposure": lambda folder: applied(OracleExposure(qrels()), ranked()),
    "fairtk.PlackettLuceExposure": lambda folder: applied(PlackettLuceExposure(2), ranked()),
    "fairtk.Subsets": lambda folder: applied(Subsets(), sampled().head(20)),
    "fairtk.Citations": lambda folder: applied(
        Citations(), sampled().head(10).assign(qanswer="So it is [1]. And [2][3].")
    ),
    "fairtk.FairDataset": lambda folder: (
        data := FairDataset(demo.load().dataset),
        data.get_topics().head(6),
    ),
    "fairtk.QueryRefiner": lambda folder: applied(
        QueryRefiner(KeywordRefiner(), "female"), topics()[["qid", "query"]]
    ),
    "fairtk.FairQR": query_loop,
    "fairtk.FlanT5": lambda folder: applied(
        FlanT5(model=demo.model_folder(), prompt="lamp-2", device="cpu"), ranked().head(60)
    ),
    "fairtk.Generator": lambda folder: applied(
        Generator(t5(folder), prompt="lamp-2"), ranked().head(60)
    ),
    "fairtk.HuggingFaceSeq2Seq": generated(t5),
    "fairtk.HuggingFaceCausal": generated(
        lambda folder: HuggingFaceCausal(
            tiny_models.save_llama(folder / "llama"), device="cpu", max_new_tokens=16
        )
    ),
    "fairtk.CTranslate2Seq2Seq": generated(
        lambda folder: CTranslate2Seq2Seq(demo.model_folder(), device="cpu")
    ),
    "fairtk.CallableBackend": generated(
        lambda folder: FunctionModel(types.MethodType(generate, t5(folder)))
    ),
    "fairtk.LedgerModel": chat_case(
        lambda folder: Ledger(folder / "ledger.sqlite").wrap(t5(folder))
    ),
    "fairtk.KeywordRefiner": chat_case(lambda folder: KeywordRefiner()),
    "fairtk.OpenAICompatible": asked_server,
    "fairtk.EE_D": measured("EE_D@5", sampled),
    "fairtk.EE_R": measured("EE_R@5", sampled),
    "fairtk.EE_L": measured("EE_L@5", sampled),
    "fairtk.GroupEE_D": measured("GroupEE_D@5", sampled),
    "fairtk.GroupEE_R": measured("GroupEE_R@5", sampled),
    "fairtk.GroupEE_L": measured("GroupEE_L@5", sampled),
    "fairtk.EU": measured("EU(utility='accuracy')", answers),
    "fairtk.E": measured("E(measure='nDCG@5')", sampled),
    "fairtk.Product": measured("Product(left='nDCG@5',right='EE_R@5')"),
    "fairtk.AWRF": measured("AWRF@5"),
    "fairtk.ByGroup": measured("ByGroup(measure='nDCG@5')"),
    "fairtk.nDCG_AWRF": measured("nDCG_AWRF@5"),
    "fairtk.nDCG_TREC": measured("nDCG_TREC@5"),
    "fairtk.AE_D": measured("AE_D", credit),
    "fairtk.AE_R": measured("AE_R@5", credit),
    "fairtk.AE_L": measured("AE_L@5", credit),
    "fairtk.CreditAWRF": measured("CreditAWRF", credit),
    "fairtk.CreditGap": measured("CreditGap@5", credit),
    "fairtk.CitationPrecision": measured("CitationPrecision", credit),
    "fairtk.CitationRecall": measured("CitationRecall", credit),
}
