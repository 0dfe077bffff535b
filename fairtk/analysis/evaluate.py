"""Qrels, runs and answers from wherever they are: frames, files, standard input, datasets."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd

from fairtk.errors import InputError, MissingWarning, NotFoundError, listed
from fairtk.evaluation.naming import unique_names
from fairtk.files import naming
from fairtk.frames.columns import (
    DOCNO,
    GOLD_ANSWER,
    LABEL,
    QANSWER,
    QID,
    from_ir_measures,
    ours,
    require,
)
from fairtk.frames.matching import warn_of_other_docnos
from fairtk.frames.qrels import Qrels
from fairtk.frames.runs import Run
from fairtk.io import add_answers, read_answers, read_gold_answers, read_qrels, read_run
from fairtk.io.dataset_ids import labels_of, resolve_dataset
from fairtk.measures import FairMeasure
from fairtk.measures.samples import refuse_samples
from fairtk.measures.trec_eval import whole_labels

STDIN = "-"
_BY_NAME = "standard input"


def run_names(runs: Any) -> tuple[dict[str, str], list[Any]]:
    """Return the file (``""``: a frame) of each run by its name, and the runs as they were
    given.
    """
    if isinstance(runs, str | PathLike | pd.DataFrame):
        runs = [runs]
    data = list(runs.values()) if isinstance(runs, Mapping) else list(runs)
    if not data:
        raise InputError("there is no run to measure")
    files = ["" if isinstance(run, pd.DataFrame) else fspath(run) for run in data]
    if isinstance(runs, Mapping):
        names = list(map(str, runs))
    else:
        frames = iter(range(1, len(data) + 1))
        short = iter(unique_names([file for file in files if file]) if any(files) else [])
        names = [next(short) if file else f"run {next(frames)}" for file in files]
    return dict(zip(names, files, strict=True)), data


def as_labels(qrels: Any, gold: Any, measures: list[Any]) -> pd.DataFrame:
    """Return labels with what the measures need."""
    where = "these qrels" if isinstance(qrels, pd.DataFrame) else fspath(qrels)
    labels = _labels(qrels)
    if labels.empty:
        raise InputError(f"{where}: these qrels have no rows, so there is no query to evaluate")
    needing = list(_needing(measures, "QREL_COLUMNS", GOLD_ANSWER))
    if gold is None and needing and GOLD_ANSWER not in labels.columns:
        with contextlib.suppress(InputError):
            gold = _dataset_answers(qrels)
    if gold is not None:
        from fairtk.datasets.answers import join_answers

        answers = gold if isinstance(gold, pd.DataFrame) else _read(gold, read_gold_answers)
        bare = labels.drop(columns=GOLD_ANSWER, errors="ignore")
        with contextlib.nullcontext() if isinstance(gold, pd.DataFrame) else naming(gold):
            labels = join_answers(bare, answers)
    for measure in needing:
        if GOLD_ANSWER not in labels.columns:
            raise InputError(
                f"{measure!r} needs gold answers: give --gold FILE (columns qid, gold_answer), or "
                "qrels with the named column gold_answer"
            )
    foreign = [m for m in measures if not all(isinstance(p, FairMeasure) for p in _parts(m))]
    if foreign:
        numbers = whole_labels(foreign, Qrels(labels, where).labels, where)
        labels = labels.assign(**{LABEL: numbers})
    return labels


def as_run(
    run: Any, where: str, order: Any, answers: Any, measures: list[Any], qrels: Qrels
) -> pd.DataFrame:
    """Return a run with what the measures need; what it lacks, or names differently, is said."""
    if isinstance(run, pd.DataFrame):
        run = _with_ids(from_ir_measures(run, where), where)
    else:
        run = _read(run, lambda path: read_run(path, order))
    if answers is not None:
        named = "the answers" if isinstance(answers, pd.DataFrame) else fspath(answers)
        if not isinstance(answers, pd.DataFrame):
            answers = _read(answers, read_answers)
        run = add_answers(run, answers, named)
    for measure in _needing(measures, "RUN_COLUMNS", QANSWER):
        if QANSWER not in run.columns and len(run):
            raise InputError(
                f"{where}: {measure!r} needs the generated answers: give --answers FILE (columns "
                "qid, sample, qanswer), or a Parquet run with the column qanswer"
            )
    known = Run(run, where)
    refuse_samples(measures, known, where)
    _say_what_is_missing(where, run, qrels.qids.tolist())
    if DOCNO in ours(ir_measures.qrel_inputs(measures)):
        warn_of_other_docnos(qrels, known.queries, known.documents_of, where)
    return run


def _labels(qrels: Any) -> pd.DataFrame:
    if isinstance(qrels, pd.DataFrame):
        return _with_ids(from_ir_measures(qrels, "these qrels"), "these qrels")
    name = fspath(qrels)
    if name == STDIN or Path(name).exists():
        return _read(qrels, read_qrels)
    try:
        dataset = resolve_dataset(name, "evaluate")
    except NotFoundError as error:
        near = str(error).partition(";")[2].partition("; known")[0]
        tail = f";{near}" if "did you mean" in near else ""
        raise InputError(
            f"{name}: there is no such file, and no dataset has this id{tail}"
        ) from None
    if not dataset.has_qrels():
        raise InputError(f"{name}: this dataset has no qrels")
    return labels_of(dataset)


def _dataset_answers(qrels: Any) -> pd.DataFrame | None:
    from fairtk.datasets.answers import get_answers

    if isinstance(qrels, pd.DataFrame) or fspath(qrels) == STDIN or Path(qrels).exists():
        return None
    return get_answers(fspath(qrels))


def _with_ids(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the frame with its ids as text, as files have them."""
    require(frame, [QID, DOCNO], where)
    return Run(frame, where).with_text_ids()


def _read(path: Any, read: Callable[[Any], pd.DataFrame]) -> pd.DataFrame:
    """Return what a file has; ``-`` is standard input, which is kept in a file meanwhile."""
    if fspath(path) != STDIN:
        return read(path)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "stdin"
        kept.write_bytes(sys.stdin.buffer.read())
        try:
            return read(kept)
        except InputError as error:
            error.args = (str(error).replace(str(kept), _BY_NAME), *error.args[1:])
            raise


def _say_what_is_missing(where: str, run: pd.DataFrame, qids: list[str]) -> None:
    found = set(run[QID].unique())
    missing = [qid for qid in qids if qid not in found]
    if not missing:
        return
    if len(missing) == len(qids) and found:
        raise InputError(
            f"{where}: no query of this run is in the qrels (run: {listed(run[QID].unique(), 3)}; "
            f"qrels: {listed(qids, 3)})"
        )
    warnings.warn(
        f"{where}: {len(missing)} of {len(qids)} queries of the qrels are missing; they count with "
        f"the worst value: {listed(missing, 3)}",
        MissingWarning,
        stacklevel=2,
    )


def _needing(measures: list[Any], attribute: str, column: str) -> Iterator[Any]:
    for measure in measures:
        if any(column in getattr(part, attribute, ()) for part in _parts(measure)):
            yield measure


def _parts(measure: Any) -> Iterator[Any]:
    """Yield a measure and the measures that it is made of."""
    yield measure
    for part in measure.parts if isinstance(measure, FairMeasure) else ():
        yield from _parts(part)
