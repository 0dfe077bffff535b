"""A warning for questions that crowd the documents out of a prompt, or do not fit themselves."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import (
    ColumnError,
    DataWarning,
    DuplicateError,
    InputError,
    such_rows,
)
from fairtk.frames import (
    DOCNO,
    QANSWER,
    QID,
    QUERY,
    QUESTION,
    SAMPLE,
    SCORE,
    IntArray,
    ObjectArray,
    Run,
    plain_columns,
)
from fairtk.llm import (
    SHORTEST_ENTRY,
    Backend,
    ChatBackend,
    ChatModel,
    HuggingFaceSeq2Seq,
    NoAnswerError,
    PromptBuilder,
    PromptLengthError,
    as_backend,
    as_builder,
    require_packages,
    texts,
)
from fairtk.transformers.base import FairTransformer


def warn_of_long_questions(
    where: str, prompt: Any, tokenizer: Any, qids: Sequence[str], questions: Sequence[str]
) -> None:
    """Warn once, with numbers and the first qid, if questions are cut or leave no room.

    A prompt builder without a method ``room`` is not looked at. Queries may repeat.
    """
    measure = getattr(prompt, "room", None)
    if tokenizer is None or measure is None:
        return
    cut: list[str] = []
    full: list[str] = []
    for qid, question in dict(zip(qids, questions, strict=True)).items():
        room = measure(str(question), tokenizer)
        if room is None:
            return
        if room < 0:
            cut.append(qid)
        elif room < SHORTEST_ENTRY:
            full.append(qid)
    for found, what in (
        (cut, "are longer than the model's window and are cut at their end"),
        (full, "fill the model's window and leave no room for documents"),
    ):
        if found:
            warnings.warn(
                f"{where}: the questions of {len(found)} queries {what} (first: qid "
                f"{found[0]!r}); their answers cannot depend on the ranking; use a model with a "
                "longer window or a larger max_prompt_tokens",
                DataWarning,
                stacklevel=5,
            )


@dataclass(frozen=True)
class Asked:
    """The prompts of a frame.

    Attributes:
        prompts: the prompts, one per (question, documents); texts may repeat.
        qids: a query that each prompt is for.
        prompt_of_row: place among `prompts` of each row of the frame; shape (n_rows,).
    """

    prompts: Sequence[str]
    qids: Sequence[str]
    prompt_of_row: IntArray


class Generator(FairTransformer):
    """Generates one answer per ranking (R or S) or per query (Q), with any backend and prompt.

    ==========  =====================================================================
    input       R or S: ``qid``, ``query`` (or ``question``), ``docno``, ``score`` and the
                columns that the prompt reads (``prompt.fields``, often ``text``: put a
                ``text_loader`` before it); ``sample`` if sampled. Q: ``qid``, ``query``.
    output      the input's rows and columns, in their order, and ``qanswer``
    ==========  =====================================================================

    The prompt sees the first ``cutoff`` ranks of each ranking, and the column ``question`` if
    there is one, else ``query``. The answer stands on every row of its ranking, those below the
    cutoff included; an earlier ``qanswer`` is replaced. Equal prompts are built and generated
    once: 100 samples of a peaked policy cost a few answers. On Q the prompt has no documents.

    Args:
        backend: a `fairtk.llm.Backend`, a pyterrier_rag backend, a function from a list of
            prompts to a list of answers, or a model of `fairtk.llm`, alone or behind a ledger
            (``Ledger("answers.sqlite").wrap(...)``): budget, prices and records count here, too.
        prompt: a name (`fairtk.prompts.get`) or a prompt builder.
        cutoff: how many documents a prompt has at most, at least 1.

    Raises:
        ParameterError: a setting is out of its range.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("backend", "prompt", "cutoff")

    def __init__(self, backend: Any, prompt: str | PromptBuilder = "rag", cutoff: int = 5) -> None:
        super().__init__()
        rule = f"{checks.FROM_1} (for answers without documents, give it a frame of queries)"
        self.cutoff = checks.whole("cutoff", cutoff, type(self).__name__, rule=rule)
        self.backend: Backend = (
            ChatBackend(backend) if isinstance(backend, ChatModel) else as_backend(backend)
        )
        self.prompt: PromptBuilder = as_builder(prompt)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the column ``qanswer``.

        Raises:
            ColumnError: a column is missing (`TransformerInputError`).
            InputError: a question or a document field is NaN, one query has several questions
                in one ranking, or a prompt is longer than the model takes; names the qid.
            DuplicateError: a document occurs twice in a ranking, or a qid twice in topics.
            ModelError: the model cannot be loaded.
        """
        asked = self.asked(inp)
        out = inp.copy()
        if inp.empty:
            out[QANSWER] = pd.Series(dtype="str")
        else:
            # taken as an array: a list of every row's string would be converted one by one
            answers = pd.Series(self._generate(asked), dtype="str").array
            out[QANSWER] = answers.take(asked.prompt_of_row)
        return out

    def asked(self, inp: pd.DataFrame) -> Asked:
        """Return the prompts for a frame, without generating anything.

        Raises:
            InputError: as `transform`.
        """
        self._check_columns(inp)
        if inp.empty:
            return Asked((), (), np.zeros(0, dtype=np.int64))
        return self._ask_rankings(inp) if DOCNO in inp.columns else self._ask_topics(inp)

    def _check_columns(self, inp: pd.DataFrame) -> None:
        plain_columns(inp, type(self).__name__)
        question = QUESTION if QUESTION in inp.columns else QUERY
        topics = [QID, question]
        run = [QID, question, DOCNO, SCORE, *self.prompt.fields]
        if DOCNO not in inp.columns:
            self.check_inputs(inp, run, topics)
            return
        lacking = [field for field in self.prompt.fields if field not in inp.columns]
        if lacking and all(column in inp.columns for column in (QID, question, SCORE)):
            # a frame of no rows comes from PyTerrier's inspection, which reads this error's type
            self.check_inputs(inp, run) if inp.empty else self._refuse_without(lacking, inp)
        self.check_inputs(inp, run)

    def _refuse_without(self, lacking: list[str], inp: pd.DataFrame) -> None:
        name = getattr(self.prompt, "name", type(self.prompt).__name__)
        raise ColumnError(
            f"{type(self).__name__} needs the document columns {list(self.prompt.fields)} for the "
            f"prompt {name!r}; missing: {lacking}, found: {list(inp.columns)}; put a text_loader "
            f"before it, e.g. retriever >> pt.text.get_text(dataset, {lacking!r}) >> "
            f"{type(self).__name__}(...)"
        )

    # One row per query -------------------------------------------------------------------------

    def _ask_topics(self, inp: pd.DataFrame) -> Asked:
        qids = inp[QID].astype(str).tolist()
        twice = inp[QID].duplicated().to_numpy()
        if twice.any():
            raise DuplicateError(
                f"{type(self).__name__}: qid {qids[int(np.flatnonzero(twice)[0])]!r} occurs twice "
                "in the topics; one row per query is needed (a run needs the column 'docno')"
            )
        code, values = self._coded(inp, _question_column(inp))
        prompts = self._prompts(qids, values[code].tolist(), [()] * len(inp), [])
        return Asked(prompts, qids, np.arange(len(inp)))

    # Rankings ----------------------------------------------------------------------------------

    def _ask_rankings(self, inp: pd.DataFrame) -> Asked:
        run = Run(inp, type(self).__name__)
        top = np.flatnonzero(run.position < self.cutoff)  # sorted rows
        rows = run.order[top]  # rows of the frame

        question_code, questions = self._coded(inp, _question_column(inp))
        question_code = self._of_rankings(question_code, questions, run, inp)

        fields = list(self.prompt.fields)
        codes, values = [], []
        content = np.zeros(len(rows), dtype=np.int64)
        for field in fields:
            code, distinct = self._coded(inp, field, rows)
            codes.append(code)
            values.append(distinct)
            # pairs of codes become codes again, so that the product stays small
            content = np.unique(content * len(distinct) + code, return_inverse=True)[1]

        # One line per ranking: its question, then its documents by content; -1 where it is short.
        lines = np.full((run.n_rankings, 1 + self.cutoff), -1, dtype=np.int64)
        lines[:, 0] = question_code
        lines[run.ranking[top], 1 + run.position[top]] = content
        _, first, line_of = np.unique(lines, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")  # prompts in order of first appearance
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        first = first[order]

        row_of_content = np.zeros(int(content.max(initial=-1)) + 1, dtype=np.int64)
        row_of_content[content] = np.arange(len(rows))
        columns = [v[code[row_of_content]] for v, code in zip(values, codes, strict=True)]
        documents = [
            {field: column[i] for field, column in zip(fields, columns, strict=True)}
            for i in range(len(row_of_content))
        ]
        qids = [str(run.qids[run.ranking_query[ranking]]) for ranking in first]
        prompts = self._prompts(
            qids,
            questions[question_code[first]].tolist(),
            [tuple(line[line >= 0].tolist()) for line in lines[first, 1:]],
            documents,
        )
        prompt_of_row = np.empty(len(inp), dtype=np.int64)
        prompt_of_row[run.order] = place[line_of.ravel()][run.ranking]
        return Asked(prompts, qids, prompt_of_row)

    def _of_rankings(
        self,
        code: IntArray,
        questions: ObjectArray,
        run: Run,
        inp: pd.DataFrame,
    ) -> IntArray:
        """Return the question's code of each ranking; the rows of a ranking must agree."""
        code = code[run.order]
        of_ranking = code[run.ranking_start[:-1]]
        differ = np.flatnonzero(code != of_ranking[run.ranking])
        if len(differ):
            row = int(run.order[differ[0]])
            raise InputError(
                f"{type(self).__name__}: the rows of one ranking have different questions "
                f"({_place(inp, row)}): found {questions[code[differ[0]]]!r}; each (qid, sample) "
                "needs one"
            )
        return of_ranking

    def _coded(
        self, inp: pd.DataFrame, column: str, rows: IntArray | None = None
    ) -> tuple[IntArray, ObjectArray]:
        """Return a column as codes and their values; a NaN is an `InputError`."""
        series = inp[column] if rows is None else inp[column].iloc[rows]
        code, distinct = pd.factorize(series)
        missing = np.flatnonzero(code < 0)
        if len(missing):
            row = int(missing[0] if rows is None else rows[missing[0]])
            raise InputError(
                f"{type(self).__name__} needs a text in the column {column!r}, and "
                f"{_place(inp, row)} has none (NaN; {such_rows(len(missing))}): load the text of "
                "every document, or fill it with ''"
            )
        return code.astype(np.int64), np.asarray(distinct, dtype=object)

    # Prompts and answers -----------------------------------------------------------------------

    def _prompts(
        self,
        qids: Sequence[str],
        questions: Sequence[str],
        rankings: Sequence[tuple[int, ...]],
        documents: Sequence[dict[str, Any]],
    ) -> list[str]:
        """Return one prompt per (question, documents)."""
        where = type(self).__name__
        tokenizer = self.backend.tokenizer
        warn_of_long_questions(where, self.prompt, tokenizer, qids, questions)
        prompts = []
        for qid, question, ranking in zip(qids, questions, rankings, strict=True):
            try:
                chosen = [documents[i] for i in ranking]
                prompts.append(self.prompt(str(question), chosen, tokenizer))
            except InputError as error:
                raise InputError(f"{where}: qid {qid!r}: {error}") from error
        return prompts

    def _generate(self, asked: Asked) -> list[str]:
        """Return one answer per prompt; equal prompts go to the backend once."""
        where = type(self).__name__
        try:
            outputs = self.backend.generate(asked.prompts)
            name = getattr(self.backend, "name", where)
            return texts(outputs, len(asked.prompts), name)
        except (PromptLengthError, NoAnswerError) as error:
            message = f"{where}: qid {asked.qids[error.index]!r}: {error}"
            raise type(error)(message, error.index) from error


