"""Study a LaMP folder: fair rankings of each user's items, and their effect on answers.

    python examples/lamp_folder.py FOLDER --task 4 [--out DIR] [--model FOLDER]

FOLDER holds ``dev_questions.json`` and ``dev_outputs.json`` as LaMP publishes them. BM25 ranks
each user's profile; FairSampler draws rankings at each alpha; OracleSampler ranks with
knowledge of the labels; a T5 answers from the first entries of each ranking. The tables have the
disparity of exposure (EE_D), the exposure of useful entries (EE_R), the quality of rankings (nDCG)
and answers (EU), and the time of each stage.

Labels. LaMP has no labels of useful entries. The paper computes them with the generator, one entry
at a time; this script approximates them by word overlap with the gold answer. Words are runs of
letters and digits, lower-cased, apostrophes dropped, without the stop words listed below, and
without single letters. An entry is useful (label 1) if the text and the fields that the prompt
shows share at least two distinct words with the gold answer, or all of them if the gold answer has
fewer than two (--overlap changes the two). For task 1 the gold answer is the title of the right
reference. Such labels do not depend on the generator: EE_R and nDCG only measure the exposure of
entries that resemble the answer.

Sampling error. For each query the standard error of EE_D over the N sampled rankings is a
delete-one jackknife. EE_D is the squared norm of mean exposure e, so leaving ranking i out changes
it through a_i = e . x_i alone (x_i: the 0/1 exposure in ranking i), and one pass over the rows
gives all N values. Differences between two alphas are jackknifed in pairs, sample by sample,
because both come from the same random stream of the query.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_R, EU, BM25Scorer, Candidates, E, FairSampler, FlanT5, OracleSampler
from fairtk.datasets import get_answers, get_topics, lamp
from fairtk.measures import format_measure

ALPHAS = (1, 2, 4, 8)
DETERMINISTIC, ORACLE = "deterministic", "oracle"
SHORT = {DETERMINISTIC: "fixed"}
PACKAGED = os.fspath(fairtk.demo.model_folder())
TAGS_ONLY = (
    "The packaged T5 answers with movie tags whatever it reads: EU shows that the pipeline runs, "
    "and nothing about answers; --model takes another one."
)
UTILITIES = {
    **dict.fromkeys((1, 2), EU(utility="accuracy")),
    3: EU(utility="mae", upper_bound=4),
    **dict.fromkeys((4, 5, 6, 7), EU(utility="rougeL")),
}
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after all also am an and any are as at be because been before being but
        by can could did do does for from get gets had has have he her here him his how
        i if in into is it its just know like make makes many may me more most much my
        new no not now of off on one only or other our out over really s say says she
        should so some still such t than that the their them then there these they this
        those to too two up us very want was way we were what when where which while who
        why will with would you your
        """,
    )
)
WORD = re.compile(r"[^\W_]+")


# ---------------------------------------------------------------------------------------- labels


def words(text: str) -> set[str]:
    """Return the distinct content words of a text; see the rule at the top."""
    plain = text.lower().replace("'", "").replace("’", "")
    return {w for w in WORD.findall(plain) if w not in STOP_WORDS and (len(w) > 1 or w.isdigit())}


def target_words(task: int, question: str, gold: str) -> set[str]:
    """Return the words that a useful entry shares: the gold answer's, or the reference's title."""
    if task == 1:
        title = re.search(re.escape(gold.strip()) + r': "(.*?)"(?:\s*\[\d\]: "|\s*$)', question)
        gold = title.group(1) if title else gold
    return words(gold)


def overlap_labels(
    run: pd.DataFrame, answers: pd.DataFrame, task: int, fields: list[str], least: int
) -> pd.DataFrame:
    """Return qrels with a label for each candidate, and the gold answers."""
    golds = dict(zip(answers["qid"], answers["gold_answer"], strict=True))
    questions = run.drop_duplicates("qid").set_index("qid")["question"]
    wanted = {qid: target_words(task, questions[qid], golds[qid]) for qid in questions.index}
    entries = run[fields[0]].astype(str)
    for field in fields[1:]:
        entries = entries + " " + run[field].astype(str)
    label = [
        int(bool(wanted[qid]) and len(wanted[qid] & words(entry)) >= min(least, len(wanted[qid])))
        for qid, entry in zip(run["qid"], entries, strict=True)
    ]
    return fairtk.join_answers(run[["qid", "docno"]].assign(label=label), answers)


