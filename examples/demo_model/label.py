"""Write the demo's utility labels: ``python -m demo_model.label [--out FILE]``.

A profile entry is useful for a query if the packaged model answers better with that entry alone
than without any (Kim and Diaz 2024, "Towards Fair RAG", section 3.1 and appendix B):
gain = u(answer with the entry) - u(answer without), label = 1 if gain > 0, else 0, where u is
accuracy. A query that the model answers right without any entry has no useful entry.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fairtk import utilities
from fairtk.demo import collection_folder, load_topics_and_candidates, model_folder
from fairtk.frames.columns import DOCNO, GOLD_ANSWER, LABEL, QANSWER, QID, RANK, SAMPLE, SCORE


def label(topics: pd.DataFrame, candidates: pd.DataFrame) -> pd.DataFrame:
    """Label every candidate of the topics.

    Args:
        topics: ``qid``, ``query``, ``question``, ``gold_answer``.
        candidates: run R with the columns of the LaMP-2 prompt (``text``, ``tag``).

    Returns:
        ``qid``, ``docno``, ``label`` (0 or 1) and ``gain`` (-1, 0 or 1), in the order of the
        candidates.
    """
    from fairtk.transformers.generator import FlanT5

    generator = FlanT5(
        model=model_folder(), prompt="lamp-2", cutoff=1, device="cpu", batch_tokens=4096
    )
    accuracy = utilities.get("accuracy")
    golds = topics.set_index(QID)[GOLD_ANSWER]

    alone = generator.transform(topics)
    base = pd.Series(accuracy(alone[QANSWER].tolist(), alone[GOLD_ANSWER].tolist()), alone[QID])

    # Each candidate becomes a ranking of its own: one sample per candidate.
    single = candidates.assign(
        **{SAMPLE: candidates.groupby(QID, sort=False).cumcount(), SCORE: 0.0, RANK: 0}
    )
    answered = generator.transform(single)
    qids = answered[QID]
    utility = accuracy(answered[QANSWER].tolist(), golds.loc[qids].tolist())
    gain = utility - base.loc[qids].to_numpy()
    return pd.DataFrame(
        {
            QID: qids.to_numpy(),
            DOCNO: answered[DOCNO].to_numpy(),
            LABEL: (gain > 0).astype(int),
            "gain": gain.astype(int),
        }
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m demo_model.label", description=__doc__)
    parser.add_argument(
        "--out",
        type=Path,
        default=collection_folder() / "qrels.tsv",
        help="file (default: the packaged one)",
    )
    out: Path = parser.parse_args(argv).out
    labels = label(*load_topics_and_candidates())
    out.write_bytes(labels.to_csv(sep="\t", index=False, lineterminator="\n").encode("utf-8"))
    useful = labels[labels[LABEL] > 0]
    print(
        f"{len(useful)} of {len(labels)} profile entries are useful, for "
        f"{useful[QID].nunique()} of {labels[QID].nunique()} queries; written to {out}"
    )


if __name__ == "__main__":
    main()
