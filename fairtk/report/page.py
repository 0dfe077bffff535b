"""The page: everything in one file of HTML, which asks for nothing.

Its queries, with rankings and answers of all systems, are packed: alike rankings with one answer
are stored once, with their number, in blocks of compressed JSON. The page reads a block when one of
its queries is opened.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display import Table, svg_text
from fairtk.errors import FairtkWarning, MissingExtraError, ParameterError
from fairtk.frames import (
    DOCNO,
    GOLD_ANSWER,
    LABEL,
    QANSWER,
    QID,
    QUERY,
    SCORE,
    TEXT,
    IntArray,
    Run,
)
from fairtk.io.atomic import atomic_text
from fairtk.io.lines import read_json
from fairtk.report.statistics import Correction, Test
from fairtk.report.tables import (
    baseline_table,
    bias_text,
    coverage_table,
    mean_table,
    measured,
    overview,
    tables_by_measure,
    target_text,
    tested,
    unsaid,
    warned,
)

if TYPE_CHECKING:
    from fairtk.experiment import Results


def picture(figure: Any) -> str:
    """Return a figure as the address of an image: browsers run and load nothing in those.

    Args:
        figure: as for `fairtk.display.svg_text`.
    """
    data = base64.b64encode(svg_text(figure).encode(errors="replace")).decode("ascii")
    return f"data:image/svg+xml;base64,{data}"


FILE = "sections.json"
"""The sections of a folder of results; `fairtk report` shows them."""


@dataclass(frozen=True)
class Section:
    """A part of a report. All texts are shown as they are: nothing in them is markup.

    Attributes:
        title: its heading.
        prose: paragraphs.
        table: a table of texts, sortable on the page.
        figure: a ``matplotlib.figure.Figure``, or the text of an SVG file.
        alternative: what the figure shows, in words; must be given with a figure.

    Raises:
        ParameterError: a figure has no text alternative.
    """

    title: str
    prose: tuple[str, ...] = ()
    table: Table | None = None
    figure: Any = None
    alternative: str = ""

    def __post_init__(self) -> None:
        if self.figure is not None and not self.alternative.strip():
            raise ParameterError(
                f"Section {self.title!r}: a figure needs a text alternative, alternative='...'"
            )


def save_sections(folder: str | PathLike[str], sections: Iterable[Section]) -> Path:
    """Write sections beside saved results, figures as SVG, where ``fairtk report`` finds them.

    Args:
        folder: where the results are.
        sections: in their order.

    Returns:
        The file.
    """
    path = Path(folder) / FILE
    records = [
        {
            "title": section.title,
            "prose": list(section.prose),
            "table": None if section.table is None else section.table._asdict(),
            "figure": None if section.figure is None else svg_text(section.figure),
            "alternative": section.alternative,
        }
        for section in sections
    ]
    with atomic_text(path) as stream:
        json.dump(records, stream, indent=1, ensure_ascii=False)
        stream.write("\n")
    return path


def load_sections(folder: str | PathLike[str]) -> list[Section]:
    """Return the sections that `save_sections` wrote; none if there is no such file.

    Args:
        folder: where the results are.

    Raises:
        FormatError: the file is not JSON.
    """
    path = Path(folder) / FILE
    sections = []
    for record in read_json(path) if path.exists() else ():
        table = None if record["table"] is None else Table(**record["table"])
        sections.append(Section(**{**record, "prose": tuple(record["prose"]), "table": table}))
    return sections


_MOST_FIGURES = 6
_NUMBER = re.compile(r"(?:[<+-]?\d[\d.,]*(?: \[.*\])?|\[.*\]|undefined|none|unknown)?")


def write_report(results: Results, path: str | PathLike[str], **options: Any) -> None:
    """Write the report of results as one file of HTML, in one step.

    Args:
        results: `fairtk.Results`.
        path: the file; its folder must exist.
        options: those of `page_text`.
    """
    text = page_text(results, **options)
    with atomic_text(path) as stream:
        stream.write(text)


def page_text(
    results: Results,
    *,
    title: str | None = None,
    baseline: str | None = None,
    test: Test = "t",
    correction: Correction | None = "holm",
    cutoff: int = 10,
    sections: Iterable[Section] = (),
    license: str | None = None,
    command: str | None = None,
    pages: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the report of results as HTML; equal results give equal texts.

    Args:
        results: `fairtk.Results`.
        title: the title of the page. None: that of the results' configuration, or Report.
        baseline: the system that others are compared with. None: the results' baseline, or the
            first system.
        test: the paired test (`fairtk.Results.compare`).
        correction: the correction of the p-values of a measure for the number of systems; results
            of a study keep the study's.
        cutoff: the ranks that are shown of each ranking.
        sections: what is shown after the comparisons.
        license: the license of the data. None: that of the results' configuration.
        command: that makes this page again, if one does.
        pages: names of the pages of a study and their addresses; this page's is empty.

    Raises:
        ParameterError: `cutoff` is less than 1.
        NotFoundError: there is no such baseline, test or correction.
        MissingExtraError: Jinja2 or matplotlib is not installed.
    """
    checks.whole("cutoff", cutoff)
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("Jinja2", "report", "a report") from None
    how = results.config.get("correction") or correction or "none"
    first = baseline or results.baseline or results.systems[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        several = results.measures and len(results.systems) > 1
        compared = results.compare(first, test, how) if several else None
        others = None  # the baseline's own means stand in the table before
        if compared is not None:
            others = compared[compared["system"] != first].rename(columns={"n": "queries"})
        details = drill_down(results, cutoff)
        bias = results.sampling_bias()
        figures = list(_figures(results, bias))
    measures = measured(results, compared, first)
    remarks = " ".join(filter(None, [results.note, bias_text(bias)]))
    caption, comparisons = "", list[tuple[str, Table]]()
    if others is not None:
        table = baseline_table(others, first, test, how)
        table = table._replace(caption=f"{table.caption} {remarks}".strip())
        caption, comparisons = tables_by_measure(table)
    messages = warned(results, details.systems)
    for warning in caught:
        if isinstance(warning.message, FairtkWarning):
            messages.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    folder = files("fairtk.report") / "page"
    parts = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")}
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["right"] = _right
    environment.filters["parts"] = re.compile(r"(?<=[,=])|(?<=\w\()").split
    text: str = environment.get_template("page.html").render(
        title=title or results.config.get("title") or "Report",
        policy=_policy(parts["page.css"], parts["page.js"]),
        css=parts["page.css"],
        js=parts["page.js"],
        overview=overview(results, details.systems),
        measures=measures,
        tested=f"{tested(first, test, how)} {target_text(results)}".strip() if several else "",
        unsaid=unsaid(results, details.systems),
        warnings=list(dict.fromkeys(messages)),
        means=mean_table(results, remarks) if results.measures else None,
        compared=caption,
        comparisons=comparisons,
        pages=dict(pages),
        named=baseline or results.baseline,
        first=first,
        figures=figures,
        sections=[_shown(section, i) for i, section in enumerate(sections)],
        details=details,
        coverage=coverage_table(results, details.systems),
        failures=results.failures.to_dict("records"),
        settings=_settings(results),
        stages=_stages(results),
        environment=results.environment,
        license=license or results.config.get("license"),
        made_by=results.config.get("command"),
        command=command,
        sources=results.cite().strip(),
    )
    return text


def _policy(css: str, js: str) -> str:
    """Return what the page may do: run and look as its own two texts say, and show pictures."""
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _figures(results: Results, bias: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield figures of one measure, of cost if there is one, and each other: ``address``, ``name``,
    ``title`` and ``caption``.

    Args:
        results: the results.
        bias: of `fairtk.Results.sampling_bias`.
    """
    measures = results.measures
    if len(measures) < 2:
        return
    x = next((m for m in measures if results.better(m) == "lower"), measures[0])
    others = [m for m in measures if m != x][:_MOST_FIGURES]
    for i, y in enumerate(others):
        means = results.means[[x, y]]
        points = "; ".join(
            f"{name}: {means.loc[name, x]:.3f}, {means.loc[name, y]:.3f}" for name in means.index
        )
        caption = (
            f"{y} ({results.better(y)} is better) against {x} ({results.better(x)} is "
            "better): a point per system, lines are 95% intervals over queries. "
            f"{x}, {y} of {points}."
        )
        remarks = [target_text(results), bias_text(bias[bias["measure"].isin([x, y])])]
        caption = " ".join(filter(None, [caption, *remarks]))
        name = f"figure-{i + 1}"
        yield {
            "address": picture(results.plot_trade_off(x, y)),
            "name": name,
            "title": f"{y} against {x}",
            "caption": caption,
        }


def _shown(section: Section, number: int) -> dict[str, Any]:
    name = f"section-{number + 1}"
    figure = None
    if section.figure is not None:
        figure = {
            "address": picture(section.figure),
            "name": f"{name}-figure",
            "title": section.title,
            "caption": section.alternative,
        }
    return {"section": section, "name": name, "figure": figure}


def _settings(results: Results) -> dict[str, str]:
    """Return the settings of the experiment that are not those of its stages."""
    settings = {"baseline": results.baseline} if results.baseline else {}
    left_out = ("title", "stages", "systems", "warnings", "license", "command")
    settings |= {k: v for k, v in results.config.items() if k not in left_out}
    return {
        k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)
        for k, v in settings.items()
    }


def _stages(results: Results) -> list[tuple[str, str, str]]:
    """Return name, pipeline and settings of each system; settings are known of durable runs."""
    stages, labels = results.config.get("stages", {}), results.config.get("systems", {})
    rows = []
    for name in results.systems:
        own_stages = [stage for stage in stages.get(name, []) if stage is not None]
        settings = json.dumps(own_stages, indent=2, ensure_ascii=False) if own_stages else ""
        if settings or name in labels:
            rows.append((name, str(labels.get(name, "")), settings))
    return rows


def _right(table: Table) -> list[bool]:
    """Return for each column whether it has numbers, which are aligned to the right."""
    if not table.rows:
        return [False] * len(table.columns)
    return [
        all(_NUMBER.fullmatch(cell) for cell in column) for column in zip(*table.rows, strict=True)
    ]


BYTES = 20_000_000
"""Of packed queries in one page; a page with its tables and figures stays below 25 MB."""
BLOCK = 400_000  # characters of JSON: unpacked at once when a query is opened
_SHOWN_TEXT, _SHOWN_QUERY, _SHOWN_IN_LIST = 100, 600, 120


@dataclass
class SystemRankings:
    """What a system gave, in numbers.

    Attributes:
        qids: the queries with a ranking or an answer.
        samples: rankings per query, e.g. ``"25"`` or ``"3 to 25"``.
        rankings: their number.
        distinct: the number of distinct rankings, query by query.
        answers: the number of distinct answers, query by query.
        answered: whether it gives answers.
    """

    qids: set[str] = field(default_factory=set)
    samples: str = "0"
    rankings: int = 0
    distinct: int = 0
    answers: int = 0
    answered: bool = False


@dataclass
class DrillDown:
    """The queries of a page.

    Attributes:
        index: what the list of queries needs, packed.
        blocks: the queries, packed.
        queries: how many there are.
        queries_packed: how many of them are in `blocks`.
        systems: what each system gave.
        depth: the ranks that are shown of the longest ranking.
    """

    index: str
    blocks: list[str]
    queries: int
    queries_packed: int
    systems: dict[str, SystemRankings]
    depth: int


def drill_down(results: Results, cutoff: int, most: int = BYTES) -> DrillDown:
    """Collect and pack the rankings and answers of all systems.

    Args:
        results: the results.
        cutoff: the ranks that are shown.
        most: the size of all blocks, in characters; queries beyond it are left out.
    """
    queries: dict[str, dict[str, Any]] = {}
    for qid in dict.fromkeys(results.per_query[QID]):
        queries[qid] = _query()
    systems = {}
    for place, name in enumerate(results.systems):
        systems[name] = _collect(results.rankings(name), name, place, cutoff, queries)
    for place, name in enumerate(results.systems):
        lost = results.failures[results.failures["system"] == name]
        for qid, error in zip(lost[QID], lost["error"], strict=True):
            queries.setdefault(qid, _query())["e"][place] = str(error)
    _add_labels(queries, results.qrels)
    blocks, ends = _packed(queries.values(), len(results.systems), most)
    lengths = [len(docs) for q in queries.values() for s in q["s"].values() for _, docs, _ in s]
    depth = max(lengths, default=0)
    index = {
        "systems": results.systems,
        "measures": results.measures,
        "cutoff": depth,
        "qids": list(queries),
        "texts": [_cut(query["q"], _SHOWN_IN_LIST) for query in queries.values()],
        "values": _values(results, list(queries)),
        "ends": ends,
    }
    return DrillDown(pack(index), blocks, len(queries), ends[-1] if ends else 0, systems, depth)


def pack(value: Any) -> str:
    """Return a value as compressed JSON in letters that need no escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # halves of characters have no UTF-8, and are data of others
    data = text.encode("utf-8", errors="replace")
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def _query() -> dict[str, Any]:
    return {"q": "", "docs": {}, "t": [], "answers": {}, "s": {}, "e": {}, "l": {}, "g": []}


def _collect(
    frame: pd.DataFrame, name: str, place: int, cutoff: int, queries: dict[str, dict[str, Any]]
) -> SystemRankings:
    """Add a system's rankings to the queries."""
    if frame.empty:
        return SystemRankings()
    if DOCNO not in frame.columns:  # answers without retrieval: no documents to show
        frame, cutoff = frame.assign(**{DOCNO: "none"}), 0
    ordered = frame if SCORE in frame.columns else frame.assign(**{SCORE: 0.0})  # or by rank
    rankings = Run(ordered, f"report (system {name!r})")
    texts = frame[next((c for c in ("title", TEXT) if c in frame.columns), DOCNO)].to_numpy()
    asked = frame[QUERY].to_numpy() if QUERY in frame.columns else None
    codes, answers = _answers(frame, rankings)
    matrix = _matrix(rankings, cutoff)
    top = rankings.position < cutoff
    pairs = pd.DataFrame({"query": rankings.query[top], "doc": rankings.doc[top]})
    pairs = pairs.drop_duplicates()
    rows = rankings.order[np.flatnonzero(top)[pairs.index.to_numpy()]]
    doc = pairs["doc"].to_numpy()
    doc_ends = np.searchsorted(pairs["query"].to_numpy(), np.arange(len(rankings.qids) + 1))
    ends = np.searchsorted(rankings.ranking_query, np.arange(len(rankings.qids) + 1))
    total = SystemRankings({str(q) for q in rankings.qids}, answered=answers is not None)
    for i, qid in enumerate(rankings.qids):
        query = queries.setdefault(str(qid), _query())
        if asked is not None and not query["q"]:
            row = rankings.order[rankings.ranking_start[ends[i]]]
            query["q"] = _cut(_plain(asked[row]), _SHOWN_QUERY)
        local = {-1: -1}
        for row, code in zip(rows[doc_ends[i] : doc_ends[i + 1]],
                             doc[doc_ends[i] : doc_ends[i + 1]].tolist(), strict=True):  # fmt: skip
            docno = str(rankings.docnos[code])
            if docno not in query["docs"]:
                query["docs"][docno] = len(query["t"])
                query["t"].append("" if texts[row] == docno else _cut(_plain(texts[row])))
            local[code] = query["docs"][docno]
        mine = slice(ends[i], ends[i + 1])
        samples = np.column_stack([matrix[mine], codes[mine]])
        distinct, first, counts = np.unique(samples, axis=0, return_index=True, return_counts=True)
        order = np.lexsort((first, -counts))
        entries = []
        for row, count in zip(distinct[order].tolist(), counts[order].tolist(), strict=True):
            docs = [local[code] for code in row[:-1] if code >= 0]
            answer = None
            if answers is not None:
                answer = query["answers"].setdefault(answers[row[-1]], len(query["answers"]))
            entries.append((count, docs, answer))
        query["s"][place] = entries
        total.rankings += len(samples)
        total.distinct += len({tuple(docs) for _, docs, _ in entries})
        total.answers += len({answer for _, _, answer in entries}) if total.answered else 0
    least, most = int(rankings.n_samples.min()), int(rankings.n_samples.max())
    total.samples = str(most) if least == most else f"{least} to {most}"
    return total


def _matrix(rankings: Run, cutoff: int) -> IntArray:
    """Return the first documents of each ranking; -1 where there are no more."""
    top = rankings.position < cutoff
    width = int(rankings.position[top].max(initial=0)) + 1
    matrix = np.full((rankings.n_rankings, width), -1, dtype=np.int64)
    matrix[rankings.ranking[top], rankings.position[top]] = rankings.doc[top]
    return matrix


def _answers(frame: pd.DataFrame, rankings: Run) -> tuple[IntArray, list[str] | None]:
    """Return the place of each ranking's answer among the distinct ones, and these."""
    if QANSWER not in frame.columns:
        return np.zeros(rankings.n_rankings, dtype=np.int64), None
    texts = frame[QANSWER].to_numpy()[rankings.order[rankings.ranking_start[:-1]]]
    codes, distinct = pd.factorize(np.array([_plain(text) for text in texts], dtype=object))
    return codes.astype(np.int64), [str(text) for text in distinct]


def _add_labels(queries: Mapping[str, dict[str, Any]], qrels: pd.DataFrame | None) -> None:
    if qrels is None:
        return
    if LABEL in qrels.columns and DOCNO in qrels.columns:
        useful = qrels[qrels[LABEL] > 0]
        for qid, docno, label in zip(useful[QID], useful[DOCNO], useful[LABEL], strict=True):
            if qid in queries:
                queries[qid]["l"][str(docno)] = float(label)
    if GOLD_ANSWER in qrels.columns:
        first = qrels.drop_duplicates(QID)
        for qid, gold in zip(first[QID], first[GOLD_ANSWER], strict=True):
            several = isinstance(gold, list | tuple | np.ndarray)
            if qid in queries:
                queries[qid]["g"] = [_plain(text) for text in (gold if several else [gold])]


def _packed(
    queries: Iterable[dict[str, Any]], systems: int, most: int
) -> tuple[list[str], list[int]]:
    """Return blocks of queries, and the number of queries up to the end of each."""
    blocks: list[str] = []
    ends: list[int] = []
    done = size = 0
    for block in _blocks(_public(query, systems) for query in queries):
        packed = pack(block)
        size += len(packed)
        if size > most:
            break
        done += len(block)
        blocks.append(packed)
        ends.append(done)
    return blocks, ends


def _blocks(queries: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    block: list[dict[str, Any]] = []
    size = 0
    for query in queries:
        block.append(query)
        size += sum(map(len, [*query["t"], *query["d"], *query["a"], query["q"]]))
        size += sum(4 * (len(docs) + 2) for entries in query["s"] if entries
                    for _, docs, _ in entries)  # fmt: skip
        if size >= BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _public(query: dict[str, Any], systems: int) -> dict[str, Any]:
    """Return a query as the page reads it."""
    labels = query["l"]
    return {
        "q": query["q"],
        "g": query["g"],
        "d": list(query["docs"]),
        "t": query["t"],
        "l": [labels.get(docno, 0) for docno in query["docs"]],
        "a": list(query["answers"]),
        "s": [query["s"].get(place) for place in range(systems)],
        "e": query["e"],
    }


def _values(results: Results, qids: list[str]) -> list[list[list[float | None]]]:
    """Return the values by measure, system and query, with five digits; None: undefined."""
    tables = []
    for measure in results.measures:
        values = results.per_query[results.per_query["measure"] == measure]
        table = values.pivot(index="system", columns=QID, values="value")
        table = table.reindex(index=results.systems, columns=qids)
        tables.append([[_digits(value) for value in row] for row in table.to_numpy().tolist()])
    return tables


def _digits(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or value is pd.NA or value != value else str(value)


def _cut(text: str, length: int = _SHOWN_TEXT) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
