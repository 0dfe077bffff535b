"""`Seen`: who is seen in a session of several searches."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks, stage_context
from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.exposure import BrowsingModel
from fairtk.exposure.expected import RankWeights
from fairtk.frames import (
    DOCNO,
    EXPOSURE,
    QID,
    QUERY,
    RANK,
    SAMPLE,
    SCORE,
    Run,
    require_columns,
)
from fairtk.frames.columns import BROWSING, CUTOFF, PARENT
from fairtk.frames.ids import as_strings
from fairtk.frames.texts import qids_of
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.exposures import exposure_settings
from fairtk.wording import format_list

SESSION, TURN, TURNS = "session", "turn", "seen"
"""Columns of `Seen.records`, and the key of turns in the notes of a stage."""

Mode = Literal["ever", "total"]
Turn = dict[str, Any]
"""A search as JSON values: its session, the query, the docnos of each sample, and parents."""


class Seen(FairTransformer):
    """Q -> R: a retriever whose results are recorded, to measure who is seen in a session.

    An agent searches several times for a question. Each call of the retriever with a qid is a turn
    of the session of that question. Results are passed on unchanged, so wrap the retriever of an
    agent, e.g. of pyterrier_rag::

        seen = fairtk.Seen(bm25)
        agent = R1Searcher(seen, backend)
        agent(topics)
        fairtk.evaluate(qrels, {"agent": seen.exposure(cutoff=3)}, ["EE_D@3", "EE_R@3"])

    Several sessions of a question are samples, and their mean is the exposure. They are the samples
    of a retriever with a sampler, the samples of `PerSample` around an agent, or the runs of an
    agent after `new_session`. ``seen % 5`` shares its records with `seen`, so only the documents
    that an agent is shown are recorded if it uses this operator, as those of pyterrier_rag do.

    In `fairtk.Experiment` the records of a system are stored as notes (`Results.notes`). After it,
    also after a resumed one, `exposure` is that of the experiment. An agent that calls
    `new_session` in its `transform` has these sessions for each batch of queries.

    Args:
        retriever: the transformer whose results are recorded.

    Raises:
        ParameterError: the retriever is not a PyTerrier transformer.
        InputError: in `transform`, the input has a qid twice, or the results are invalid.
    """

    identity_name = "fairtk.Seen"
    output_version = 1
    leaves_notes = True
    SETTINGS = ("retriever",)

    def __init__(self, retriever: pt.Transformer) -> None:
        super().__init__()
        if not isinstance(retriever, pt.Transformer):
            raise ParameterError(
                "Seen: retriever must be a PyTerrier transformer, got "
                f"{type(retriever).__name__} (pt.apply converts a function)"
            )
        self.retriever = retriever
        self.log = Log()

    def __eq__(self, other: object) -> bool:
        # by the transformers' equality, because their `repr` may omit settings
        return isinstance(other, Seen) and bool(self.retriever == other.retriever)

    def __hash__(self) -> int:
        return hash((Seen, self.retriever))

    def __mod__(self, cutoff: int) -> Seen:
        top = Seen(self.retriever % cutoff)
        top.log = self.log
        return top

    def transform_inputs(self) -> Any:
        """Return the columns that the retriever reads, for PyTerrier's inspection."""
        return pt.inspect.transformer_inputs(self.retriever)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the results of the retriever."""
        self.check_inputs(inp, [QID])
        if DOCNO not in inp.columns:
            qids_of(inp, "Seen")
        out: pd.DataFrame = self.retriever.transform(inp)
        if len(inp):
            self.log.add(_turns(inp, self._checked(out)))
        return out

    def _checked(self, out: pd.DataFrame) -> Run | None:
        """Return the results as a run; `None` without documents."""
        if isinstance(out, pd.DataFrame) and out.empty:
            return None
        self.check_inputs(out, [QID, DOCNO, SCORE])
        return Run(out, f"Seen({type(self.retriever).__name__})").checked()

    def new_session(self) -> None:
        """Start a session: later searches for any question are not turns of the earlier one."""
        self.log.new_session()

    def clear(self) -> None:
        """Delete all records."""
        self.log.clear()

    @property
    def records(self) -> pd.DataFrame:
        """The documents of all turns, a row each.

        The columns are ``qid`` (of the question), ``session`` and ``sample`` (from 0), ``turn``
        (from 1), ``query`` (of the search), ``docno``, ``rank``, and ``parent`` if documents have
        it.
        """
        return _records(self.log.turns)

    def exposure(
        self,
        mode: Mode = "ever",
        browsing: str | BrowsingModel = "MU",
        cutoff: int | None = 5,
        *,
        topics: Any = None,
        notes: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Return the expected exposure of documents in a session, a frame X.

        Measures accept it with the same browsing model and cutoff, e.g. ``EE_D@5``. Let a_j be the
        attention on a document in turn j, 0 if it is not shown. Its exposure in a session is::

            "ever":  1 - (1 - a_1) * (1 - a_2) * ...
            "total": a_1 + a_2 + ...

        A normalized value above 1 is possible, because bounds are those of a single ranking.

        Args:
            mode: ``"ever"``: the probability that a document is seen in a turn, if attention is the
                probability that it is read; ``"total"``: the sum of its attention.
            browsing: the browsing model in each turn: MU, RBP(p=0.8), DCG, TREC; not GERR.
            cutoff: ranks that are read in each turn, >= 1; `None` for all (not with MU).
            topics: the questions, a frame with ``qid``; those without a search are reported. `None`
                for those of the experiment, or all questions with a search.
            notes: the notes of a system, `Results.notes`, with the searches of each `Seen` in it;
                `None` for the records of this object.

        Returns:
            ``qid``, ``docno``, ``score``, ``rank``, ``exposure``, ``browsing`` and ``cutoff``; the
            score is the exposure.

        Raises:
            ParameterError: a setting is invalid, or a weight of the browsing model is above 1 and
                the mode is ``"ever"``.
            InputError: there was no search; only some turns of a question are sampled; or several
                systems of an experiment share this object and `notes` is missing.

        Warns:
            DataWarning: a session of a question has no turn. It counts as a session in which
                nothing is seen. A question without any turn is missing from the result.
        """
        where = "Seen.exposure"
        checks.choice("mode", mode, get_args(Mode), where)
        model, cutoff = exposure_settings(where, cutoff, browsing)
        turns, questions = self.log.turns, self.log.questions
        if notes is not None:
            turns, questions = _turns_of_notes(notes)
        elif self.log.users:
            raise InputError(
                f"{where}: {format_list(self.log.users)} share this object, so their searches are "
                f"mixed; pass notes=results.notes({self.log.users[0]!r})"
            )
        if topics is not None:
            require_columns(topics, [QID], f"{where}: topics")
            questions = dict.fromkeys(as_strings(topics[QID]))
        questions = dict.fromkeys([*questions, *turns])
        if not any(turns.values()):
            about = f" for qid {format_list(questions)}" if questions else ""
            raise InputError(f"{where}: no search is recorded{about}; run the agent first")
        n_sessions = len(_sessions(turns))
        _report_missing_turns(turns, questions, n_sessions)
        records = _records(turns)
        longest = int(records[RANK].max()) + 1 if len(records) else 1
        weight = RankWeights.of(model, cutoff, longest).weight
        if mode == "ever" and weight.max(initial=0.0) > 1:
            raise ParameterError(
                f"{where}: mode='ever' requires weights of at most 1, got {weight.max():g} of "
                f"browsing={str(model)!r}; use mode='total'"
            )
        attention = np.append(weight, 0.0)[np.minimum(records[RANK], len(weight))]
        records = records.assign(**{EXPOSURE: 1.0 - attention if mode == "ever" else attention})
        ids = [QID, DOCNO, *([PARENT] if PARENT in records else [])]
        of_session = records.groupby([*ids, SESSION, SAMPLE], sort=False, as_index=False)[EXPOSURE]
        seen = of_session.prod() if mode == "ever" else of_session.sum()
        if mode == "ever":
            seen[EXPOSURE] = 1.0 - seen[EXPOSURE]
        n_samples = _n_samples(turns)
        seen[EXPOSURE] /= n_sessions * np.array(
            [n_samples[key] for key in zip(seen[QID], seen[SESSION], strict=True)], dtype=float
        )
        result = seen.groupby(ids, sort=False, as_index=False)[EXPOSURE].sum()
        query = pd.factorize(result[QID])[0]
        result = result.iloc[np.lexsort((-result[EXPOSURE], query))].reset_index(drop=True)
        result[RANK] = result.groupby(QID, sort=False).cumcount()
        result[SCORE], result[BROWSING] = result[EXPOSURE], str(model)
        result[CUTOFF] = pd.array([cutoff] * len(result), dtype="Int64")
        return result[[*ids, SCORE, RANK, EXPOSURE, BROWSING, CUTOFF]]


