"""The baselines as systems of ``fairtk qr``; each function builds one from a study's `Setting`.

The options of a system are those of its table in the configuration; an unknown or invalid option is
a `ParameterError`. All systems except vector search rank the retriever's candidates. Systems that
use vectors have the options ``encoder`` (``"lsa"`` by default; see `encoders.get`) and, for
``"lsa"``, ``dimensions``.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import TEXT
from fairtk.transformers import FairTransformer
from fairtk.wording import did_you_mean
from fairtk_baselines import encoders
from fairtk_baselines.deltr import DELTR
from fairtk_baselines.dlf import DLF
from fairtk_baselines.fa_star_ir import FAStarIR
from fairtk_baselines.features import Features
from fairtk_baselines.mmr import MMR
from fairtk_baselines.vector_search import VectorSearch
from fairtk_baselines.vectors import DOC_VEC, FEATURES, QUERY_VEC

if TYPE_CHECKING:
    from fairtk_papers.fair_qr import Setting

_ENCODER = {"encoder", "dimensions"}


def build_vector_search(setting: Setting) -> VectorSearch:
    """Return vector search over the collection, with its vectors in the study's folder.

    Options: those of the encoder, and ``search`` (default ``"numpy"``; see `VectorSearch`).
    """
    options = _options(setting, "vector-search", {"search", *_ENCODER})
    return VectorSearch(
        _encoder(setting),
        setting.documents,
        setting.folder / "vectors",
        num_results=_depth(setting),
        search=options.get("search", "numpy"),
        collection=setting.collection,
        seed=setting.seed,
    )


def build_fa_star_ir(setting: Setting) -> Any:
    """Return a pipeline that reranks the candidates with `FAStarIR`.

    Options: its settings except groups and seed. By default, ``p`` is each topic's shares in the
    study's target, which comes from relevance judgments: FA*IR then has the same oracle as FAIR-QR.
    The default ``test`` is ``"multinomial"``, which distinguishes all levels like the measure, or
    ``"binomial"`` if ``p`` is a number. The default ``cutoff`` is that of the measure.
    """
    options = _options(setting, "fa*ir", _settings(FAStarIR))
    share = options.setdefault("p", setting.target)
    options.setdefault("test", "binomial" if isinstance(share, int | float) else "multinomial")
    options.setdefault("cutoff", setting.cutoff)
    return _candidates(setting) >> FAStarIR(setting.groups, **options, seed=setting.seed)


def build_mmr(setting: Setting) -> Any:
    """Return a pipeline that reranks the candidates with `MMR`, to the depth of the measure.

    Options: ``lambda`` and ``normalize`` of `MMR`, and those of the encoder. Without an encoder,
    similarity is the cosine of TF-IDF vectors.
    """
    options = _options(setting, "mmr", {"lambda", "normalize", *_ENCODER})
    dense = _ENCODER & setting.options.keys()
    rerank: Any = MMR(
        checks.share("lambda", options.get("lambda", 0.5), "MMR"),  # MMR names it lambda_
        normalize=options.get("normalize", "min-max"),
        vectors=DOC_VEC if dense else TEXT,
        cutoff=setting.cutoff,
    )
    if dense:
        rerank = _encoder(setting).doc_encoder() >> rerank
    return _candidates(setting) >> setting.texts >> rerank >> WithoutColumns(TEXT, DOC_VEC)


def build_deltr(setting: Setting) -> Any:
    """Return a pipeline that reranks the candidates with `DELTR` over `Features`.

    Options: its settings except groups and seed, and those of the encoder for a dense feature (none
    by default). The default ``exposure`` is ``"relative"``: with a hundred candidates, the paper's
    exposures are so small that ``gamma=1`` has almost no effect. DELTR aims at equal mean exposure
    of two sides and does not use the study's target, so it can move away from an unequal target.
    """
    options = _options(setting, "deltr", _settings(DELTR) | _ENCODER)
    features = Features(_encoder(setting) if _ENCODER & setting.options.keys() else None)
    settings = {"exposure": "relative", **options}
    rerank = DELTR(setting.groups, **settings, seed=setting.seed)
    # stages after DELTR are not fitted
    end = rerank >> WithoutColumns(TEXT, FEATURES)
    return _candidates(setting) >> setting.texts >> features >> end


def build_dlf(setting: Setting) -> Any:
    """Return a pipeline that reranks the candidates with `DLF`.

    Options: its settings except groups, target and seed, and those of the encoder. The default
    ``cutoff`` is that of the measure. The target, which comes from relevance judgments, is only
    read for training topics: unlike FAIR-QR and FA*IR in the study, DLF has no oracle at retrieval
    time.
    """
    options = _options(setting, "dlf", _settings(DLF) - {"target", "drop"} | _ENCODER)
    settings = {"cutoff": setting.cutoff, **options}
    drop = (TEXT, QUERY_VEC, DOC_VEC)
    rerank = DLF(setting.groups, setting.target, **settings, seed=setting.seed, drop=drop)
    encoder = _encoder(setting)
    vectors = setting.texts >> encoder.query_encoder() >> encoder.doc_encoder()
    return _candidates(setting) >> vectors >> rerank


class WithoutColumns(FairTransformer):
    """A transformer that drops columns, such as texts, vectors and features."""

    identity_name = "fairtk_baselines.WithoutColumns"
    output_version = 1
    SETTINGS = ("columns",)

    def __init__(self, *columns: str) -> None:
        super().__init__()
        if not columns or not all(isinstance(c, str) for c in columns):
            raise ParameterError(f"WithoutColumns: columns must be names, got {columns!r}")
        self.columns = columns

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the frame without the columns."""
        return inp.drop(columns=[c for c in self.columns if c in inp.columns])


def _settings(kind: type) -> set[str]:
    return set(inspect.signature(kind).parameters) - {"groups", "seed"}


def _options(setting: Setting, system: str, known: set[str]) -> dict[str, Any]:
    """Return the options without the encoder's, or raise an error for an unknown option."""
    for name in setting.options:
        if name not in known:
            raise ParameterError(
                f"unknown option {name!r} of the system {system!r}{did_you_mean(str(name), known)}"
            )
    return {name: value for name, value in setting.options.items() if name not in _ENCODER}


def _depth(setting: Setting) -> int:
    return max(setting.candidates, setting.cutoff)


def _candidates(setting: Setting) -> Any:
    return setting.retriever % _depth(setting)


def _encoder(setting: Setting) -> Any:
    """Return the bi-encoder of the options, fitting ``"lsa"`` once on the study's documents."""
    size = {k: v for k, v in setting.options.items() if k == "dimensions"}
    encoder = setting.options.get("encoder", "lsa")
    if setting.is_check and not size and encoders.is_on_hub(encoder):
        encoder = "lsa"  # a model is not downloaded to check the other options
    return encoders.get(
        encoder,
        setting.documents,
        setting.folder / "vectors" / f"lsa-{size.get('dimensions', 'default')}",
        setting.seed,
        collection=setting.collection,
        **size,
    )
