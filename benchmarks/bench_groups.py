"""Speed of group exposure: ratios measured in one run, on invented data.

    python benchmarks/bench_groups.py            # all
    python benchmarks/bench_groups.py crossed    # eight crossed attributes
    python benchmarks/bench_groups.py single     # one attribute of 6.5 million documents

``crossed``: AWRF with the official joint target over eight attributes (11,176,704 cells), 50 topics
x 500 documents x 300 relevant documents, against dense outer products in numpy. ``single``: AWRF of
50 topics x 27 runs x 500 documents, against pytrec_eval's nDCG@500 through ir_measures on the same
frames.
"""

import resource
import sys
import time

import numpy as np
import pandas as pd
from sizes import scale

from fairtk.exposure.browsing import TREC
from fairtk.frames import Run
from fairtk.groups import (
    Groups,
    Target,
    background,
    document_attention,
    group_exposure,
    js_divergence,
)
from fairtk.groups.groups import rows_of

WORLD = background("trec-2022-world-population")
GENDER = background("trec-2022-gender")
SHAPE = {"sub-geo": 21, "src-geo": 21, "gender": 4, "occ": 33, "alpha": 4, "age": 4, "pop": 4,
         "langs": 3}  # fmt: skip
LEVELS = {
    "sub-geo": ["@UNKNOWN", *WORLD.index],
    "src-geo": ["@UNKNOWN", *WORLD.index],
    "gender": ["@UNKNOWN", *GENDER.index],
}
BACKGROUND = {"sub-geo": WORLD, "src-geo": WORLD, "gender": GENDER}


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def attribute(name, docnos, rng):
    """Invented memberships: most pages have one level, geography and occupation often several."""
    n, k = len(docnos), SHAPE[name]
    levels = LEVELS.get(name, [f"{name}-{i}" for i in range(k)])
    if name == "occ":
        levels = ["@UNKNOWN", *levels[1:]]
    many = {"sub-geo": 1.3, "src-geo": 2.5, "occ": 1.3}.get(name, 1.0)
    count = np.minimum(1 + rng.poisson(many - 1, n), 8) if many > 1 else np.ones(n, dtype=int)
    owner = np.repeat(np.arange(n), count)
    p = rng.dirichlet(np.ones(k))
    level = rng.choice(k, size=len(owner), p=p)
    frame = pd.DataFrame({"row": owner, "level": level, "weight": rng.integers(1, 4, len(owner))})
    frame = frame.drop_duplicates(["row", "level"])
    frame["docno"] = docnos[frame["row"].to_numpy()]
    frame["group"] = pd.Categorical.from_codes(frame["level"], levels)
    unknown = "@UNKNOWN" if "@UNKNOWN" in levels else None
    return Groups.from_frame(
        frame[["docno", "group", "weight"]], name=name, levels=levels, unknown=unknown
    )


def ids(n, rng):
    return np.sort(rng.choice(12 * n, size=n, replace=False)).astype(np.int64)


def run_of(docnos, topics, depth, rng):
    rows = []
    for topic in range(topics):
        chosen = rng.choice(docnos, size=depth, replace=False)
        rows.append(
            pd.DataFrame(
                {"qid": str(topic), "docno": chosen, "score": -np.arange(depth, dtype=float)}
            )
        )
    return pd.concat(rows, ignore_index=True)


def awrf(groups, target, frame):
    rankings = Run(frame, "bench")
    weight = TREC().weights(rankings.position)
    shown = document_attention(rankings, weight)
    exposure = group_exposure(shown, groups.memberships(rankings.docnos))
    return 1 - js_divergence(exposure, target.for_qids(rankings.qids))


def dense_reference(groups, names, rel, shown, discount):
    """AWRF of one topic by outer products over all cells, as a plain numpy program does it."""
    from scipy.spatial.distance import jensenshannon

    def outer(docs, weight):
        left, right = names[:3], names[3:]
        a = combined([groups[n] for n in left], docs) * weight[:, None]
        b = combined([groups[n] for n in right], docs)
        return a.T @ b

    def combined(factors, docs):
        result = np.ones((len(docs), 1))
        for factor in factors:
            m = factor.matrix[rows_of(factor.documents[0], docs)].toarray()
            result = (result[:, :, None] * m[:, None, :]).reshape(len(docs), -1)
        return result

    mean = outer(rel, np.full(len(rel), 1 / len(rel)))
    heads = [len(groups[n].levels) for n in names[:3]]
    mean = mean.reshape(*heads, -1)
    tail = mean.sum(axis=-1)
    marginal = mean.sum(axis=(0, 1, 2))
    spread = np.where(tail[..., None] > 0, mean, marginal)
    spread /= spread.sum(axis=-1, keepdims=True)
    shares = [np.asarray(BACKGROUND[n]) for n in names[:3]]
    for case in range(1, 8):
        known = [bool(case >> i & 1) for i in range(3)]
        where = tuple(slice(1, None) if k else slice(0, 1) for k in known)
        bg = np.ones((1, 1, 1))
        for i, k in enumerate(known):
            if k:
                form = [1, 1, 1]
                form[i] = -1
                bg = bg * shares[i].reshape(form)
        mass = mean[where].sum()
        mean[where] = 0.5 * mean[where] + 0.5 * bg[..., None] * spread[where] * mass
    system = outer(shown, discount) / discount.sum()
    return 1 - jensenshannon(system.ravel(), mean.ravel()) ** 2


