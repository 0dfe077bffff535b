"""The cost and the progress of a study, without answering prompts."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from fairtk.credit import Subsets
from fairtk.experiment import Experiment, plan
from fairtk.frames import DOCNO, LABEL, QID, RANK, SAMPLE, FloatArray
from fairtk.llm import Chat, FunctionModel, Ledger, LedgerModel, Message
from fairtk.transformers import Candidates, Generator, SingleDocumentSampler
from fairtk_papers.fair_rag.credit import list_subsets
from fairtk_papers.fair_rag.labels import ALONE, WITHOUT, label_systems
from fairtk_papers.fair_rag.settings import SUBSETS, LampTask
from fairtk_papers.fair_rag.tables import DETERMINISTIC, ORACLE
from fairtk_papers.studies import COUNTS, STORE, StudyPlan

if TYPE_CHECKING:
    from fairtk_papers.fair_rag import RagStudy

N_ESTIMATED = 20
"""The number of queries from which the number of distinct rankings is estimated."""
LABELS = "labels"
CREDIT_SUFFIX = ", credit"
"""Suffix of a retriever, for the stage that answers from subsets of its rankings."""
PLAN = ["task", "retriever", "generator", "queries", "rankings", "prompts"]
STATUS = ["task", "generator", "stage", "queries", "done", "failed", "missing"]


def study_plan(study: RagStudy) -> StudyPlan:
    """Return the cost of a study; see `RagStudy.plan`."""
    settings = study.settings
    rows: list[tuple[Any, ...]] = []
    per_prompt: list[FloatArray] = []
    for task, name in product(study.tasks, study.generators):
        topics, candidates = task.topics[: settings.limit], Candidates(task.dataset)
        first, n_topics = topics[:N_ESTIMATED], len(topics)
        generator = study.generator(task, name)
        if not study.uses_published_labels(task):
            n_prompts = n_topics + len(candidates(topics[[QID]]))
            rows.append((task.name, LABELS, name, n_topics, 0, n_prompts))
            alone = SingleDocumentSampler()(candidates(first))
            per_prompt.append(_estimate_per_prompt(generator, [first, alone]))
        for retriever in study.retrievers:
            frames, *numbers = _distinct_prompts(study, task, retriever, first)
            distinct, *of_credit = (round(n * n_topics) for n in numbers)
            n_rankings = n_topics * (settings.n_samples * (len(settings.alphas) + 1) + 1)
            rows.append((task.name, retriever, name, n_topics, n_rankings, distinct))
            per_prompt.append(_estimate_per_prompt(generator, frames))
            if settings.credit in SUBSETS:
                rows.append((task.name, retriever + CREDIT_SUFFIX, name, n_topics, *of_credit))
                per_prompt.append(per_prompt[-1])
    work = pd.DataFrame(rows, columns=PLAN)
    progress, paces, pending = study_status(study)
    counts = progress.groupby(["task", "generator", "kind"])[["queries", "missing"]].sum()
    share = counts["missing"] / counts["queries"].clip(lower=1)
    keys = [*zip(work["task"], work["generator"], work["retriever"], strict=True)]
    n_unanswered = work[["prompts"]].to_numpy() * [[share.get(key, 0.0)] for key in keys]
    work[COUNTS] = np.where(n_unanswered > 0, per_prompt * n_unanswered, 0.0)
    rest = _without_recorded(study, pending)
    for key, (n_missing, n_oracle, counts) in rest.items():
        row = keys.index(key)
        n_unanswered[row] = round(n_missing + n_oracle)
        work.loc[row, COUNTS] = counts + (per_prompt[row] * n_oracle if n_oracle else 0.0)
    work = work.round({"completion_tokens": 0})
    work = work.astype(dict.fromkeys(("calls", "prompt_tokens"), np.int64))
    note = (
        f"About {n_unanswered.sum():,.0f} prompts are unanswered. Equal prompts count once; "
        "the number for the oracle is an upper bound."
    )
    if any(n_oracle for _, n_oracle, _ in rest.values()):
        note += " Rankings count for all queries, at most: labels, which are missing, exclude some."
    if work["calls"].any():
        note += " Calls go to servers; recorded answers cost nothing."
    if work["prompt_tokens"].any():
        note += (
            " Tokens and price are rough estimates: answers of the maximum length, prompts as "
            f"long as those of the first {N_ESTIMATED} queries."
        )
    unanswered = pd.Series(n_unanswered[:, 0]).groupby(work["generator"]).sum()
    seconds = {name: pace * unanswered[name] for name, pace in paces.items()}
    for name in seconds:
        note += _time_text(name, paces[name], seconds[name]) if unanswered[name] else ""
    total = {
        "prompts": float(n_unanswered.sum()),
        **work[COUNTS].sum(skipna=False),
        "seconds": sum(seconds.values()),
    }
    return StudyPlan(work, total, note)


Stage = tuple[str, str, str]
"""The names of the task and the generator, and ``labels`` or a retriever."""
Pending = tuple[pd.DataFrame, pd.DataFrame]
"""``system`` and ``qid`` of the pending queries of a stage, and the labels, empty if unknown."""


def _without_recorded(
    study: RagStudy, pending: Mapping[Stage, Pending]
) -> dict[Stage, tuple[float, float, FloatArray]]:
    """Return the work of the stages whose generator has recorded answers, without these.

    The numbers of labels are exact. Those of other stages are estimated from `N_ESTIMATED` pending
    queries, or exact if there are fewer. Without labels, the oracle's rankings are unknown.

    Returns:
        The number of prompts without an answer, the number of the oracle's if they are unknown, and
        `COUNTS` of the former.
    """
    work: dict[Stage, tuple[float, float, FloatArray]] = {}
    with contextlib.ExitStack() as stack:
        for task, name in product(study.tasks, study.generators):
            generator = study.generator(task, name)
            models = _recorded_models(study, generator, stack)
            counted: set[str | Chat] = set()
            for key, (waiting, qrels) in pending.items() if models else ():
                if key[:2] != (task.name, name):
                    continue
                qids = np.array([*dict.fromkeys(waiting[QID])], dtype=object)
                n = len(qids) if key[2] == LABELS else min(len(qids), N_ESTIMATED)
                places = np.linspace(0, len(qids) - 1, n).round().astype(int)
                part = waiting[waiting[QID].isin({*qids[places]})]
                prompts: dict[str | Chat, None] = {}
                for frame in _stage_inputs(study, task, key[2], part, qrels):
                    prompts.update(dict.fromkeys(generator.build_prompts(frame).prompts))
                new = [prompt for prompt in prompts if prompt not in counted]
                counted.update(new)
                chats = [p if isinstance(p, Chat) else Chat((Message("user", p),)) for p in new]
                calls, _, *rest = np.sum([model.estimate(chats) for model in models], axis=0)
                counts = np.array([calls, *rest]) * len(qids) / max(n, 1)
                is_unknown = qrels.empty & (waiting["system"] == ORACLE)
                n_oracle = float(is_unknown.sum() * study.settings.n_samples * len(models))
                work[key] = float(counts[0]), n_oracle, counts
    return work


def _recorded_models(
    study: RagStudy, generator: Generator, stack: contextlib.ExitStack
) -> list[LedgerModel]:
    """Return the models of a generator behind their ledger, or none if it has no answers of them.

    The stack closes the study's store.
    """
    path, models = study.folder / STORE, generator.models
    if isinstance(generator.llm, FunctionModel) or generator.llm.local:
        return []  # local models cost nothing, and their answers are stored by batches
    if not isinstance(generator.llm, LedgerModel):
        if not path.exists():
            return []
        store = stack.enter_context(Ledger(path))
        models = [store.wrap(model) for model in models]
    behind = [model for model in models if isinstance(model, LedgerModel)]
    return behind if any(m.ledger.store.has(m.name) for m in behind) else []


def _stage_inputs(
    study: RagStudy, task: LampTask, kind: str, waiting: pd.DataFrame, qrels: pd.DataFrame
) -> Iterator[pd.DataFrame]:
    """Yield the generator's inputs for the pending queries of a stage that are known."""
    topics = task.topics
    if kind == LABELS:
        without, alone = (
            topics[topics[QID].isin(waiting[QID][waiting["system"] == system])]
            for system in (WITHOUT, ALONE)
        )
        yield without
        if len(alone):
            yield SingleDocumentSampler()(Candidates(task.dataset)(alone))
        return
    retriever = kind.removesuffix(CREDIT_SUFFIX)
    nothing = pd.DataFrame({QID: topics[QID].iloc[:1], DOCNO: ["none"], LABEL: [0]})
    systems = study.systems(task, retriever, nothing if qrels.empty else qrels)
    if qrels.empty:
        del systems[ORACLE]
    for system, rows in waiting.groupby("system"):
        if system in systems:
            own = topics[topics[QID].isin(set(rows[QID]))]
            frame = Experiment({system: systems[system]}, own, warn=False).rankings(system)
            if kind != retriever:
                method = SUBSETS[study.settings.credit]
                frame = Subsets(method, cutoff=study.settings.cutoff)(frame)
            yield frame


