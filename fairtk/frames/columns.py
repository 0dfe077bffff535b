"""Columns of frames: their names, the types of their arrays, and the ids and texts in them.

The names are PyTerrier's. `docs` of every frame type (Q, R, S, X, A, qrels, groups) are in
``docs/concepts/frames.md``; ir_measures' own names (``query_id``, ``doc_id``, ``relevance``) occur
only at its border.

An id is text, or a whole number that stands for its digits: 1 and "1" are the same query in two
frames. Everything else would match nothing, or stop an evaluator that is written in C, so it is an
error here, at every door.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from numbers import Real
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fairtk.errors import ColumnError, DuplicateError, InputError, listed

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ObjectArray = npt.NDArray[np.object_]


def rows_by_code(codes: IntArray, n_codes: int) -> tuple[IntArray, list[int]]:
    """Return the rows sorted by code, and where each code's rows start; at the end, where all end.

    Codes are from 0 to n_codes - 1; shape (n_rows,).
    """
    order = np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(n_codes + 1)).tolist()


QID = "qid"
QUERY = "query"
QUESTION = "question"
DOCNO = "docno"
SCORE = "score"
RANK = "rank"
SAMPLE = "sample"
TEXT = "text"
LABEL = "label"
QANSWER = "qanswer"
GOLD_ANSWER = "gold_answer"
EXPOSURE = "exposure"
BROWSING = "browsing"
CUTOFF = "cutoff"
ALPHA = "alpha"
OF_EXPOSURE = (BROWSING, CUTOFF, ALPHA)
"""What the exposure of a frame X holds for."""
GROUP = "group"
WEIGHT = "weight"
CREDIT = "credit"
ERROR = "standard_error"
SOURCE_SAMPLE = "source_sample"
SUBSET = "subset"
NO_DOCUMENT = "@NONE"
"""The docno of the one row that stands for a ranking without documents, of subset 0."""

_GOLD = f"; fairtk.join_answers(qrels, answers) adds {GOLD_ANSWER}"

QUERY_ID, DOC_ID, RELEVANCE = "query_id", "doc_id", "relevance"
_FROM_IR_MEASURES = {QUERY_ID: QID, DOC_ID: DOCNO, RELEVANCE: LABEL}
TO_IR_MEASURES = {ours: theirs for theirs, ours in _FROM_IR_MEASURES.items()}


def ours(names: Iterable[str]) -> list[str]:
    """Return PyTerrier's names of columns that ir_measures names; others as they are."""
    return [_FROM_IR_MEASURES.get(name, name) for name in names]


def frame_of(data: Any) -> Any:
    """Return the pandas frame of a table of another library; anything else as it is.

    Such are tables with Arrow's C stream (polars, DuckDB's relations, pyarrow), and ranx's ``Run``
    and ``Qrels``, whose columns get PyTerrier's names.
    """
    if isinstance(data, pd.DataFrame | pd.Series | pd.Index):
        return data
    if type(data).__module__.partition(".")[0] == "ranx" and hasattr(data, "to_dataframe"):
        value = LABEL if type(data).__name__ == "Qrels" else SCORE
        return data.to_dataframe().rename(columns={"q_id": QID, "doc_id": DOCNO, "score": value})
    if not hasattr(data, "__arrow_c_stream__"):
        return data
    try:
        table = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError):
        return data  # a single column; who needs a frame says so
    lists = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if not lists:
        return table.to_pandas()
    # Python's, where pandas would have arrays in cells
    plain = table.drop_columns(lists).to_pandas()
    return plain.assign(**{c: table[c].to_pylist() for c in lists})[table.column_names]


P = ParamSpec("P")
R = TypeVar("R")


