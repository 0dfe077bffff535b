"""As `output_cases`, for the plugins of this repository."""

from __future__ import annotations

from functools import cache

from fairtk_baselines import (
    DELTR,
    DLF,
    MMR,
    DetCons,
    DetConstSort,
    DetGreedy,
    DetRelaxed,
    EpsilonGreedy,
    FAStarIR,
    Features,
    VectorSearch,
)
from fairtk_baselines.encoders import LsaEncoder
from fairtk_baselines.study import WithoutColumns
from output_cases import applied, documents, groups, measured, qrels, ranked, topics

from fairtk import Target

QUERIES = "the love of a family"


@cache
def encoder():
    return LsaEncoder.fit(documents(), dimensions=8)


@cache
def featured():
    return Features(encoder()).transform(ranked())


def deltr(folder):
    fitted = DELTR(groups(), max_iterations=50).fit(featured(), qrels())
    return applied(fitted, featured())


def linear_model(folder):
    model = DELTR(groups(), max_iterations=50).fit(featured(), qrels()).model
    return model, model.weights


def dlf(folder):
    run = ranked()
    run = run.assign(
        query_vec=list(encoder().encode_queries(run["query"].tolist())),
        doc_vec=list(encoder().encode_docs(run["text"].tolist())),
    )
    stage = DLF(groups(), Target.uniform(groups()), epochs=2, drop=("query_vec", "doc_vec"))
    return applied(stage.fit(run, qrels()), run)


def vector_search(folder):
    stage = VectorSearch(encoder(), documents(), folder / "vectors", num_results=5, verbose=False)
    return applied(stage, topics()[["qid"]].assign(query=QUERIES))


def sorted_by(kind):
    known = [level for level in groups().levels if level != "@UNKNOWN"]
    shares = dict.fromkeys(known, 1 / len(known))
    return lambda folder: applied(kind(groups(), shares, cutoff=10), ranked())


SORTED = (DetCons, DetConstSort, DetGreedy, DetRelaxed)
PLAIN = (
    *("ARP", "ERBE", "ERBP", "ERBR", "EXP", "EXPRU", "EXPU", "GFR", "IAA"),
    *("MaxSkew", "MinSkew", "NDKL", "PEER"),
)
PROTECTED = ("FAIR_prefix", "logDP", "logEUR", "logRUR", "rKL", "rND", "rRD")

CASES = {
    "fairtk_baselines.DELTR": deltr,
    "fairtk_baselines.LinearModel": linear_model,
    "fairtk_baselines.DLF": dlf,
    "fairtk_baselines.Features": lambda folder: applied(Features(encoder()), ranked()),
    **{f"fairtk_baselines.{kind.__name__}": sorted_by(kind) for kind in SORTED},
    "fairtk_baselines.EpsilonGreedy": lambda folder: applied(EpsilonGreedy(0.5), ranked()),
    "fairtk_baselines.FAStarIR": lambda folder: applied(
        FAStarIR(groups(), 0.3, cutoff=10, protected=groups().levels[-1]), ranked()
    ),
    "fairtk_baselines.LsaEncoder": lambda folder: (
        encoder(),
        encoder().encode_queries([QUERIES]),
    ),
    "fairtk_baselines.MMR": lambda folder: applied(MMR(), ranked()),
    "fairtk_baselines.VectorSearch": vector_search,
    "fairtk_baselines.WithoutColumns": lambda folder: applied(WithoutColumns("text"), ranked()),
    "fairtk_hello.ExposureGini": measured("ExposureGini@5"),
    **{f"fairtk_classic.{name}": measured(f"{name}@10") for name in PLAIN},
    **{
        f"fairtk_classic.{name}": measured(f"{name}(protected='regional')@10") for name in PROTECTED
    },
    "fairtk_classic.Skew": measured("Skew(group='regional')@10"),
}