# -------------------------------------------------------------------------------- sampling error


def jackknife(run: pd.DataFrame, cutoff: int) -> pd.DataFrame:
    """Return EE_D of each query with one ranking left out: a row per qid, a column per sample.

    The exposure is the machine user's: 1 for the first `cutoff` documents. EE_D is divided by its
    largest value min(cutoff, n), which is the number of documents in each ranking.
    """
    top = run[run["rank"] < cutoff]
    n_samples = top["sample"].nunique()
    seen = top.groupby(["qid", "docno"])["sample"].transform("size") / n_samples  # e of each row
    along = seen.groupby([top["qid"], top["sample"]]).sum().unstack()  # a_i = e . x_i
    length = top.groupby("qid")["sample"].size() / n_samples
    norm = along.mean(axis=1)  # the mean of e . x_i is e . e
    left_out = (
        along.mul(-2 * n_samples).add(n_samples**2 * norm + length, axis=0) / (n_samples - 1) ** 2
    )
    return left_out.div(length, axis=0)


def standard_error(left_out: pd.DataFrame) -> pd.Series:
    """Return the jackknife's standard error of each query."""
    n = left_out.shape[1]
    return np.sqrt((n - 1) * left_out.var(axis=1, ddof=0))


# -------------------------------------------------------------------------------------- systems


def why_flat(scores: pd.Series, cutoff: int) -> str:
    """Say why alpha cannot change the exposure of a query's candidates (much)."""
    n, best = len(scores), int((scores == scores.max()).sum())
    if n <= cutoff:
        return f"{n} candidates, not more than the {cutoff} that are read: all are always seen"
    if scores.nunique() == 1:
        return f"all {n} scores are equal: uniform at every alpha"
    if best >= cutoff:
        return f"{best} of {n} candidates share the best score, and places are shared evenly"
    return f"{n} candidates, {scores.nunique()} distinct scores: the rise is within sampling error"


def flat_queries(table: pd.DataFrame, left_out: dict[str, pd.DataFrame], scored: pd.DataFrame,
                 cutoff: int) -> pd.DataFrame:  # fmt: skip
    """Return the queries whose EE_D at the largest alpha is not clearly above the smallest's."""
    first, last = list(left_out)[0], list(left_out)[-1]
    rise = table[last] - table[first]
    error = standard_error(left_out[last] - left_out[first])
    flat = table.index[rise <= 3 * error + 1e-9]
    scores = scored.groupby("qid")["score"]
    reasons = [why_flat(scores.get_group(qid), cutoff) for qid in flat]
    return table.loc[flat].assign(reason=reasons)


# ------------------------------------------------------------------------------------------ main