def _estimate_per_prompt(generator: Generator, frames: Sequence[pd.DataFrame]) -> FloatArray:
    """Return the mean of each of `COUNTS` over the prompts of some frames."""
    calls, _, *rest = np.sum([generator.estimate(frame) for frame in frames], axis=0)
    n_prompts = sum(len(set(generator.build_prompts(frame).prompts)) for frame in frames)
    per_prompt: FloatArray = np.array([calls, *rest]) / max(n_prompts * generator.answers, 1)
    return per_prompt


def _time_text(generator: str, pace: float, seconds: float) -> str:
    if math.isnan(pace):
        return f" The time of {generator} is unknown until some answers are stored."
    rate = f"{1 / max(pace, 1e-6):,.2g} prompts a second, the rate of its stored answers"
    return f" {generator} needs about {tqdm.format_interval(seconds)} at {rate}."


def _distinct_prompts(
    study: RagStudy, task: LampTask, retriever: str, topics: pd.DataFrame
) -> tuple[list[pd.DataFrame], float, float, float]:
    """Return rankings, and three mean numbers of prompts per query.

    The numbers are distinct rankings, lists of documents for credit (with repetitions), and
    distinct lists that only credit requires. All rankings of the oracle count as distinct, because
    they depend on labels.
    """
    nothing = pd.DataFrame({QID: topics[QID].iloc[:1], DOCNO: ["none"], LABEL: [0]})
    systems = study.systems(task, retriever, nothing)
    del systems[ORACLE]
    subsets = SUBSETS.get(study.settings.credit)
    rankings: set[tuple[str, tuple[str, ...]]] = set()
    n_lists = 0
    results = Experiment(systems, topics)
    frames = {name: results.rankings(name).sort_values(RANK) for name in systems}
    for name, frame in frames.items():
        keys = [QID] if name == DETERMINISTIC else [QID, SAMPLE]
        lists = frame.groupby(keys)[DOCNO].agg(tuple)
        rankings.update(zip(lists.index.get_level_values(QID), lists, strict=True))
        if subsets:
            n_lists += sum(1 << len(d) if subsets == "all" else len(d) + 1 for d in lists)
    credit_lists = list_subsets(rankings, study.settings.credit) - rankings if subsets else set()
    if not study.uses_published_labels(task):
        # labels require the answers without documents and with each document alone
        credit_lists = {pair for pair in credit_lists if len(pair[1]) > 1}
    n = len(topics)
    distinct = len(rankings) / n + study.settings.n_samples
    return list(frames.values()), distinct, n_lists / n, len(credit_lists) / n


