"""The built-in plugin: fairtk's own measures, utilities, data and transformers.

It is loaded through the entry point ``fairtk`` like any third-party plugin. It lists names only;
expensive imports happen when a ``target`` is loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from fairtk.plugins import (
    ChatModelSpec,
    DatasetSpec,
    PromptSpec,
    TransformerSpec,
    UtilitySpec,
    hookimpl,
    registry,
)
from fairtk.plugins.host import HOST
from fairtk.plugins.registry import load_target

_LAMP = {
    1: "citation identification",
    2: "movie tagging",
    3: "product rating",
    4: "news headline",
    5: "scholarly title",
    6: "email subject",
    7: "tweet paraphrasing",
}
"""LaMP's tasks."""


@functools.cache
def connect() -> None:
    """Load the plugins once; register their measures with ir_measures, their data with ir_datasets.

    Values that are registered later are passed on when they come.
    """
    from fairtk.datasets import registration
    from fairtk.measures import provider

    provider.connect()
    registry.measures.set_listener(provider.publish)
    registry.datasets.set_listener(registration.listen)
    HOST.load()


_MEASURES = (
    "awrf:AWRF",
    "by_group:ByGroup",
    "expectation:E",
    "ee:EE_D",
    "ee:EE_L",
    "ee:EE_R",
    "group_ee:GroupEE_D",
    "group_ee:GroupEE_L",
    "group_ee:GroupEE_R",
    "eu:EU",
    "product:Product",
    "ndcg_awrf:nDCG_AWRF",
    "ndcg_trec:nDCG_TREC",
)
"""The measures as ``"module:class"`` of `fairtk.measures`."""


@hookimpl
def fairtk_measures() -> Iterable[Any]:
    """Return the built-in measures."""
    return [load_target(f"fairtk.measures.{target}") for target in _MEASURES]


def _classes(module: Any, base: type) -> list[type]:
    """Return the classes of a module that derive from a base, in the order of the file."""
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    return [cls for cls in classes if issubclass(cls, base) and cls is not base]


@hookimpl
def fairtk_browsing_models() -> Iterable[type]:
    """Return the built-in browsing models."""
    from fairtk.exposure import browsing

    return _classes(browsing, browsing.BrowsingModel)


@hookimpl
def fairtk_divergences() -> Iterable[type]:
    """Return the built-in divergences."""
    from fairtk.groups import divergences

    return _classes(divergences, divergences.Divergence)


@hookimpl
def fairtk_utilities() -> Iterable[UtilitySpec]:
    """Return the built-in string utilities."""
    spec = UtilitySpec
    return [
        spec("accuracy", "fairtk.utilities:Accuracy", "exact label match (LaMP-1, -2)"),
        spec("mae", "fairtk.utilities:AbsoluteError", "absolute error (LaMP-3)", False),
        spec("rouge1", "fairtk.utilities:Rouge1", "ROUGE-1 as in LaMP (rouge 1.0.1)"),
        spec("rougeL", "fairtk.utilities:RougeL", "ROUGE-L as in LaMP (rouge 1.0.1)"),
        spec("em", "fairtk.utilities:ExactMatch", "exact match as in SQuAD"),
        spec("contains", "fairtk.utilities:Contains", "gold answer as words in the answer"),
        spec("f1", "fairtk.utilities:TokenF1", "token F1 as in SQuAD"),
        *(
            spec(
                f"rouge_score_{v}",
                f"fairtk.utilities:rouge_score_{v}",
                f"rouge_score's {v}",
                extra="rouge",
            )
            for v in ("rouge1", "rouge2", "rougeL", "rougeLsum")
        ),
    ]


@hookimpl
def fairtk_prompts() -> Iterable[PromptSpec]:
    """Return the built-in prompt builders."""
    refine = "fairtk.llm.refinement"
    return [
        PromptSpec("rag", "fairtk.llm.prompts:Rag", "numbered passages, then the question"),
        PromptSpec("template", "fairtk.llm.prompts:Template", "a template of your own"),
        PromptSpec("refine", f"{refine}:RefinementPrompt", "refined keywords, zero-shot"),
        PromptSpec(
            "refine-few-shot", f"{refine}:FewShotRefinement", "the same with worked examples"
        ),
        PromptSpec(
            "refine-chain-of-thought",
            f"{refine}:ChainOfThoughtRefinement",
            "the same after a few sentences of reasoning",
        ),
        *(
            PromptSpec(f"lamp-{number}", f"fairtk.llm.prompts:Lamp{number}", f"LaMP: {task}")
            for number, task in _LAMP.items()
        ),
    ]


@hookimpl
def fairtk_chat_models() -> Iterable[ChatModelSpec]:
    """Return the built-in models: on this machine, on servers, and rules instead of a model."""
    flan, qwen = "google/flan-t5-small", "Qwen/Qwen2.5-0.5B-Instruct"
    stage, exact = "fairtk.transformers:FlanT5", {"dtype": "float32"}
    spec, t5 = ChatModelSpec, "an encoder-decoder model"
    server, rules = "fairtk.llm:OpenAICompatible", "fairtk.llm:KeywordRefiner"
    about = "any server that speaks OpenAI's chat protocol"
    no_model = "keywords from a table, without a model"
    return [
        spec("t5", "fairtk.llm:HuggingFaceSeq2Seq", t5, "t5", flan, stage=stage, exact=exact),
        spec("ct2", "fairtk.llm:CTranslate2Seq2Seq", f"{t5} by CTranslate2", "fast", flan),
        spec("causal", "fairtk.llm:HuggingFaceCausal", "a decoder-only model", "t5", qwen),
        spec("openai", server, about, "llm", "gpt-4o", server=True),
        spec("keyword", rules, no_model, example="terms.tsv", uses=("refinement",)),
    ]