def main() -> None:
    """Run the study and print it."""
    args = arguments()
    clock = Clock()

    dataset = lamp.from_folder(args.folder, task=args.task)
    topics = get_topics(dataset)[: args.queries]
    answers = get_answers(dataset)
    retriever = Candidates(dataset) >> BM25Scorer()
    scored = retriever(topics)
    topics = topics[topics["qid"].isin(scored["qid"])]  # a query without profile is warned about
    clock.stop("retrieve")

    generator = FlanT5(
        model=args.model,
        prompt=f"lamp-{args.task}",
        cutoff=args.cutoff,
        max_new_tokens=args.max_new_tokens or (8 if args.model == PACKAGED else 32),
    )
    fields = list(dict.fromkeys(["text", *generator.prompt.fields]))
    qrels = overlap_labels(scored, answers, args.task, fields, args.overlap)
    clock.stop("label")

    settings = {"n_samples": args.samples, "cutoff": args.cutoff}
    systems = {f"alpha {a}": FairSampler(alpha=a, **settings) >> generator for a in ALPHAS}
    sampled = list(systems)
    systems[DETERMINISTIC] = pt.Transformer.identity() % args.cutoff >> generator
    systems[ORACLE] = OracleSampler(qrels, **settings) >> generator

    utility = UTILITIES[args.task]
    disparity, relevance, quality = EE_D @ args.cutoff, EE_R @ args.cutoff, E(nDCG @ args.cutoff)
    everything = fairtk.Experiment(
        systems, scored, qrels, [disparity, utility], save_dir=args.save_dir
    )
    answered = {name: everything.rankings(name) for name in everything.systems}
    # EE_R is undefined where no entry is useful, and nDCG says nothing there
    defined = fairtk.drop_undefined(qrels)
    useful = fairtk.Experiment(answered, qrels=defined, measures=[relevance, quality])
    clock.stop("sample, generate, measure")

    values = pd.concat([everything.per_query, useful.per_query], ignore_index=True)
    values = values.rename(columns={"system": "name"})
    columns = [format_measure(m) for m in (disparity, relevance, quality, utility)]
    means = values.pivot_table(index="name", columns="measure", values="value", aggfunc="mean")
    means = means.loc[list(answered), columns]
    n_useful = defined["qid"].nunique()
    rankings = sum(len(everything.answers(name)) for name in answered)

    print(f"\nLaMP-{args.task}: {len(topics)} queries, {len(scored)} profile entries; "
          f"{int(qrels['label'].sum())} of them useful by word overlap, for {n_useful} queries; "
          f"{rankings} rankings of {args.cutoff}")  # fmt: skip
    print(means.to_string(float_format="{:.4f}".format))
    print(f"EE_D (lower is more even), EU (higher is better): means over all {len(topics)} queries")
    print(f"EE_R, nDCG (higher is better): means over the {n_useful} with a useful entry")
    if args.model == PACKAGED and args.task != 2:
        print(TAGS_ONLY)
    print("\nseconds:", clock)

    by_query = values[values["measure"] == format_measure(disparity)]
    by_query = by_query.pivot(index="qid", columns="name", values="value").loc[topics["qid"]]
    left_out = {n: jackknife(answered[n], args.cutoff).loc[by_query.index] for n in sampled}
    check(means[format_measure(disparity)], by_query, left_out)
    flat = flat_queries(by_query[sampled], left_out, scored, args.cutoff)
    print(f"\nflat queries (EE_D at {sampled[-1]} at most 3 standard errors above {sampled[0]}): "
          f"{len(flat)}")  # fmt: skip
    if len(flat):
        print(flat.to_string(float_format="{:.3f}".format))

    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        means.to_csv(args.out / "means.csv")
        values.to_csv(args.out / "per_query.csv", index=False)
        plot(means, by_query[[*sampled, DETERMINISTIC]], args.out / "lamp_folder.png")
        print(f"\nwritten to {args.out}: means.csv, per_query.csv, lamp_folder.png")


def check(means: pd.Series, by_query: pd.DataFrame, left_out: dict[str, pd.DataFrame]) -> None:
    """Print whether exposure gets more uneven as alpha rises, in the mean and query by query."""
    sampled = list(left_out)
    rising = bool((means[sampled].diff().dropna() > 0).all())
    print(f"\nmean {means.name} rises with alpha: {'yes' if rising else 'NO'} "
          f"({' < '.join(f'{v:.4f}' for v in means[sampled])})")  # fmt: skip
    print("from, to, mean rise, smallest rise of a query, its standard error, queries that fall, "
          "of these by more than 3 standard errors")  # fmt: skip
    for low, high in zip(sampled, sampled[1:], strict=False):
        rise = by_query[high] - by_query[low]
        error = standard_error(left_out[high] - left_out[low])
        worst = rise.idxmin()
        falls = rise < -1e-12
        clear = rise < -3 * error - 1e-12
        print(f"{low} -> {high}: {rise.mean():+.4f}, {rise[worst]:+.4f} (qid {worst}), "
              f"{error[worst]:.4f}, {int(falls.sum())}, {int(clear.sum())}")  # fmt: skip


