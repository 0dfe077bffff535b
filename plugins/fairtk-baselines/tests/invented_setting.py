"""A study's setting over invented documents, in memory."""

import pandas as pd
import pyterrier as pt
import pytest

pytest.importorskip("fairtk_papers")

from fairtk_papers.fair_qr import Setting

from fairtk import BM25Scorer, Target

WORDS = ["sail", "kiln", "moss", "comet"]
TOPICS = pd.DataFrame({"qid": list("1234"), "query": WORDS})


def setting_of(docs, groups, folder, seed, options):
    """Return the setting; `docs` has ``docno`` and ``text``, and every topic may find them all."""
    texts = docs[["docno", "text"]]
    every = pt.apply.generic(lambda topics: topics.merge(texts, how="cross"))
    return Setting(
        attribute="group",
        groups=groups,
        target=Target.uniform(groups),
        retriever=every >> BM25Scorer() >> pt.apply.generic(lambda run: run.drop(columns="text")),
        texts=pt.apply.generic(lambda run: run.merge(texts, on="docno")),
        documents=lambda: iter(texts.to_dict("records")),
        collection="invented",
        cutoff=5,
        candidates=20,
        seed=seed,
        folder=folder,
        options=options,
    )