@hookimpl
def fairtk_datasets() -> Iterable[DatasetSpec]:
    """Return the built-in data sets."""
    lamp = "fairtk.datasets.lamp.dataset:build"
    for task, name in _LAMP.items():
        warning = None
        if task == 6:
            warning = "LaMP-6 is made from the Avocado corpus, which needs a license (LDC2015T03)"
        for by, users in (("", "users"), ("time/", "time")):
            for split in ("dev", "train"):
                about = f"LaMP-{task}, {name}: {split} (split by {users})"
                place = f"lamp/{by}{task}/{split}"
                yield DatasetSpec(place, lamp, about, citation="salemi2024lamp", warning=warning)
        for model in ("flan-t5-small", "flan-t5-base", "flan-t5-xxl"):
            about = f"LaMP-{task}, {name}: dev queries with utility labels for {model}"
            place = f"lamp/{task}/dev/{model}"
            yield DatasetSpec(place, lamp, about, citation="kim2024fairrag", warning=warning)
    for name, topics in (
        ("train/keywords", "training topics with keywords"),
        ("eval", "evaluation topics"),
    ):
        yield DatasetSpec(
            f"trec-fair/2022/{name}",
            "fairtk.datasets.trec_fair.dataset:build",
            f"TREC Fair Ranking 2022: {topics}",
            citation="ekstrand2022overview",
            warning="the corpus is a download of 7.7 GB, the metadata of 237 MB",
        )


@hookimpl
def fairtk_transformers() -> Iterable[TransformerSpec]:
    """Return the built-in transformers."""
    spec = TransformerSpec
    return [
        spec(
            "FairSampler",
            "fairtk.transformers.samplers:FairSampler",
            "rankings drawn from a Plackett-Luce policy over the scores",
            "R",
            "S",
            citation="kim2024fairrag plackett1975analysis",
        ),
        spec(
            "OracleSampler",
            "fairtk.transformers.samplers:OracleSampler",
            "useful documents first, shuffled within each grade",
            "R",
            "S",
            citation="kim2024fairrag",
        ),
        spec(
            "PlackettLuceExposure",
            "fairtk.transformers.exposures:PlackettLuceExposure",
            "the exact exposure of documents under FairSampler's policy",
            "R",
            "X",
            citation="kim2024fairrag plackett1975analysis",
        ),
        spec(
            "OracleExposure",
            "fairtk.transformers.exposures:OracleExposure",
            "the exact exposure of documents under OracleSampler's policy",
            "R",
            "X",
            citation="kim2024fairrag diaz2020evaluating",
        ),
        spec(
            "DeterministicExposure",
            "fairtk.transformers.exposures:DeterministicExposure",
            "the exposure of documents in a ranking that is always the same",
            "R",
            "X",
        ),
        spec(
            "PerSample",
            "fairtk.transformers.samplers:PerSample",
            "runs another transformer once per sampled ranking",
            "S",
            "S",
        ),
        spec(
            "Fitted",
            "fairtk.transformers.fitted:Fitted",
            "a trained system, which ranks other topics than it is trained on",
            "Q|R",
            "R",
        ),
        spec(
            "Seen",
            "fairtk.transformers.seen:Seen",
            "a retriever that records who is seen in a session of an agent",
            "Q",
            "R",
        ),
        spec(
            "BM25Scorer",
            "fairtk.transformers.scorers:BM25Scorer",
            "BM25 inside each query's own candidate set",
            "R",
            "R",
            citation="robertson2009probabilistic",
        ),
        spec(
            "ContrieverScorer",
            "fairtk.transformers.scorers:ContrieverScorer",
            "a dense encoder inside each query's own candidate set",
            "R",
            "R",
            extra="t5",
            citation="izacard2022unsupervised",
        ),
        spec(
            "SpladeScorer",
            "fairtk.transformers.scorers:SpladeScorer",
            "a learned sparse encoder inside each query's own candidate set",
            "R",
            "R",
            extra="t5",
            citation="formal2021splade",
        ),
        spec(
            "Candidates",
            "fairtk.transformers.candidates:Candidates",
            "each query's own candidates from a data set, with text",
            "Q",
            "R",
        ),
        spec(
            "Generator",
            "fairtk.transformers.generator:Generator",
            "answers from any model and prompt",
            "R|S|Q",
            "A",
        ),
        spec(
            "FlanT5",
            "fairtk.transformers.generator:FlanT5",
            "answers from a T5 (hub name or local folder)",
            "R|S|Q",
            "A",
            extra="t5",
            citation="chung2024scaling",
        ),
        spec(
            "QueryRefiner",
            "fairtk.transformers.fair_qr.keywords:QueryRefiner",
            "one query refinement towards a group of documents",
            "Q",
            "Q",
            citation="chen2025fairqr",
        ),
        spec(
            "FairQR",
            "fairtk.transformers.fair_qr.transformer:FairQR",
            "FAIR-QR: refines queries until exposure is near its target",
            "Q",
            "R",
            citation="chen2025fairqr",
        ),
    ]