def plot(means: pd.DataFrame, by_query: pd.DataFrame, path: Path) -> None:
    """Draw EE_D by alpha, query by query, and what evenness costs in relevance and utility."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    disparity, relevance, _, utility = means.columns
    figure, (left, *right) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")

    steps = range(by_query.shape[1])
    left.plot(steps, by_query.to_numpy().T, color="0.75", linewidth=0.6, zorder=1)
    left.plot([], [], color="0.75", label="one query")
    left.plot(steps, means.loc[by_query.columns, disparity], "o-", color="#0072B2", linewidth=2,
              label="mean")  # fmt: skip
    left.set_xticks(steps, [n.removeprefix("alpha ") for n in by_query.columns[:-1]] + ["fixed"])
    left.set_xlabel("alpha (right: closer to the deterministic ranking)")
    left.set_ylabel(f"disparity of exposure, {disparity}\n<- more even")
    left.set_ylim(0, 1.03)
    left.legend(frameon=False, loc="lower right")

    labels = (f"exposure of useful entries, {relevance}", f"utility of answers, {utility}")
    for axes, column, label in zip(right, (relevance, utility), labels, strict=True):
        line = means.loc[by_query.columns]
        axes.plot(line[disparity], line[column], "o-", color="#0072B2", label="alpha")
        for name, row in line.iterrows():
            short = SHORT.get(name, name.removeprefix("alpha "))
            axes.annotate(short, (row[disparity], row[column]), xytext=(5, -13),
                          textcoords="offset points", color="#0072B2")  # fmt: skip
        best = means.loc[ORACLE]
        axes.plot(best[disparity], best[column], "*", color="#D55E00", markersize=13, label=ORACLE)
        axes.set_xlabel("disparity of exposure, " + disparity + "\n<- more even")
        axes.set_ylabel(f"{label}\nbetter ->")
        axes.set_xlim(0, 1.25)
        axes.set_xticks(np.linspace(0, 1, 6))
        top = max(1.1 * means[column].max(), 0.1)
        axes.set_ylim(0 if means[column].max() > 0 else -top / 8, top)  # labels stay off the axis
    right[0].legend(frameon=False, loc="best")
    figure.savefig(path, dpi=150)
    plt.close(figure)


class Clock:
    """Wall time of the stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def stop(self, stage: str) -> None:
        """Say that a stage has ended."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now

    def __str__(self) -> str:
        return ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in self.seconds.items())


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="with dev_questions.json and dev_outputs.json")
    parser.add_argument("--task", type=int, choices=range(1, 8), required=True, help="LaMP's task")
    parser.add_argument("--out", type=Path, help="folder for tables and the plot (default: none)")
    parser.add_argument(
        "--save-dir", type=Path, help="folder of a store: a run that was killed goes on there"
    )
    parser.add_argument("--queries", type=int, help="only the first so many (default: all)")
    parser.add_argument("--samples", type=int, default=100, help="rankings per query (default 100)")
    parser.add_argument("--cutoff", type=int, default=5, help="entries in a prompt (default 5)")
    parser.add_argument("--overlap", type=int, default=2, help="words shared to be useful (2)")
    parser.add_argument(
        "--max-new-tokens", type=int, help="longest answer (32; 8 with the packaged model)"
    )
    parser.add_argument(
        "--model",
        default=PACKAGED,
        help="a T5: folder or hub name (default: the packaged one, which knows movie tags only)",
    )
    args = parser.parse_args()
    for name, least in (
        ("queries", 1),
        ("samples", 2),
        ("cutoff", 1),
        ("overlap", 1),
        ("max_new_tokens", 1),
    ):
        value = getattr(args, name)
        if value is not None and value < least:
            parser.error(f"--{name} must be at least {least}; found {value}")
    return args


if __name__ == "__main__":
    try:
        main()
    except fairtk.errors.FairtkError as error:
        sys.exit(f"Error: {error}")
