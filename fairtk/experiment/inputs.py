"""Read and check qrels, runs, groups and measures for evaluation."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain
from operator import mul
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.frames import DOCNO, GOLD_ANSWER, GROUP, QANSWER, QID, Qrels, Run, require_columns
from fairtk.frames.accepted import are_rows, frame_of, is_one_run
from fairtk.frames.columns import pyterrier_names
from fairtk.frames.qrels import no_common_query
from fairtk.groups.levels import OFFICIAL_TARGETS, TARGET_WORDS
from fairtk.io import add_answers
from fairtk.io.atomic import real_path
from fairtk.io.lines import STDIN, file_errors, is_parquet_name
from fairtk.io.qrels import ANSWER_COLUMNS, as_answers, as_gold_answers, as_qrels
from fairtk.io.rows import read_table
from fairtk.io.runs import as_run
from fairtk.io.tables import name_and_path, stem
from fairtk.measures import FairMeasure
from fairtk.measures.base import iter_parts, reason_for_labels
from fairtk.measures.eu import gold_answers
from fairtk.measures.foreign import (
    integer_labels,
    refuse_samples,
)
from fairtk.wording import did_you_mean, format_list

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target

_SUFFIXES = {
    ".run", ".res", ".trec", ".top", ".out", ".txt", ".tsv", ".csv", ".json", ".jsonl",
    ".parquet", ".pq",
}  # fmt: skip


def unique_names(paths: Sequence[str]) -> list[str]:
    """Return short unique names for files: stems, with suffixes, folders and numbers if needed."""
    files = [real_path("stdin" if path == STDIN else path) for path in paths]
    distinct = list(dict.fromkeys(files))
    same = Counter(file.with_name(_stem(file)) for file in distinct)
    ends = {f: _stem(f) if same[f.with_name(_stem(f))] == 1 else f.name for f in distinct}
    short = dict(ends)
    for depth in range(2, max(len(file.parts) for file in files) + 1):
        count = Counter(short.values())
        for file, name in short.items():
            if count[name] > 1:
                short[file] = "/".join([*file.parts[-depth:-1], ends[file]])
    seen: Counter[Path] = Counter()
    names = []
    for file in files:
        seen[file] += 1
        names.append(short[file] + (f"#{seen[file]}" if seen[file] > 1 else ""))
    return names


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix
    stem = name.removesuffix(suffix) if suffix.lower() in _SUFFIXES else name
    return stem or path.name


def run_names(runs: Any) -> tuple[dict[str, str], list[Any]]:
    """Return the file of each run by name (``""`` for other forms), and the runs as given."""
    if isinstance(runs, Iterator):
        runs = list(runs)
    if is_one_run(runs):
        runs = [runs]
    data = list(runs.values()) if isinstance(runs, Mapping) else list(runs)
    if not data:
        raise InputError("at least one run is required")
    files = [fspath(run) if isinstance(run, str | PathLike) else "" for run in data]
    if isinstance(runs, Mapping):
        names = list(map(str, runs))
    else:
        frames = iter(range(1, len(data) + 1))
        short = iter(unique_names([file for file in files if file]) if any(files) else [])
        names = [next(short) if file else f"run {next(frames)}" for file in files]
    return dict(zip(names, files, strict=True)), data


def answers_of_runs(answers: Any, runs: Collection[str]) -> list[Any]:
    """Return the answers of each run, `None` without any; `runs` are their names."""
    answers = frame_of(answers)
    if isinstance(answers, Mapping):
        by_name = {checks.known("run in `answers`", n, runs): of for n, of in answers.items()}
        return [by_name.get(name) for name in runs]
    is_single = isinstance(answers, pd.DataFrame)
    answers = [answers] if is_single else checks.listed("answers", answers)
    if answers and len(answers) != len(runs):
        raise InputError(
            f"`answers` must have one file per run, in the order of the runs, got {len(answers)} "
            f"for {len(runs)} runs"
        )
    return answers or [None] * len(runs)


def prepare_labels(
    qrels: Any,
    gold: Any,
    measures: list[Any],
    where: str = "qrels",
    others: pd.DataFrame | None = None,
) -> Qrels:
    """Return labels with the columns that the measures need.

    `where` is the parameter. `others` are labels of the same queries, whose gold answers are used
    if there are no others.
    """
    where = fspath(qrels) if isinstance(qrels, str | PathLike) else where
    labels = as_qrels(qrels, where, [DOCNO])
    if not len(labels):
        raise InputError(f"{where}: no rows")
    needing = list(_measures_with_column(measures, "QREL_COLUMNS", GOLD_ANSWER))
    has_gold = gold is not None or GOLD_ANSWER in labels.frame.columns
    if needing and not has_gold and others is not None and GOLD_ANSWER in others.columns:
        known = gold_answers(others[QID], others[GOLD_ANSWER], where)
        gold = pd.DataFrame(
            {QID: [*known], GOLD_ANSWER: pd.Series([*known.values()], dtype=object)}
        )
    elif needing and not has_gold:
        with contextlib.suppress(InputError):
            gold = _dataset_answers(qrels)
    if gold is not None:
        from fairtk.datasets.provider import gold_of_queries

        bare = labels.with_text_ids().drop(columns=GOLD_ANSWER, errors="ignore")
        answers, is_file = as_gold_answers(gold), isinstance(gold, str | PathLike)
        require_columns(answers, [QID], fspath(gold) if is_file else "gold")
        with file_errors(gold) if is_file else contextlib.nullcontext():
            golds = gold_of_queries(labels.qids.tolist(), answers)
        joined = bare.assign(**{GOLD_ANSWER: golds.array.take(labels.query)})
        labels = Qrels(joined, where, ids=labels.coded_ids, is_checked=True)
    for measure in needing:
        if GOLD_ANSWER not in labels.frame.columns:
            raise InputError(
                f"{measure!r} requires gold answers; give `gold` (columns qid, gold_answer), or "
                "qrels with the column gold_answer"
            )
    foreign = [m for m in measures if not all(isinstance(p, FairMeasure) for p in iter_parts(m))]
    if foreign:
        integer_labels(foreign, labels.labels, where)
    return labels


def empty_labels(runs: Sequence[Run]) -> Qrels:
    """Return empty labels for all queries of runs."""
    qids = dict.fromkeys(chain.from_iterable(run.qids for run in runs))
    if not qids:
        raise InputError("evaluate: without `qrels`, the runs must have queries")
    return Qrels.without_labels(list(qids), "no qrels")


def refuse_without_labels(measures: list[Any]) -> None:
    """Raise `InputError` if a measure needs labels."""
    for measure in measures:
        reason = reason_for_labels(measure)
        if GOLD_ANSWER in getattr(measure, "QREL_COLUMNS", ()):
            reason = "it reads gold answers"
        if reason:
            raise InputError(
                f"{measure!r} requires `qrels`: {reason}; without labels, use EE_D, AWRF or "
                "combinations of them"
            )


def documents_per_query(run: Run) -> str:
    """Return the range of the number of documents per query, in words."""
    pairs = np.unique(run.query * max(1, len(run.docnos)) + run.doc) // max(1, len(run.docnos))
    sizes = np.bincount(pairs)
    low, high = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
    return f"{low}" if low == high else f"{low} to {high}"


def prepare_run(
    run: Any, where: str, order: Any, answers: Any, measures: list[Any], qrels: Qrels
) -> Run:
    """Return a run with the columns that the measures need; warn of missing and unmatched ids."""
    checked = as_run(run, where, order)
    require_columns(checked.frame, [QID, DOCNO], where)
    if answers is not None:
        name = fspath(answers) if isinstance(answers, str | PathLike) else f"answers of {where}"
        answered = add_answers(checked, as_answers(answers), name)
        for column in ANSWER_COLUMNS:
            checked = checked.with_column(column, answered.get(column))
    for measure in _measures_with_column(measures, "RUN_COLUMNS", QANSWER):
        if QANSWER not in checked.frame.columns and len(checked):
            raise InputError(
                f"{where}: {measure!r} requires answers; give `answers` (columns qid, sample, "
                "qanswer), or a run with the column qanswer, e.g. in Parquet"
            )
    refuse_samples(measures, checked, where)
    if len(checked.qids) and (qrels.qids.find(checked.qids) < 0).all():
        raise InputError(f"{where}: {no_common_query('run', checked.qids, qrels.qids)}")
    return checked


def _dataset_answers(qrels: Any) -> pd.DataFrame | None:
    from fairtk.datasets import get_answers

    if not isinstance(qrels, str | PathLike) or fspath(qrels) == STDIN or Path(qrels).exists():
        return None
    return get_answers(fspath(qrels))


def _measures_with_column(measures: list[Any], attribute: str, column: str) -> Iterator[Any]:
    for measure in measures:
        if any(column in getattr(part, attribute, ()) for part in iter_parts(measure)):
            yield measure


@dataclass
class GivenGroups:
    """The groups and targets of ``--groups`` and ``--target``."""

    attributes: dict[str, Groups]  # by name
    target: tuple[Any, ...] = ()  # objects, words or files
    labels: Qrels | None = None  # for the target ``relevance`` and those of TREC Fair Ranking
    metadata: Path | None = None  # the track's file, if all groups come from it
    used: bool = False
    used_targets: list[Any] = field(default_factory=list)
    _made: dict[tuple[str, str], Target] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Any, target: Any = ()) -> GivenGroups:
        """Read one or several groups; groups and targets may be objects or files."""
        from fairtk.groups import Groups, Target

        files = group_sources(files)
        target = frame_of(target)
        if isinstance(target, (*_SINGLE, Mapping, Groups, Target)) or are_rows(target) and target:
            target = (target,)
        rule = "be a target, a word, a frame, a file, or a list of them"
        target = tuple(checks.listed("target", () if target is None else target, "", rule))
        attributes: dict[str, Groups] = {}
        for source in files:
            groups = read_groups(source)
            if groups.name in attributes:
                where = f"{source}: " if isinstance(source, str | PathLike) else ""
                raise InputError(
                    f"{where}duplicate attribute {groups.name!r}; give one another name (for a "
                    "file, NAME=FILE)"
                )
            attributes[groups.name] = groups
        target = tuple(map(frame_of, target))
        for source in target:
            _add_levels(attributes, source)
        return cls(attributes, target, metadata=common_metadata(files))

    @cached_property
    def crossed(self) -> Groups:
        """All attributes crossed, in the order of the files."""
        return reduce(mul, self.attributes.values())

    def find_groups(self, text: str) -> Groups | None:
        """Return the groups for ``gender`` or ``gender*region``; `None` if unknown."""
        if text in self.attributes:
            return self.attributes[text]
        names = text.split("*")
        if len(names) > 1 and all(name in self.attributes for name in names):
            return reduce(mul, (self.attributes[name] for name in names))
        return None

    def target_for(self, groups: Groups, where: str) -> Target:
        """Return the target over the levels of groups; `where` is the caller, for errors."""
        if not self.target:
            words = ", ".join(map(repr, TARGET_WORDS))
            raise InputError(f"{where} requires a target; give `target` ({words}, or a file)")
        chosen = self.target[0] if len(self.target) == 1 else self._fitting(groups, where)
        self.used_targets.append(chosen)
        key = (str(getattr(chosen, "key", id(chosen))), groups.key)
        if key not in self._made:
            self._made[key] = self._make(chosen, groups, where)
        return self._made[key]

    def refuse_unused_targets(self) -> None:
        """Raise if several targets are given, and no measure uses one of them."""
        unused = [t for t in self.target if not any(t is used for used in self.used_targets)]
        if unused and len(self.target) > 1:
            name = f"{unused[0]!r:.80}"
            raise InputError(
                f"no measure uses the target {name}: each uses the first that fits its groups, or "
                "the one that it names; name it in a measure, e.g. AWRF(target='uniform')@20 or "
                "AWRF(target='shares.tsv')@20"
            )

    def _make(self, chosen: Any, groups: Groups, where: str) -> Target:
        from fairtk.datasets.trec_fair.alignment import official_target
        from fairtk.groups import Target

        if isinstance(chosen, str) and chosen in OFFICIAL_TARGETS and self.metadata is not None:
            if self.labels is None:
                raise InputError(f"{where}: `qrels` are required for the target {chosen!r}")
            return official_target(self.labels, groups, self.metadata, OFFICIAL_TARGETS[chosen])
        return Target.of(chosen, groups, self.labels, where)

    def _fitting(self, groups: Groups, where: str) -> Any:
        from fairtk.groups import Target

        for text in self.target:
            if isinstance(text, str) and text in (*TARGET_WORDS, *OFFICIAL_TARGETS):
                return text
            if isinstance(text, pd.DataFrame):
                target = Target.from_frame(text)
            else:
                target = text if isinstance(text, Target) else Target.of(text)
            with contextlib.suppress(InputError):
                target.for_groups(groups)
                return text
        raise InputError(
            f"{where}: missing target for {groups.name!r}, got {format_list(self.target)}"
        )


def _add_levels(attributes: dict[str, Groups], target: Any) -> None:
    """Add the groups of a target's file or frame that have no documents to its attributes.

    A target without any known group is another attribute's, or an error.
    """
    if isinstance(target, str | PathLike) and Path(target).is_file():
        frame = read_table(target).frame
    elif isinstance(target, pd.DataFrame):
        frame = target
    else:
        return
    for name, groups in attributes.items():
        column = GROUP if len(attributes) == 1 and name not in frame.columns else name
        if column in frame.columns:
            levels = [text for text in frame[column].unique() if isinstance(text, str)]
            if not set(levels).isdisjoint(groups.space.levels[0]):
                attributes[name] = groups.with_levels(levels)


def metadata_path(source: Any) -> Path | None:
    """Return the path of groups in the metadata file of TREC Fair Ranking 2022, else `None`."""
    from fairtk.datasets.trec_fair.metadata import is_metadata

    if not isinstance(source, str | PathLike):
        return None
    path = Path(name_and_path(source)[1])
    has_text = path.is_file() and not is_parquet_name(path)
    return path if has_text and is_metadata(path) else None


def common_metadata(sources: Iterable[Any]) -> Path | None:
    """Return the metadata file of which all groups are, else `None`."""
    paths = {metadata_path(source) for source in sources}
    return paths.pop() if len(paths) == 1 else None


_SINGLE = (str, PathLike, pd.DataFrame, pd.Series)


def group_sources(groups: Any) -> list[Any]:
    """Return one or several groups, or groups by the name of the attribute, as a list.

    Raises:
        InputError: a dict ``{docno: group}`` has no name.
    """
    from fairtk.groups import Groups

    groups = frame_of(groups)
    if isinstance(groups, Mapping):
        _refuse_unnamed(groups)
        return [
            f"{name}={source}"
            if isinstance(source, str | PathLike)
            else source
            if isinstance(source, Groups)
            else Groups.from_frame(source, name)
            for name, source in groups.items()
        ]
    if isinstance(groups, (*_SINGLE, Groups)):
        return [groups]
    rule = "be groups, a frame, a file, or a list of them"
    sources = checks.listed("groups", () if groups is None else groups, "", rule)
    if not (sources and are_rows(sources)):
        return sources
    if isinstance(sources[0], Mapping) and DOCNO not in pyterrier_names(sources[0]):
        _refuse_unnamed(sources[0])
    return [sources]


def _refuse_unnamed(groups: Mapping[Any, Any]) -> None:
    """Raise an `InputError` for a dict of texts that are not files."""
    texts = [text for text in groups.values() if isinstance(text, str)]
    if texts and len(texts) == len(groups) and not any(Path(t).exists() for t in texts):
        raise InputError(
            f"groups: expected groups or files by attribute, got {texts[0]!r} for "
            f"{next(iter(groups))!r}, which is no file; for a dict {{docno: group}}, use "
            "groups={'gender': {docno: group}}, with the name of the attribute"
        )


def read_groups(source: Any) -> Groups:
    """Return groups from an object, a frame or a file, also from the track's metadata.

    Raises:
        InputError: the file is the track's metadata, and its name is not a dimension.
    """
    from fairtk.datasets import trec_fair
    from fairtk.groups import Groups

    path = metadata_path(source)
    if path is None:
        return Groups.of(source)
    name = name_and_path(source)[0]
    if name is None:
        raise InputError(
            f"{path}: the metadata of TREC Fair Ranking 2022 have several attributes; name one, "
            f"e.g. gender={path} ({format_list(trec_fair.dimensions(), 8)})"
        )
    return trec_fair.groups(path, name)


def measure_list(measures: Any, may_be_empty: bool = False) -> list[Any]:
    """Return one or several measures as a list."""
    is_single = isinstance(measures, str) or not isinstance(measures, Iterable)
    result = [measures] if is_single else list(measures)
    if not result and not may_be_empty:
        raise InputError("at least one measure is required, e.g. EE_D@5")
    return result


def parse_with(given_groups: GivenGroups, text: Any) -> Any:
    """Return the measure for a string, in which groups are names of given attributes.

    A measure that names a target but no groups has all given attributes, crossed.
    """
    from fairtk.measures import parse
    from fairtk.plugins.registry import GROUPS

    def named(name: str | None) -> Any:
        if name is None:
            if not given_groups.attributes:
                raise ParameterError(f"{text} requires groups; give `groups` (one or more files)")
            given_groups.used = True
            return given_groups.crossed
        groups = given_groups.find_groups(name)
        if groups is not None:
            given_groups.used = True
            return groups
        if given_groups.attributes and "." not in name:
            hint = did_you_mean(name, given_groups.attributes)
            raise ParameterError(f"{text}: unknown attribute {name!r} of `groups`{hint}")
        try:
            return GROUPS.find(name)
        except NotFoundError:
            raise ParameterError(
                f"{text}: unknown groups {name!r}; give `groups='{name}=FILE'`"
            ) from None

    return parse(text, named)


def complete_measure(given_groups: GivenGroups, measure: Any) -> Any:
    """Return the measure, and measures inside it, with missing groups and targets added.

    CreditGap is also defined without groups, so it only uses groups by name.
    """
    from fairtk.measures import FairMeasure
    from fairtk.measures.parsing import MeasureParam

    if not isinstance(measure, FairMeasure):
        return measure
    new: dict[str, Any] = {}
    for name, param in measure.SUPPORTED_PARAMS.items():
        if isinstance(param, MeasureParam) and name in measure.params:
            new[name] = complete_measure(given_groups, measure[name])
    named = measure.params.get("target")
    given_groups.used_targets += [
        target
        for target in given_groups.target
        if named is not None and isinstance(target, str | PathLike) and stem(target) == named
    ]
    if "groups" in measure.SUPPORTED_PARAMS:
        groups = measure["groups"]
        if groups is None and not measure.GROUPS_ARE_OPTIONAL:
            if not given_groups.attributes:
                if not _is_ours(measure):
                    return measure
                raise InputError(f"{measure!r} requires groups; give `groups` (one or more files)")
            new["groups"] = groups = given_groups.crossed
            given_groups.used = True
        is_needed = given_groups.target or _is_ours(measure)
        if groups is not None and is_needed and _has_open_target(measure):
            new["target"] = given_groups.target_for(groups, repr(measure))
    return measure(**new) if new else measure


def _has_open_target(measure: Any) -> bool:
    from fairtk.measures import GroupEE_D

    has_target = "target" in measure.SUPPORTED_PARAMS and not isinstance(measure, type(GroupEE_D))
    return has_target and "target" not in measure.params


def _is_ours(measure: Any) -> bool:
    return type(measure).__module__.partition(".")[0] == "fairtk"
