"""The baselines as systems of ``fairtk qr``: each function builds one from a study's `Setting`.

A system's options are those of its table in the configuration; one that is unknown or out of its
range is a `ParameterError`. All rank the retriever's candidates but vector search. Those that read
vectors have ``encoder`` (``"lsa"`` by default; see `encoders.get`) and ``dimensions`` of ``"lsa"``.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.errors import ParameterError, did_you_mean
from fairtk.frames import TEXT
from fairtk.transformers import FairTransformer
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
    """Return vector search over the whole collection; its vectors are kept in the study's folder.

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
    """Return the candidates, reranked by `FAStarIR`, with the study's groups and seed.

    Options: its other settings. ``p`` is by default each topic's shares in the study's target: that
    comes from relevance judgments, so FA*IR is given FAIR-QR's oracle, and no other. ``test`` is
    then ``"multinomial"``, since the measure looks at every level too, and for a number
    ``"binomial"``, which sees only whether a document is of the most exposed level. ``cutoff`` is
    the one that is measured.
    """
    options = _options(setting, "fa*ir", _settings(FAStarIR))
    share = options.setdefault("p", setting.target)
    options.setdefault("test", "binomial" if isinstance(share, int | float) else "multinomial")
    options.setdefault("cutoff", setting.cutoff)
    return _candidates(setting) >> FAStarIR(setting.groups, **options, seed=setting.seed)


def build_mmr(setting: Setting) -> Any:
    """Return the candidates in the order of maximal marginal relevance, the measured ranks chosen.

    Options: ``lambda`` and ``normalize`` of `MMR`, and those of the encoder; without these,
    similarity is that of TF-IDF.
    """
    options = _options(setting, "mmr", {"lambda", "normalize", *_ENCODER})
    dense = _ENCODER & setting.options.keys()
    rerank: Any = MMR(
        options.get("lambda", 0.5),
        normalize=options.get("normalize", "min-max"),
        vectors=DOC_VEC if dense else TEXT,
        cutoff=setting.cutoff,
    )
    if dense:
        rerank = _encoder(setting).doc_encoder() >> rerank
    return _candidates(setting) >> setting.texts >> rerank >> WithoutColumns(TEXT, DOC_VEC)


def build_deltr(setting: Setting) -> Any:
    """Return the candidates, ranked by `DELTR` over `Features`, with the study's groups and seed.

    Options: its other settings, and those of the encoder for a dense feature (none by default).
    ``exposure`` is ``"relative"`` by default: over a hundred candidates the paper's exposures are
    so small that ``gamma=1`` changes next to nothing. DELTR aims at equal mean exposure of two
    sides and never sees the study's target: where that is far from equal, one can cost the other.
    """
    options = _options(setting, "deltr", _settings(DELTR) | _ENCODER)
    features = Features(_encoder(setting) if _ENCODER & setting.options.keys() else None)
    settings = {"exposure": "relative", **options}
    rerank = DELTR(setting.groups, **settings, seed=setting.seed)
    # what comes after DELTR in a pipeline is not fitted, and does no harm while it is
    end = rerank >> WithoutColumns(TEXT, FEATURES)
    return _candidates(setting) >> setting.texts >> features >> end


def build_dlf(setting: Setting) -> Any:
    """Return the candidates, ranked by `DLF`, with the study's groups, target and seed.

    Options: its other settings, and those of the encoder; ``cutoff`` is by default the measured
    one. The target, which comes from relevance judgments, is read for training topics only: unlike
    FAIR-QR and FA*IR as the study sets them up, DLF has no oracle at retrieval time.
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
    return encoders.get(
        setting.options.get("encoder", "lsa"),
        setting.documents,
        setting.folder / "vectors" / f"lsa-{size.get('dimensions', 'default')}",
        setting.seed,
        collection=setting.collection,
        **size,
    )