def _question_column(inp: pd.DataFrame) -> str:
    return QUESTION if QUESTION in inp.columns else QUERY


def _place(inp: pd.DataFrame, row: int) -> str:
    parts = [f"qid {str(inp[QID].iloc[row])!r}"]
    if SAMPLE in inp.columns:
        parts.append(f"sample {inp[SAMPLE].iloc[row]}")
    if DOCNO in inp.columns:
        parts.append(f"docno {str(inp[DOCNO].iloc[row])!r}")
    return ", ".join(parts)


class FlanT5(Generator):
    """Generates answers with a T5: beam search with 4 beams, no sampling, 128 new tokens.

    The frames are `Generator`'s. The model is loaded on first use, from a local folder, the hub's
    cache or the hub, from safetensors only. It needs the extra ``t5``.

    Args:
        model: a hub name, or a local folder with config.json, model.safetensors and
            tokenizer.json; any encoder-decoder model will do.
        prompt: a name (`fairtk.prompts.get`: ``"rag"``, ``"lamp-1"`` to ``"lamp-7"``, a
            plugin's) or a prompt builder.
        cutoff: how many documents a prompt has at most, at least 1.
        device: ``"auto"`` (CUDA if there is one, else CPU) or a torch device.
        dtype: ``"auto"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        num_beams: beams per prompt.
        max_new_tokens: the most tokens of an answer.
        max_prompt_tokens: the most tokens of a prompt; None for the model's own (512 for T5).
        batch_tokens: the most tokens of a batch; None for what fits into memory.
        revision: branch, tag or commit on the hub.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ParameterError: a setting is out of its range.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("model", "prompt", "cutoff"),
        *HuggingFaceSeq2Seq.SETTINGS[1:],
    )

    def __init__(
        self,
        model: str | PathLike[str] = "google/flan-t5-small",
        prompt: str | PromptBuilder = "rag",
        cutoff: int = 5,
        *,
        device: str = "auto",
        dtype: str = "auto",
        num_beams: int = 4,
        max_new_tokens: int = 128,
        max_prompt_tokens: int | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
    ) -> None:
        require_packages("FlanT5")
        backend = HuggingFaceSeq2Seq(
            fspath(model),
            device=device,
            dtype=dtype,
            num_beams=num_beams,
            max_new_tokens=max_new_tokens,
            max_prompt_tokens=max_prompt_tokens,
            batch_tokens=batch_tokens,
            revision=revision,
        )
        super().__init__(backend, prompt, cutoff)
        for name in backend.SETTINGS:
            setattr(self, name, getattr(backend, name))