class Log:
    """The turns of a `Seen`, by question; threads may add turns.

    Attributes:
        turns: the turns by qid.
        questions: the questions of an experiment.
        users: the systems of an experiment that share the log, if there are several.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session = 0
        self.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def clear(self) -> None:
        """Delete all turns."""
        with self._lock:
            self._session = 0
            self.turns: dict[str, list[Turn]] = {}
            self.questions: dict[str, None] = {}
            self.users: list[str] = []

    def new_session(self) -> None:
        """Start a session."""
        with self._lock:
            self._session += 1

    def add(self, turns: Iterable[tuple[str, Turn]]) -> None:
        """Add turns by qid to the current session."""
        with self._lock:
            for qid, turn in turns:
                turn[SESSION] = [self._session, *turn[SESSION]]
                self.turns.setdefault(qid, []).append(turn)

    def take(self, qids: Collection[str]) -> dict[str, list[Turn]]:
        """Return the turns of queries, and delete them; start again with the first session."""
        with self._lock:
            self._session = 0  # so that the batches of an experiment have the same sessions
            return {qid: self.turns.pop(qid, []) for qid in qids}

    def restore(self, turns: Mapping[str, list[Turn]]) -> None:
        """Replace the turns by those of an experiment."""
        self.clear()
        self.questions = dict.fromkeys(turns)
        self.turns = {qid: of_query for qid, of_query in turns.items() if of_query}


def _turns(inp: pd.DataFrame, run: Run | None) -> Iterable[tuple[str, Turn]]:
    """Yield the turn of each query of an input with its qid."""
    rankings: dict[str, list[Any]] = {}
    parents: dict[str, dict[str, str]] = {}
    if run is not None:
        qids, start = run.qids[run.ranking_query].tolist(), run.ranking_start.tolist()
        docnos = np.asarray(run.docnos[run.doc], dtype=object).tolist()
        samples = run.ranking_sample.tolist() if run.sampled else [None] * len(qids)
        for i, qid in enumerate(qids):
            rankings.setdefault(qid, []).append([samples[i], docnos[start[i] : start[i + 1]]])
        if PARENT in run.frame.columns:
            pairs = zip(as_strings(run.frame[DOCNO]), as_strings(run.frame[PARENT]), strict=True)
            for qid, pair in zip(as_strings(run.frame[QID]), pairs, strict=True):
                parents.setdefault(qid, {})[pair[0]] = pair[1]
    first = inp.drop_duplicates(QID)
    queries = first[QUERY].tolist() if QUERY in inp.columns else [""] * len(first)
    ranking_of = stage_context.current().ranking_of
    for qid, query in zip(as_strings(first[QID]), queries, strict=True):
        question, number = (qid, None) if ranking_of is None else ranking_of(qid)
        turn = {SESSION: [] if number is None else [number], QUERY: str(query)}
        turn["rankings"] = rankings.get(qid, [])
        yield question, turn | ({"parents": parents[qid]} if qid in parents else {})


def _turns_of_notes(notes: pd.DataFrame) -> tuple[dict[str, list[Turn]], dict[str, None]]:
    """Return the turns of all retrievers of a system by qid, and its questions."""
    require_columns(notes, [QID, "note"], "Seen.exposure: notes")
    turns: dict[str, list[Turn]] = {}
    for qid, note in zip(as_strings(notes[QID]), notes["note"], strict=True):
        if isinstance(note, Mapping) and TURNS in note:
            turns.setdefault(qid, []).extend(turn for of_one in note[TURNS] for turn in of_one)
    return turns, dict.fromkeys(turns)


def _sessions(turns: Mapping[str, list[Turn]]) -> dict[tuple[int, ...], int]:
    """Return the number of each session of any question, from 0."""
    sessions = {tuple(turn[SESSION]) for of_query in turns.values() for turn in of_query}
    return {session: number for number, session in enumerate(sorted(sessions))}


def _records(turns: Mapping[str, list[Turn]]) -> pd.DataFrame:
    """Return turns as `Seen.records`."""
    number = _sessions(turns)
    columns: dict[str, list[Any]] = {
        name: [] for name in (QID, SESSION, SAMPLE, TURN, QUERY, DOCNO, RANK, PARENT)
    }
    for qid, of_query in turns.items():
        n_turns: dict[int, int] = {}
        for turn in of_query:
            session = number[tuple(turn[SESSION])]
            n_turns[session] = n_turns.get(session, 0) + 1
            parents = turn.get("parents", {})
            for sample, docnos in turn["rankings"]:
                values = (qid, session, sample or 0, n_turns[session], turn[QUERY])
                for name, value in zip(columns, values, strict=False):
                    columns[name].extend([value] * len(docnos))
                columns[DOCNO].extend(docnos)
                columns[RANK].extend(range(len(docnos)))
                columns[PARENT].extend(parents.get(docno) for docno in docnos)
    if not any(columns[PARENT]):
        del columns[PARENT]
    texts = dict.fromkeys([name for name in columns if name in (QID, QUERY, DOCNO, PARENT)], "str")
    numbers = dict.fromkeys([name for name in columns if name not in texts], "int64")
    return pd.DataFrame(columns).astype(texts | numbers)


def _n_samples(turns: Mapping[str, list[Turn]]) -> dict[tuple[str, int], int]:
    """Return the number of samples of each question and session, at least 1.

    Raises:
        InputError: some turns of a question are sampled, and others are not.
    """
    number = _sessions(turns)
    samples: dict[tuple[str, int], set[int | None]] = {}
    for qid, of_query in turns.items():
        for turn in of_query:
            of_session = samples.setdefault((qid, number[tuple(turn[SESSION])]), set())
            of_session.update(sample for sample, _ in turn["rankings"])
    mixed = [q for (q, _), numbers in samples.items() if None in numbers and len(numbers) > 1]
    if mixed:
        raise InputError(
            "Seen.exposure: expected sampled rankings in all turns of a session or in none, got "
            f"both for qid {format_list(dict.fromkeys(mixed))}"
        )
    return {key: max(1, len(of_session)) for key, of_session in samples.items()}


def _report_missing_turns(
    turns: Mapping[str, list[Turn]], questions: Iterable[str], n_sessions: int
) -> None:
    """Warn of questions that have no turn in a session."""
    missing = [
        qid
        for qid in questions
        if len({tuple(turn[SESSION]) for turn in turns.get(qid, ())}) < n_sessions
    ]
    if missing:
        scope = "" if n_sessions == 1 else f" in some of {n_sessions} sessions"
        warnings.warn(
            f"Seen.exposure: no search{scope} for qid {format_list(missing)}; nothing is seen in a "
            "session without a search",
            DataWarning,
            stacklevel=3,
        )
