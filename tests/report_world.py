"""Results whose texts try to be markup, with a failed query, a missing one, an undefined one."""

import warnings

import numpy as np
import pandas as pd

import fairtk
from fairtk import EE_D, EE_R, EU, FairSampler
from fairtk.measures import parse
from fairtk.transformers.base import FairTransformer

MARKUP = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
)
"""What would change the page's title if it were markup."""

N_SAMPLES = 12


class Candidates(FairTransformer):
    """Q -> R: eight documents of each query, whose ids and texts look like markup."""

    SETTINGS = ("lost",)

    def __init__(self, lost=()):
        self.lost = lost

    def transform(self, inp):
        rows = []
        for qid, query in zip(inp["qid"], inp["query"], strict=True):
            if qid == "q1" and "q1" in self.lost:
                raise RuntimeError(f"no luck {MARKUP}")
            if qid not in self.lost:
                rng = np.random.default_rng(list(qid.encode()))
                scores = np.sort(rng.random(8))[::-1]
                rows += [
                    (qid, query, f"{qid}-d{j}<b>", scores[j], j, f"text {j} of {qid} {MARKUP}")
                    for j in range(8)
                ]
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank", "text"])


class Answers(FairTransformer):
    """R -> answers: the first document of each ranking, in words."""

    SETTINGS = ()

    def transform(self, inp):
        keys = [c for c in ("qid", "sample") if c in inp.columns]
        first = inp.sort_values("rank").groupby(keys)["docno"].transform("first")
        return inp.assign(qanswer="it is " + first + MARKUP)


def hostile_results(save_dir=None, n_queries=30):
    """Return the results of three systems; q2 has no useful document, q1 fails for `other`."""
    qids = [f"q{i}" for i in range(n_queries)]
    topics = pd.DataFrame({"qid": qids, "query": [f"words of {q} {MARKUP}" for q in qids]})
    qrels = pd.DataFrame(
        [
            (q, f"{q}-d{j}<b>", int(j % 3 == 0 and q != "q2"), f"it is {q}-d0<b>{MARKUP}")
            for q in qids
            for j in range(8)
        ],
        columns=["qid", "docno", "label", "gold_answer"],
    )
    systems = {
        "fixed <i>": Candidates() >> Answers(),
        "fair": Candidates() >> FairSampler(alpha=1, n_samples=N_SAMPLES, cutoff=3) >> Answers(),
        f"other {MARKUP}": Candidates(lost=("q1", "q3")) >> FairSampler(alpha=0, n_samples=3),
    }
    measures = [EE_D @ 3, EE_R @ 3, parse("E(nDCG@3)")]
    if n_queries < 10:
        systems.popitem()
        measures.append(EU(utility="accuracy"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fairtk.errors.FairtkWarning)
        return fairtk.Experiment(
            systems, topics, qrels, measures, baseline=0, save_dir=save_dir, batch_size=1
        )