def takes_tables(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function take tables of other libraries, also in lists and mappings, as frames."""

    @functools.wraps(function)
    def taking(*args: P.args, **kwargs: P.kwargs) -> R:
        positional: Any = map(_framed, args)
        named: Any = {name: _framed(value) for name, value in kwargs.items()}
        return function(*positional, **named)

    return taking


def _framed(value: Any) -> Any:
    if type(value) in (list, tuple):
        if all(issubclass(kind, str | tuple) for kind in {*map(type, value)}):
            return value  # names, or rows, which may be many
        return type(value)(map(frame_of, value))
    if type(value) is dict:
        return {key: frame_of(one) for key, one in value.items()}
    return frame_of(value)


def from_ir_measures(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the frame with PyTerrier's column names, whichever of the two it has; not changed.

    Raises:
        ColumnError: it has both names of a column, or columns that `require` refuses.
    """
    frame = frame_of(frame)
    plain_columns(frame, where)
    for theirs, ours in _FROM_IR_MEASURES.items():
        if theirs in frame.columns and ours in frame.columns:
            raise ColumnError(
                f"{where} {_verb(where, 'has')} the columns {ours!r} (PyTerrier's name) and "
                f"{theirs!r} (ir_measures' name), which mean the same; drop one of them"
            )
    return frame.rename(columns=_FROM_IR_MEASURES)


def _verb(where: str, verb: str) -> str:
    """Return the verb that goes with what is named: "these qrels need", "the run needs"."""
    if not where.startswith("these "):
        return verb
    return {"has": "have", "needs": "need"}[verb]


def plain_columns(frame: Any, where: str) -> None:
    """Raise a `ColumnError` unless it is a frame whose columns have one name each."""
    if not isinstance(frame, pd.DataFrame):
        lazy = "; .collect() it first" if hasattr(frame, "collect") else ""
        needs = _verb(where, "needs")
        raise ColumnError(f"{where} {needs} a DataFrame; found a {type(frame).__name__}{lazy}")
    if frame.columns.nlevels > 1:
        raise ColumnError(
            f"{where} {_verb(where, 'needs')} a frame with one name for each column; found a "
            f"MultiIndex of {frame.columns.nlevels} levels ({frame.columns[0]!r}, ...): flatten "
            "it, e.g. frame.columns = frame.columns.get_level_values(0)"
        )
    if not frame.columns.is_unique:
        twice = list(dict.fromkeys(frame.columns[frame.columns.duplicated()]))
        raise ColumnError(
            f"{where} {_verb(where, 'needs')} a frame with each column once; twice there: {twice}; "
            "drop or rename one"
        )


def require(frame: pd.DataFrame, columns: Iterable[str], where: str) -> None:
    """Raise a `ColumnError` unless the frame has all the columns; `where` says who needs them."""
    plain_columns(frame, where)
    needed = list(columns)
    missing = [c for c in needed if c not in frame.columns]
    if missing:
        raise ColumnError(
            f"{where} {_verb(where, 'needs')} the columns {needed}; missing: {missing}, "
            f"found: {list(frame.columns)}" + (_GOLD if GOLD_ANSWER in missing else "")
        )


def refuse_subsets(frame: pd.DataFrame, where: str) -> None:
    """Raise a `ColumnError` if a frame has subsets of rankings."""
    if SUBSET in frame.columns:
        raise ColumnError(
            f"{where} takes rankings; found subsets of rankings (column {SUBSET!r}): make credit "
            "of their answers with fairtk.credit.from_answers, or put Subsets last but the "
            "generator"
        )


def as_numbers(column: pd.Series) -> FloatArray:
    """Return a column as floats; NaN for what is missing or no number, such as the text "1"."""
    if getattr(column.dtype, "kind", "O") in "biuf":
        numbers: FloatArray = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers
    return np.array([_number(value) for value in column.tolist()], dtype=np.float64)


def _number(value: Any) -> float:
    if not isinstance(value, Real | np.bool_):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def texts_of(inp: pd.DataFrame, where: str) -> list[str]:
    """Return the text of each row; one that is not a string is an `InputError`."""
    return _strings(
        inp, TEXT, where, "load the texts first (a text_loader), or drop documents without one"
    )


def queries_of(inp: pd.DataFrame, query: IntArray, count: int, where: str) -> list[str]:
    """Return the text of a run's queries, by the index of each row's query and their number."""
    values = _strings(inp, QUERY, where, "topics must have a query")
    code, distinct = pd.factorize(np.array(values, dtype=object))
    first = np.zeros(count, dtype=np.int64)
    first[query[::-1]] = code[::-1]
    other = np.flatnonzero(code != first[query])
    if len(other):
        row = inp.iloc[int(other[0])]
        raise InputError(
            f"{where}: qid {row[QID]!r} must have one query on all its rows; found "
            f"{row[QUERY]!r} at docno {row[DOCNO]!r}"
        )
    return [str(distinct[c]) for c in first]


def qids_of(topics: pd.DataFrame, where: str) -> list[str]:
    """Return the qid of each topic as text; each occurs once."""
    code, distinct = encode_ids(topics[QID], QID, where)
    qids: list[str] = distinct[code].tolist()
    if len(distinct) < len(qids):
        twice = pd.Series(qids, dtype=object)
        raise DuplicateError(
            f"{where}: qid {listed(twice[twice.duplicated()].unique())} occurs twice in the "
            "topics; one row per query is needed (a run needs the column 'docno')"
        )
    return qids


def topics_of(inp: pd.DataFrame, where: str) -> list[tuple[str, str]]:
    """Return qid and query of each topic; each qid occurs once, with a query that is a string."""
    topics = list(zip(qids_of(inp, where), inp[QUERY].tolist(), strict=True))
    for qid, text in topics:
        if not isinstance(text, str):
            raise InputError(f"{where}: the query of qid {qid!r} must be a string; found {text!r}")
    return topics


def _strings(inp: pd.DataFrame, column: str, where: str, advice: str) -> list[str]:
    values: list[Any] = inp[column].tolist()
    for number, value in enumerate(values):
        if not isinstance(value, str):
            row = inp.iloc[number]
            raise InputError(
                f"{where}: the {column} of qid {row[QID]!r}, docno {row[DOCNO]!r} must be a "
                f"string; found {value!r}: {advice}"
            )
    return values


_REMEDY = {
    float: "a number with a decimal point is another text than the whole one; convert the column "
    "with .astype(int)",
    bytes: "decode the column with .str.decode('utf-8')",
    bool: "an id is text or a whole number",
}

IS_EMPTY = "is empty"
"""What `flaw_of` says of an id without anything in it."""

_STRANGE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_WHY = {
    "\0": "evaluators written in C stop at it",
    "\n": "a line break; stray quotes join lines",
    "\r": "a line break; stray quotes join lines",
    "\ufeff": "a byte order mark: the start of a file, left over from joined files",
}


def flaw_of(text: str) -> str:
    """Return why a text is no id, such as `IS_EMPTY`; ``""`` if it is one.

    An id has something in it, no spaces around it, and no character that evaluators, files or those
    who read them take for an end: control characters, line breaks, halves of characters.
    """
    if not text:
        return IS_EMPTY
    strange = _STRANGE.search(text)
    if strange is None:
        return "has spaces around it" if text != text.strip() else ""
    sign = strange.group()
    half = "half a character: it was decoded wrongly"
    why = _WHY.get(sign, half if "\ud800" <= sign <= "\udfff" else "a control character")
    return f"has the character U+{ord(sign):04X} ({why})"


def are_ids(texts: Sequence[str]) -> bool:
    """Return whether texts are ids, looking at all of them at once; a TypeError: one is no text."""
    together = "".join(texts)
    if "" in texts:
        return False
    if _plain(together.encode("utf-8", "surrogatepass")):
        return True
    if not together.isprintable():
        return not any(map(flaw_of, texts))
    # printable, so that spaces are the only white space
    lines = "\n" + "\n".join(texts) + "\n"
    return "\n " not in lines and " \n" not in lines


def _plain(raw: Any) -> bool:
    """Return whether all bytes are letters, digits and signs of ASCII, no spaces."""
    codes = np.frombuffer(raw, dtype=np.uint8)
    return not len(codes) or bool(codes.min() > ord(" ") and codes.max() < 127)


class Ids:
    """Distinct ids, as text and for look-ups; the form that they did not come in is made late."""

    def __init__(self, values: ObjectArray | pa.LargeStringArray) -> None:
        self.values = values
        self.size = len(values)

    @cached_property
    def text(self) -> ObjectArray:
        """The ids as Python strings; shape (n_ids,)."""
        values = self.values
        return values if isinstance(values, np.ndarray) else values.to_numpy(zero_copy_only=False)

    def some(self, places: IntArray) -> list[str]:
        """Return the ids at some places as text; the others stay as they are."""
        if isinstance(self.values, np.ndarray) or "text" in vars(self):
            return list(self.text[places])
        texts: list[str] = self.values.take(pa.array(places)).to_pylist()
        return texts

    @cached_property
    def _table(self) -> pa.LargeStringArray:
        return pa.array(self.values, pa.large_string())

    def flaws(self) -> dict[int, str]:
        """Return the places of those that are no ids, and why (`flaw_of`)."""
        with suppress(UnicodeEncodeError):  # Arrow takes no half characters
            raw = self._table.buffers()[2]
            if raw is not None and _plain(raw) and pc.min(pc.binary_length(self._table)).as_py():
                return {}
        texts = self.text.tolist()
        if are_ids(texts):
            return {}
        return {place: flaw for place, text in enumerate(texts) if (flaw := flaw_of(text))}

    def find(self, others: Ids) -> IntArray:
        """Return the place of each of other ids among these; -1 where it is none of them."""
        return self.find_each([others])[0]

    def find_each(self, many: Sequence[Ids]) -> list[IntArray]:
        """Return the same for each of many, at the price of one where these are more."""
        together = pa.concat_arrays([others._table for others in many])
        place = np.asarray(pc.index_in(together, value_set=self._table).fill_null(-1))
        ends = np.cumsum([others.size for others in many])[:-1]
        return [part.astype(np.int64) for part in np.split(place, ends)]


Coded: TypeAlias = tuple[IntArray, Ids]
"""The code of each row's id, and the ids."""


def coded_frame(
    frame: pd.DataFrame, where: str, needs: Iterable[str], names: Iterable[str], either: bool
) -> tuple[pd.DataFrame, dict[str, Coded]]:
    """Return a frame that has the columns it needs, and those of its ids that it has, as codes.

    With `either`, the frame may have ir_measures' names, and gets PyTerrier's; see `coded_ids`.
    """
    frame = frame_of(frame)
    frame = from_ir_measures(frame, where) if either else frame
    require(frame, needs, where)
    return frame, {c: coded_ids(frame[c], c, where) for c in names if c in frame.columns}


def uncoded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns of ids are text where they are coded already."""
    names = [c for c in (QID, DOCNO) if c in frame.columns and _is_coded(frame[c])]
    return frame.assign(**{c: _uncoded(frame[c]) for c in names}) if names else frame


def _is_coded(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def _uncoded(column: pd.Series) -> Any:
    return column.cat.categories.array.take(column.cat.codes)


def encode_ids(column: pd.Series, name: str, where: str) -> tuple[IntArray, ObjectArray]:
    """Return ids as codes, and the distinct ids as text; see `coded_ids`."""
    codes, ids = coded_ids(column, name, where)
    return codes, ids.text


def coded_ids(column: pd.Series, name: str, where: str) -> Coded:
    """Return ids as codes, and the distinct ids in order of first appearance.

    What is missing, no text and no whole number, or no id as text (`flaw_of`) is an `InputError`;
    so are two ids that differ as they are and not as text, such as 1 and "1".
    """
    coded = _coded(column, name)
    if coded is not None:
        _refuse_flaws(coded[1], name, where)
        return coded
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # a list, a dict, an array: no id, and not to be compared
        for row, value in enumerate(column.tolist()):
            if getattr(type(value), "__hash__", None) is None:
                _text(value, f"{where}: {name} in row {row}")
        raise
    if codes.min(initial=0) < 0:
        row = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{where}: {name} is missing (NaN) in row {row}; every row needs one")
    ids = Ids(_texts_of(values, name, where))
    _refuse_flaws(ids, name, where)
    return codes.astype(np.int64, copy=False), ids


def _coded(column: pd.Series, name: str) -> Coded | None:
    """Return a column of text, or one that is coded already, as codes and ids; None: another."""
    if not _is_coded(column):
        texts = _complete_text(column)
        return None if texts is None else _codes_of(texts, name)
    texts = _complete_text(column.cat.categories)
    codes = column.cat.codes.to_numpy(np.int64)
    if texts is None or codes.min(initial=0) < 0:
        return None
    used = pd.unique(codes)
    if len(used) == len(texts) and bool((used[1:] > used[:-1]).all()):
        return codes, Ids(texts)
    number = np.zeros(len(texts), dtype=np.int64)
    number[used] = np.arange(len(used))
    return number[codes], Ids(texts.take(pa.array(used)))


def coded_among(
    table: Ids, column: pd.Series, name: str, where: str
) -> tuple[IntArray, Ids, IntArray]:
    """Return ids as codes, the distinct ids in any order, and their places in a table of ids.

    Most of the column are expected to be in the table.
    """
    texts = _complete_text(column)
    if texts is None:
        codes, ids = coded_ids(column, name, where)
        return codes, ids, table.find(ids)
    place = pc.index_in(texts, value_set=table._table)
    whole, every = np.asarray(place.fill_null(-1)).astype(np.int64), table._table
    rest = np.flatnonzero(whole < 0)
    if len(rest):
        codes, others = _codes_of(texts.take(pa.array(rest)), name)
        _refuse_flaws(others, name, where)
        whole[rest] = table.size + codes
        every = pa.concat_arrays([every, others._table])
    used = np.flatnonzero(np.bincount(whole, minlength=len(every)))
    number = np.zeros(len(every), dtype=np.int64)
    number[used] = np.arange(len(used))
    return number[whole], Ids(every.take(pa.array(used))), np.where(used < table.size, used, -1)


def _complete_text(column: pd.Series) -> pa.LargeStringArray | None:
    """Return a column of text as Arrow has it; None if it is kept otherwise, or some is missing."""
    if getattr(column.dtype, "storage", "") != "pyarrow":
        return None
    texts = pa.array(column.array)
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    return None if texts.null_count else texts.cast(pa.large_string())


def code_text(column: pd.Series, name: str) -> tuple[pd.Series, dict[int, str]]:
    """Return a column of text, none missing, coded (categorical), and which codes are no ids, why.

    `coded_ids` takes what is coded as it is, and `uncoded` has it as text.
    """
    texts = _complete_text(column)
    texts = pa.array(column.tolist(), pa.large_string()) if texts is None else texts
    codes, ids = _codes_of(texts, name)
    categories = pd.Index(pd.array(ids._table, dtype="str"))
    coded = pd.Categorical.from_codes(codes, categories, validate=False)
    return pd.Series(coded, index=column.index), ids.flaws()


def _codes_of(texts: pa.LargeStringArray, name: str) -> Coded:
    if name == QID:  # rows of a query mostly stand together
        runs = pc.run_end_encode(texts)
        coded, length = runs.values.dictionary_encode(), np.diff(runs.run_ends, prepend=0)
        codes = np.repeat(np.asarray(coded.indices, dtype=np.int64), length)
    else:
        coded = texts.dictionary_encode()
        codes = np.asarray(coded.indices).astype(np.int64)
    return codes, Ids(coded.dictionary)


def _texts_of(values: Any, name: str, where: str) -> ObjectArray:
    """Return distinct ids as text; what is neither text nor a whole number is an `InputError`."""
    array = np.asarray(values, dtype=object)
    if pd.api.types.infer_dtype(array, skipna=False) == "string":
        return array
    texts = np.empty(len(array), dtype=object)
    texts[:] = [_text(v, f"{where}: {name}") for v in array]
    _refuse_alike(array, texts, name, where)
    return texts


def with_text(frame: pd.DataFrame, ids: dict[str, Coded]) -> pd.DataFrame:
    """Return a frame whose ids are text; itself if they are."""
    texts = {}
    for name, (codes, distinct) in ids.items():
        if _is_coded(frame[name]) and _complete_text(frame[name].cat.categories) is not None:
            texts[name] = _uncoded(frame[name])
        elif pd.api.types.infer_dtype(frame[name], skipna=False) != "string":
            texts[name] = distinct.text[codes]
    return frame.assign(**texts) if texts else frame


def as_strings(values: Any) -> ObjectArray:
    """Return values of any kind as an array of Python strings, such as the levels of groups."""
    array = np.asarray(values, dtype=object)
    if pd.api.types.infer_dtype(array, skipna=False) != "string":
        array = np.array([str(v) for v in array], dtype=object)
    return array


def _text(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    kind = type(value)
    remedy = next(
        (text for base, text in _REMEDY.items() if isinstance(value, base)),
        "convert the column with .astype(str)",
    )
    if isinstance(value, np.floating):
        remedy = _REMEDY[float]
    if kind.__hash__ is None:
        remedy = "one row has one id: split it with DataFrame.explode"
    raise InputError(
        f"{place} must be text or a whole number; found {value!r} ({kind.__name__}): {remedy}"
    )


def _refuse_alike(values: Any, text: ObjectArray, name: str, where: str) -> None:
    if len(set(text)) < len(text):
        twice = pd.Series(text).duplicated(keep=False).to_numpy()
        kinds = sorted({type(v).__name__ for v in values[twice]})
        raise InputError(
            f"{where}: {name} {text[twice][0]!r} occurs as {' and '.join(kinds)}, which are one "
            f"id as text; convert the column with .astype(str)"
        )


def _refuse_flaws(ids: Ids, name: str, where: str) -> None:
    for place, flaw in ids.flaws().items():
        value = f"{ids.text[place]!a} " if ids.text[place] else ""
        raise InputError(
            f"{where}: {name} {value}{flaw}; read the data again, or mend it with .str.strip or "
            ".str.replace"
        )


_WORD = re.compile(r"\w+(?:-\w+)*")
_JOINERS = "\u200c\u200d"
"""Signs within words of Persian and Indian scripts."""


def words(text: str) -> list[str]:
    r"""Return the words of a text: letters, digits and marks, with hyphens between them.

    Combining marks belong to the letter before them: the vowel signs of Indian scripts, Arabic and
    Hebrew points, accents that stand apart. Python's ``\w`` leaves them out.
    """
    if text.isascii():
        return _WORD.findall(text)
    letters = [" "]
    for sign in text:
        mark = sign in _JOINERS or unicodedata.category(sign)[0] == "M"
        # as a letter where one can carry it; a mark alone is no word
        letters.append(("x" if _WORD.match(letters[-1]) else " ") if mark else sign)
    matches = _WORD.finditer("".join(letters[1:]))
    return [text[match.start() : match.end()].rstrip(_JOINERS) for match in matches]
