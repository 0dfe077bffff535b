"""An invented collection for DLF: vectors in which relevance and groups are directions."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairtk import Groups, Target


@dataclass
class Collection:
    """Rankings with vectors, labels, groups and targets."""

    run: pd.DataFrame
    qrels: pd.DataFrame
    groups: Groups
    target: Target

    def part(self, qids):
        """Return the rankings of some queries."""
        return self.run[self.run["qid"].isin(list(qids))].reset_index(drop=True)


def make_collection(
    n_queries=24, n_docs=60, dimension=16, seed=7, bias=0.5, levels=("a", "b"), minority=0.35
):
    """Return queries whose candidates' vectors lean to the query if relevant, and to their group.

    By `bias`, relevant texts of other groups than the first lean less to the query: a retriever and
    a relevance model prefer the first. The target is half what is relevant, half an even share.
    """
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    shares = np.full(len(levels), minority / max(1, len(levels) - 1))
    shares[0] = 1 - minority
    rows, labels, members = [], [], []
    for q in range(n_queries):
        query = rng.normal(size=dimension)
        query -= directions[: len(levels)].T @ (directions[: len(levels)] @ query)
        query /= np.linalg.norm(query)
        group = rng.choice(len(levels), p=shares, size=n_docs)
        relevant = rng.random(n_docs) < 0.5
        noise = rng.normal(size=(n_docs, dimension)) / np.sqrt(dimension)
        toward = relevant * (1 - bias * (group != 0))
        vectors = noise + toward[:, None] * query + 0.8 * directions[group]
        score = toward + 0.4 * rng.normal(size=n_docs)
        order = np.argsort(-score, kind="stable")
        for rank, i in enumerate(order):
            docno = f"d{q:02d}.{i:03d}"
            vector = vectors[i].astype(np.float32)
            rows.append((f"q{q:02d}", docno, score[i], rank, query.astype(np.float32), vector))
            members.append((docno, levels[group[i]]))
            if relevant[i]:
                labels.append((f"q{q:02d}", docno, 1))
    columns = ["qid", "docno", "score", "rank", "query_vec", "doc_vec"]
    qrels = pd.DataFrame(labels, columns=["qid", "docno", "label"])
    frame = pd.DataFrame(members, columns=["docno", "group"])
    groups = Groups.from_frame(frame, name="side", levels=list(levels))
    even = {level: 1 / len(levels) for level in levels}
    target = Target.from_qrels(qrels, groups, background=even)
    return Collection(pd.DataFrame(rows, columns=columns), qrels, groups, target)
