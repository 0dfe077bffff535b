"""Compare credit methods on multi-hop questions: do supporting documents get the credit?

    python examples/multihop_credit.py FOLDER [--utility f1]

FOLDER holds ``questions.jsonl``: ``qid``, ``question``, ``answer`` and ``documents`` (``docno``,
``title``, ``text``, ``supporting``), as made from HotpotQA and MuSiQue.

The reader is extractive: it answers with the sentence that BM25 ranks first for the question and
the better of its neighbors, and cites the document. It uses no language model, so the results are
for a reader whose use of documents is known, and do not apply to language models.

For each question, the AUC of a method is the share of pairs of a supporting and another document in
which the supporting one has more credit (ties count half): .5 is chance.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk import BM25Scorer, Generator
from fairtk.credit import Citations, Subsets, from_answers, max_shapley
from fairtk.statistics import mean_intervals

MAKERS = ("shapley", "one-out", "citations", "max-shapley", "BM25")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class Listed:
    """A prompt that keeps question and documents apart, for a reader that is a program."""

    name = "listed"
    fields = ("title", "text")

    def __call__(self, question: str, documents: Any, tokenizer: Any = None) -> str:
        texts = [f"{document['title']}. {document['text']}" for document in documents]
        return json.dumps([question, texts], ensure_ascii=False)


def read(prompts: list[str]) -> list[str]:
    """Answer each prompt with two neighboring sentences of a document, and cite it."""
    rows = []
    for number, prompt in enumerate(prompts):
        question, texts = json.loads(prompt)
        for document, text in enumerate(texts):
            for place, sentence in enumerate(re.split(r"(?<=[.!?])\s+", text)):
                rows.append((str(number), question, f"{document}/{place}", sentence))
    columns = ["qid", "query", "docno", "text"]
    scored = BM25Scorer(tokenize=words)(pd.DataFrame(rows, columns=columns))
    answers = [""] * len(prompts)  # without documents there is no answer
    for qid, part in scored.groupby("qid"):
        score, text = (part.set_index("docno")[name].to_dict() for name in ("score", "text"))
        best = max(score, key=lambda docno: (score[docno], docno))
        document, place = map(int, best.split("/"))
        beside = [f"{document}/{place + step}" for step in (-1, 1)]
        beside = sorted((docno for docno in beside if docno in score), key=score.__getitem__)[-1:]
        pair = sorted([best, *beside], key=lambda docno: int(docno.split("/")[1]))
        answers[int(str(qid))] = " ".join(f"{text[docno]} [{document + 1}]" for docno in pair)
    return answers


def load(folder: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the documents of each question, in the order of the file, and the answers."""
    rows, gold = [], {}
    for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        gold[one["qid"]] = one["answer"]
        for place, document in enumerate(one["documents"]):
            rows.append({"qid": one["qid"], "query": one["question"], **document, "rank": place})
    return pd.DataFrame(rows).assign(score=lambda frame: -frame["rank"].astype(float)), gold


def without_citations(answers: pd.DataFrame) -> pd.DataFrame:
    return answers.assign(qanswer=answers["qanswer"].str.replace(r" \[\d+\]", "", regex=True))


def key_points(question: str, texts: list[str]) -> np.ndarray:
    """Return how well each document covers each word of the question: its BM25 for that word."""
    points = sorted(set(words(question)))
    frame = pd.DataFrame(
        [(point, point, str(i), text) for point in points for i, text in enumerate(texts)],
        columns=["qid", "query", "docno", "text"],
    )
    scored = BM25Scorer(tokenize=words)(frame).set_index(["docno", "qid"])["score"].unstack()
    return scored.loc[[str(i) for i in range(len(texts))]].clip(lower=0).to_numpy()


def auc(credit: np.ndarray, supporting: np.ndarray) -> float:
    """Return the share of (supporting, other) pairs in the right order; NaN without such pairs."""
    difference = credit[supporting][:, None] - credit[~supporting][None, :]
    difference = np.where(np.abs(difference) < 1e-12, 0.0, difference)  # sums round
    return float(((np.sign(difference) + 1) / 2).mean()) if difference.size else np.nan


def interval(low: float, high: float, digits: str) -> str:
    return "no interval" if np.isnan(low) else f"[{low:{digits}}, {high:{digits}}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with questions.jsonl")
    parser.add_argument("--utility", default="f1", help="of answers, for Shapley and leave-one-out")
    args = parser.parse_args()
    documents, gold = load(args.folder)
    reader = Generator(read, Listed(), cutoff=8)
    answers = without_citations((Subsets("all") >> reader)(documents))
    ranked = documents.drop(columns=["score", "rank"])
    ranked["text"] = ranked["title"] + ". " + ranked["text"]
    scores = BM25Scorer(tokenize=words)(ranked)
    credit = {
        "shapley": from_answers(answers, args.utility, gold),
        "one-out": from_answers(answers, args.utility, gold, method="one-out"),
        "citations": Citations()(reader(documents)),
        "BM25": scores.rename(columns={"score": "credit"}),
    }
    values = {name: frame.set_index(["qid", "docno"])["credit"] for name, frame in credit.items()}
    table: dict[str, list[float]] = {name: [] for name in MAKERS}
    told = dict.fromkeys(MAKERS, 0)
    for qid, part in documents.groupby("qid", sort=False):
        texts = (part["title"] + ". " + part["text"]).tolist()
        supporting = part["supporting"].to_numpy(dtype=bool)
        for name in MAKERS:
            if name == "max-shapley":
                own = max_shapley(key_points(part["query"].iloc[0], texts))
            else:
                own = values[name].loc[qid].loc[part["docno"]].to_numpy()
            table[name].append(auc(own, supporting))
            told[name] += bool(np.ptp(own) > 1e-12)
    print(f"{documents['qid'].nunique()} questions, {len(documents)} documents, "
          f"{int(documents['supporting'].sum())} of them supporting")  # fmt: skip
    print("maker         AUC    95 % interval   minus BM25, by question   questions with credit")
    aucs = np.array([table[name] for name in MAKERS])
    low, high = mean_intervals(aucs)
    difference = aucs - aucs[MAKERS.index("BM25")]
    below, above = mean_intervals(difference)
    for i, name in enumerate(MAKERS):
        apart = f"{np.nanmean(difference[i]):+.3f} {interval(below[i], above[i], '+.3f')}"
        print(
            f"{name:12s} {np.nanmean(aucs[i]):.3f}  {interval(low[i], high[i], '.3f'):14s}  "
            f"{apart if name != 'BM25' else '':25s} {told[name]}"
        )


if __name__ == "__main__":
    main()