def crossed(
    topics: int = scale(50, 2),
    depth: int = scale(500, 20),
    relevant: int = scale(300, 20),
    dense_topics: int = scale(3, 1),
):
    rng = np.random.default_rng(7)
    docnos = ids(scale(200_000, 1_000), rng)
    single = {name: attribute(name, docnos, rng) for name in SHAPE}
    strings = docnos.astype(str).astype(object)
    frame = run_of(strings, topics, depth, rng)
    qrels = run_of(strings, topics, relevant, rng)[["qid", "docno"]].assign(label=1)
    # half of the relevant documents are retrieved, so that supports overlap
    half = frame.groupby("qid").head(relevant // 2)[["qid", "docno"]].assign(label=1)
    rest = qrels.groupby("qid").head(relevant - relevant // 2)
    qrels = pd.concat([half, rest]).drop_duplicates(["qid", "docno"])
    groups = single["sub-geo"]
    for name in list(SHAPE)[1:]:
        groups = groups * single[name]
    awrf(groups, Target.from_qrels(qrels, groups, BACKGROUND), frame)  # warm up
    before = peak()
    begin = time.perf_counter()
    target = Target.from_qrels(qrels, groups, BACKGROUND)
    made = time.perf_counter()
    values = awrf(groups, target, frame)
    sparse = time.perf_counter() - begin
    print(f"{groups!r}: {groups.space.size:,} cells, peak {peak():.0f} MB (+{peak() - before:.0f})")
    print(f"  sparse: {sparse:.3f} s for {topics} topics (targets {made - begin:.3f} s)")
    discount = TREC().weights(np.arange(depth))
    begin = time.perf_counter()
    reference = []
    for topic in range(dense_topics):
        shown = frame.loc[frame["qid"] == str(topic), "docno"].to_numpy(object)
        rel = qrels.loc[qrels["qid"] == str(topic), "docno"].to_numpy(object)
        reference.append(dense_reference(single, list(SHAPE), rel, shown, discount))
    dense = (time.perf_counter() - begin) / dense_topics * topics
    print(f"  dense:  {dense:.1f} s for {topics} topics ({dense_topics} measured)")
    print(f"  ratio:  {dense / sparse:.0f} times faster; largest difference "
          f"{np.abs(values[:dense_topics] - reference).max():.1e}")  # fmt: skip


def single(
    n: int = scale(6_500_000, 5_000),
    topics: int = scale(50, 2),
    runs: int = scale(27, 2),
    depth=500,
):
    import ir_measures
    from ir_measures import nDCG

    rng = np.random.default_rng(8)
    docnos = ids(n, rng)
    begin = time.perf_counter()
    groups = attribute("sub-geo", docnos, rng)
    print(f"{groups!r}: made in {time.perf_counter() - begin:.1f} s, peak {peak():.0f} MB")
    stored = sum(
        a.nbytes
        for a in (groups.matrix.indptr, groups.matrix.indices, groups.matrix.data,
                  groups.documents[0].to_numpy())
    )  # fmt: skip
    print(f"  kept in memory: {stored / 2**20:.0f} MB")
    pool = docnos[rng.choice(n, scale(40_000, 2_000), replace=False)].astype(str).astype(object)
    frames = [run_of(pool, topics, depth, rng) for _ in range(runs)]
    qrels = run_of(pool, topics, 300, rng)[["qid", "docno"]].assign(label=1)
    target = Target.from_qrels(qrels, groups, WORLD)
    theirs_frames = [f.rename(columns={"qid": "query_id", "docno": "doc_id"}) for f in frames]
    theirs_qrels = qrels.rename(
        columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"}
    )
    evaluator = ir_measures.pytrec_eval.evaluator([nDCG @ depth], theirs_qrels)
    ours, theirs = [], []
    for frame, other in zip(frames, theirs_frames, strict=True):
        begin = time.perf_counter()
        awrf(groups, target, frame)
        ours.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        list(evaluator.iter_calc(other))
        theirs.append(time.perf_counter() - begin)
    print(f"  AWRF@{depth}: {sum(ours):.2f} s; pytrec_eval's nDCG@{depth}: {sum(theirs):.2f} s "
          f"(ratio {sum(ours) / sum(theirs):.2f}, must be 1 or less)")  # fmt: skip
    begin = time.perf_counter()
    print(f"  {groups.key} in {time.perf_counter() - begin:.1f} s, peak {peak():.0f} MB")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["crossed", "single"]:
        {"crossed": crossed, "single": single}[name]()
