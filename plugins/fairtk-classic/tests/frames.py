"""Small frames, and values of measures on them."""

import ir_measures
import pandas as pd

from fairtk import Groups, Target


def groups(members, name="toy", levels=None, **options):
    """Groups from {docno: level or {level: weight}}."""
    rows = [
        (docno, level, weight)
        for docno, found in members.items()
        for level, weight in (found if isinstance(found, dict) else {found: 1.0}).items()
    ]
    frame = pd.DataFrame(rows, columns=["docno", "group", "weight"])
    return Groups.from_frame(frame, name=name, levels=levels, **options)


def spelled(letters, prefix="d"):
    """Members and ranking from a string of one-letter levels in rank order; '.': no group."""
    ranking = [f"{prefix}{i:03}" for i in range(1, len(letters) + 1)]
    return {d: x for d, x in zip(ranking, letters, strict=True) if x != "."}, ranking


def target(weights, of):
    """A target for all queries from {level: weight}."""
    frame = pd.DataFrame({"group": list(weights), "weight": list(weights.values())})
    return Target.from_frame(frame, of)


def run(samples, qid="q"):
    """A run of one query from rankings; several are samples."""
    rows = [
        (qid, docno, -float(rank), sample)
        for sample, ranking in enumerate(samples)
        for rank, docno in enumerate(ranking)
    ]
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "score", "sample"])
    return frame if len(samples) > 1 else frame.drop(columns="sample")


def qrels(labels, qid="q"):
    rows = [(qid, docno, label) for docno, label in labels.items()]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])


def value(measure, samples, labels=None):
    """The measure's value for one query.

    Args:
        measure: the measure.
        samples: a ranking, or a list of rankings.
        labels: label by docno; by default the first document has 1.
    """
    samples = samples if not samples or isinstance(samples[0], list) else [samples]
    labels = {samples[0][0]: 1} if labels is None else labels
    found = list(ir_measures.iter_calc([measure], qrels(labels), run(samples)))
    assert len(found) == 1
    return float(found[0].value)