def study_status(
    study: RagStudy,
) -> tuple[pd.DataFrame, dict[str, float], dict[Stage, Pending]]:
    """Return the rows of `RagStudy.status` with the ``kind`` of each stage, paces, and the rest.

    The pace of a local generator is the mean time of its stored answers in seconds; NaN if it has
    none.
    """
    settings, folder = study.settings, study.folder
    rows: list[tuple[Any, ...]] = []
    paces: dict[str, float] = {}
    pending: dict[Stage, Pending] = {}
    for task, name in product(study.tasks, study.generators):
        topics, generator = task.topics[: settings.limit], study.generator(task, name)
        plans = {}
        has_labels = study.uses_published_labels(task)
        if not has_labels:
            systems = label_systems(Candidates(task.dataset), generator)
            plans[LABELS] = plan(systems, topics, save_dir=folder)
            has_labels = not plans[LABELS].cells["missing"].any()
        qrels = study.label(task, generator).qrels if has_labels else pd.DataFrame()
        if len(qrels):
            for retriever in study.retrievers:
                inputs = (task, retriever, generator, qrels, plan)
                plans[retriever] = study.experiment(*inputs)
                if settings.credit in SUBSETS:
                    plans[retriever + CREDIT_SUFFIX] = study.credited(*inputs)
        for kind, work in plans.items():
            pending[task.name, name, kind] = work.pending[["system", QID]], qrels
            cells = work.cells[["system", "queries", "stored", "failed", "missing"]]
            for system, *numbers in cells.to_numpy(object).tolist():
                rows.append((task.name, name, f"{kind}, {system}", *numbers, kind))
            if generator.llm.local:
                paces.setdefault(name, work.seconds[generator.llm.name])
        for retriever, system in product(() if has_labels else study.retrievers, settings.systems):
            kinds = [retriever]
            if settings.credit in SUBSETS and system != ORACLE:
                kinds.append(retriever + CREDIT_SUFFIX)
            n = len(topics)
            rows += [(task.name, name, f"{k}, {system}", n, 0, 0, n, k) for k in kinds]
            for k in kinds:
                waiting, _ = pending.get((task.name, name, k), (pd.DataFrame(), qrels))
                all_topics = topics[[QID]].assign(system=system)
                pending[task.name, name, k] = pd.concat([waiting, all_topics]), qrels
    return pd.DataFrame(rows, columns=[*STATUS, "kind"]), paces, pending
