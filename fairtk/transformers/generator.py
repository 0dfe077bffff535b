"""Generators: answers from rankings and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import ColumnError, InputError
from fairtk.frames import (
    DOCNO,
    QANSWER,
    QID,
    QUERY,
    QUESTION,
    SAMPLE,
    SCORE,
    IntArray,
    Run,
    digest,
    identity_name,
)
from fairtk.frames.columns import SUBSET, plain_columns
from fairtk.frames.schema import check_samples
from fairtk.frames.texts import qids_of
from fairtk.llm import (
    ChatModel,
    Estimate,
    Failure,
    FunctionModel,
    HuggingFaceSeq2Seq,
    UnansweredError,
    as_chat_model,
)
from fairtk.llm.chat import questions, read_answer
from fairtk.llm.hugging_face import HuggingFaceChatModel
from fairtk.llm.ledger import estimate_all
from fairtk.llm.loading import require_packages
from fairtk.llm.prompts import SHORTEST_ENTRY, PromptBuilder, as_builder
from fairtk.plugins.registry import refuse_unknown_options
from fairtk.remarks import FULL_PROMPTS, LONG_QUESTIONS
from fairtk.stage_context import changed, remark
from fairtk.transformers.base import FairTransformer
from fairtk.wording import format_list, missing_columns, such

CONTENT_MODELS = (HuggingFaceChatModel, FunctionModel)
"""Models of generators that are identified by their content; others have keys in ledgers."""


def remark_on_long_questions(
    where: str, prompt: Any, tokenizer: Any, qids: Sequence[str], questions: Sequence[str]
) -> None:
    """Remark on questions that are truncated or leave no tokens for documents.

    Prompt builders without a method ``document_budget`` are not checked. Queries may repeat.
    """
    document_budget = getattr(prompt, "document_budget", None)
    if tokenizer is None or document_budget is None:
        return
    question_by_qid = dict(zip(qids, questions, strict=True))
    budgets = [document_budget(str(text), tokenizer) for text in question_by_qid.values()]
    if None in budgets:
        return
    left, distinct = np.array(budgets), list(question_by_qid)
    is_full = (left >= 0) & (left < SHORTEST_ENTRY)
    remark(LONG_QUESTIONS, where, left < 0, distinct, stacklevel=5)
    remark(FULL_PROMPTS, where, is_full, distinct, stacklevel=5)


@dataclass(frozen=True)
class RowPrompts:
    """The prompts of a frame.

    Attributes:
        prompts: one prompt per (question, documents); texts may repeat.
        qids: a query of each prompt.
        prompt_of_row: the index in `prompts` of each row; shape (n_rows,).
    """

    prompts: Sequence[str]
    qids: Sequence[str]
    prompt_of_row: IntArray


class Generator(FairTransformer):
    """A transformer that generates one answer per ranking (R or S) or query (Q).

    ==========  =====================================================================
    input       R or S: ``qid``, ``query`` (or ``question``), ``docno``, ``score`` and the
                columns that the prompt reads (``prompt.fields``, often ``text`` from a
                ``text_loader``); ``sample`` if sampled. Q: ``qid``, ``query``.
    output      the input's rows and columns, in their order, and ``qanswer``
    ==========  =====================================================================

    The prompt contains the first ``cutoff`` ranks of a ranking, and the column ``question`` if
    present, else ``query``. All rows of a ranking get the answer, also those below the cutoff; an
    earlier ``qanswer`` is replaced. Equal prompts are generated once, so 100 similar samples cost
    few answers. For Q, and for the empty subset of `fairtk.credit.Subsets`, the prompt has no
    documents.

    Args:
        llm: a model of `fairtk.llm`, alone or behind a ledger with its budget and prices
            (``Ledger("answers.sqlite").wrap(...)``), or any argument of
            `fairtk.llm.as_chat_model`: a function from a list of prompts to a list of answers, or a
            model of pyterrier_rag.
        prompt: a name (`fairtk.prompts.get`) or a prompt builder.
        cutoff: the maximum number of documents in a prompt, at least 1.

    Raises:
        ParameterError: a setting is out of its range.
    """

    identity_name = "fairtk.Generator"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = ("llm", "prompt", "cutoff")

    def __init__(self, llm: Any, prompt: str | PromptBuilder = "rag", cutoff: int = 5) -> None:
        super().__init__()
        rule = "be an integer of at least 1 (for answers without documents, pass only queries)"
        self.cutoff = checks.integer("cutoff", cutoff, type(self).__name__, rule=rule)
        self.llm: ChatModel = as_chat_model(llm)
        self.prompt: PromptBuilder = as_builder(prompt)
        self._answers: dict[str, str | Failure] = {}  # by prompt, for the next attempt

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the column ``qanswer``.

        Raises:
            ColumnError: a column is missing (`TransformerInputError`).
            InputError: a question or a document field is NaN, or a ranking has several questions;
                names the qid.
            DuplicateError: duplicate document in a ranking, or duplicate qid in topics.
            ModelError: the model cannot be loaded.
            UnansweredError: a call failed, or a prompt exceeds the model's window; names the qid.
                The other answers are kept for the next call. A prompt that the model refuses is not
                sent again by this object.
            LLMError: no call would succeed, or the budget is spent.
        """
        prompts = self.build_prompts(inp)
        out = inp.copy()
        if inp.empty:
            out[QANSWER] = pd.Series(dtype="str")
        else:
            # an array is faster than a list with the answer of each row
            answers = pd.Series(self._generate(prompts), dtype="str").array
            out[QANSWER] = answers.take(prompts.prompt_of_row)
        return out

    def build_prompts(self, inp: pd.DataFrame) -> RowPrompts:
        """Return the prompts for a frame, without generating answers.

        Raises:
            InputError: see `transform`.
        """
        self._check_columns(inp)
        if inp.empty:
            return RowPrompts((), (), np.zeros(0, dtype=np.int64))
        return self._ranking_prompts(inp) if DOCNO in inp.columns else self._topic_prompts(inp)

    def estimate(self, inp: pd.DataFrame) -> Estimate:
        """Estimate the calls, tokens and price for a frame, without any call.

        Equal prompts count once. Recorded answers are not subtracted. Everything is 0 for a
        function or a model that runs here, e.g. `FlanT5`, unless it is behind a ledger.

        Raises:
            InputError: as `transform`.
        """
        if self.llm.local or isinstance(self.llm, FunctionModel):
            return Estimate(0, 0, 0, 0.0, 0.0)
        return estimate_all(self.llm, questions(dict.fromkeys(self.build_prompts(inp).prompts)))

    def _check_columns(self, inp: pd.DataFrame) -> None:
        plain_columns(inp, type(self).__name__)
        question = QUESTION if QUESTION in inp.columns else QUERY
        topics = [QID, question]
        run = [QID, question, DOCNO, SCORE, *self.prompt.fields]
        if DOCNO not in inp.columns:
            self.check_inputs(inp, run, topics)
            return
        missing = [field for field in self.prompt.fields if field not in inp.columns]
        if missing and all(column in inp.columns for column in (QID, question, SCORE)):
            # PyTerrier's inspection passes an empty frame and reads the error's type
            self.check_inputs(inp, run) if inp.empty else self._refuse_without(missing, inp)
        self.check_inputs(inp, run)

    def _refuse_without(self, missing: list[str], inp: pd.DataFrame) -> None:
        name = getattr(self.prompt, "name", type(self.prompt).__name__)
        expected = f"{format_list(self.prompt.fields, 9)} for the prompt {name!r}"
        raise ColumnError(
            f"{type(self).__name__}: {missing_columns(missing, expected, inp.columns)}; load the "
            f"texts before it, e.g. retriever >> dataset.text_loader({missing!r}) >> "
            f"{type(self).__name__}(...)"
        )

    # One row per query -------------------------------------------------------------------------

    def _topic_prompts(self, inp: pd.DataFrame) -> RowPrompts:
        qids = qids_of(inp, type(self).__name__)
        check_samples(inp, type(self).__name__)
        code, questions = self._coded(inp, _question_column(inp))
        prompts = self._build(qids, questions[code].tolist(), [()] * len(inp), [])
        return RowPrompts(prompts, qids, np.arange(len(inp)))

    # Rankings ----------------------------------------------------------------------------------

    def _ranking_prompts(self, inp: pd.DataFrame) -> RowPrompts:
        run = Run(inp, type(self).__name__)
        in_prompt = run.position < self.cutoff  # sorted rows
        if SUBSET in inp.columns:  # the row of an empty subset has no document
            in_prompt &= inp[SUBSET].to_numpy()[run.order] != 0
        top = np.flatnonzero(in_prompt)
        question, questions = self._coded(inp, _question_column(inp))
        question = question[run.order]
        start = run.ranking_start[:-1]
        differ = np.flatnonzero(question != question[start][run.ranking])
        if len(differ):
            row = int(run.order[differ[0]])
            raise InputError(
                f"{type(self).__name__}: expected one question per ranking, got another one, "
                f"{questions[question[differ[0]]]!r}, for {_location(inp, row)}"
            )
        values = {field: self._coded(inp, field, run.order[top]) for field in self.prompt.fields}
        codes = pd.DataFrame({field: code for field, (code, _) in values.items()})
        content, distinct = _numbered(codes.reindex(range(len(top))))
        # One line per ranking: its question, then its documents by content, padded with -1.
        lines = np.full((run.n_rankings, 1 + self.cutoff), -1, dtype=np.int64)
        lines[:, 0] = question[start]
        lines[run.ranking[top], 1 + run.position[top]] = content
        prompt_of_ranking, first = _numbered(pd.DataFrame(lines))

        qids = [str(run.qids[query]) for query in run.ranking_query[first]]
        prompts = self._build(
            qids,
            questions[question[start][first]].tolist(),
            [tuple(line[line >= 0].tolist()) for line in lines[first, 1:]],
            [
                {field: texts[code[row]] for field, (code, texts) in values.items()}
                for row in distinct
            ],
        )
        prompt_of_row = np.empty(len(inp), dtype=np.int64)
        prompt_of_row[run.order] = prompt_of_ranking[run.ranking]
        return RowPrompts(prompts, qids, prompt_of_row)

    def _coded(
        self, inp: pd.DataFrame, column: str, rows: IntArray | None = None
    ) -> tuple[IntArray, Any]:
        """Return the codes of a column's rows and its distinct values; NaN is an `InputError`."""
        code, texts = pd.factorize(inp[column] if rows is None else inp[column].iloc[rows])
        missing = np.flatnonzero(code < 0)
        if len(missing):
            row = int(missing[0] if rows is None else rows[missing[0]])
            raise InputError(
                f"{type(self).__name__}: missing text (NaN) in the column {column!r} for "
                f"{_location(inp, row)} ({such(len(missing))}); load the text of every "
                "document, or fill it with ''"
            )
        return code, np.asarray(texts, dtype=object)

    # Prompts and answers -----------------------------------------------------------------------

    def _build(
        self,
        qids: Sequence[str],
        questions: Sequence[str],
        rankings: Sequence[tuple[int, ...]],
        documents: Sequence[dict[str, Any]],
    ) -> list[str]:
        """Return one prompt per (question, documents)."""
        where = type(self).__name__
        tokenizer = self.llm.tokenizer
        remark_on_long_questions(where, self.prompt, tokenizer, qids, questions)
        prompts = []
        for qid, question, ranking in zip(qids, questions, rankings, strict=True):
            try:
                chosen = [documents[i] for i in ranking]
                prompts.append(self.prompt(str(question), chosen, tokenizer))
            except InputError as error:
                raise InputError(f"{where}: qid {qid!r}: {error}") from error
        return prompts

    def _generate(self, prompts: RowPrompts) -> list[str]:
        """Return one answer per prompt. Each distinct prompt is sent once."""
        answers = dict(self._answers)
        unanswered = [p for p in dict.fromkeys(prompts.prompts) if p not in answers]
        # two functions may have the same key in a ledger
        unrecorded = self.llm if isinstance(self.llm, CONTENT_MODELS) else None
        try:
            with changed(generator=unrecorded):
                for index, outcome in self.llm.outcomes(questions(unanswered)):
                    answers[unanswered[index]] = read_answer(outcome)
        finally:  # for the next attempt
            self._answers = {
                p: a for p, a in answers.items() if isinstance(a, str) or not a.can_pass
            }
        failures: dict[str, str] = {}
        texts: list[str] = []
        for prompt, qid in zip(prompts.prompts, prompts.qids, strict=True):
            answer = answers.get(prompt, Failure("the model gave no answer"))
            if isinstance(answer, str):
                texts.append(answer)
            else:
                failures.setdefault(prompt, f"qid {qid!r}: {answer.reason}")
        if failures:
            raise UnansweredError(
                f"{type(self).__name__}: no answer to {len(failures)} of "
                f"{len(set(prompts.prompts))} prompts (the first: {next(iter(failures.values()))})"
            )
        self._answers = {p: a for p, a in self._answers.items() if not isinstance(a, str)}
        return texts

    def digest(self) -> str:
        """Return the content digest of class and settings; a ledger does not count."""
        return digest([identity_name(type(self)), self.settings() | {"llm": self.llm.digest()}])

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_answers": {}}


def _numbered(frame: pd.DataFrame) -> tuple[IntArray, IntArray]:
    """Return the code of each row's content, in order of appearance, and each code's first row."""
    if not len(frame.columns):
        return np.zeros(len(frame), dtype=np.int64), np.arange(min(1, len(frame)))
    number = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    return number, np.unique(number, return_index=True)[1]


def _question_column(inp: pd.DataFrame) -> str:
    return QUESTION if QUESTION in inp.columns else QUERY


def _location(inp: pd.DataFrame, row: int) -> str:
    parts = [f"qid {str(inp[QID].iloc[row])!r}"]
    if SAMPLE in inp.columns:
        parts.append(f"sample {inp[SAMPLE].iloc[row]}")
    if DOCNO in inp.columns:
        parts.append(f"docno {str(inp[DOCNO].iloc[row])!r}")
    return ", ".join(parts)


class FlanT5(Generator):
    """A generator with a T5 model: 4 beams, no sampling, at most 128 new tokens.

    See `Generator` for the frames. The model is loaded on first use, from safetensors only. The
    extra ``t5`` is required.

    Args:
        model: a hub name, or a local folder with config.json, model.safetensors and
            tokenizer.json, of any encoder-decoder model.
        prompt: a name (`fairtk.prompts.get`: ``"rag"``, ``"lamp-1"`` to ``"lamp-7"``, a
            plugin's) or a prompt builder.
        cutoff: the maximum number of documents in a prompt, at least 1.
        **settings: ``device``, ``dtype``, ``num_beams``, ``max_new_tokens``,
            ``max_prompt_tokens``, ``batch_tokens``, ``revision``, ``temperature`` and ``seed``, as
            in `fairtk.llm.HuggingFaceSeq2Seq`.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ParameterError: a setting is unknown or out of its range.
    """

    identity_name = "fairtk.FlanT5"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("model", "prompt", "cutoff"),
        *HuggingFaceSeq2Seq.SETTINGS[1:],
    )

    def __init__(
        self,
        model: str | PathLike[str] = "google/flan-t5-small",
        prompt: str | PromptBuilder = "rag",
        cutoff: int = 5,
        **settings: Any,
    ) -> None:
        require_packages("FlanT5")
        refuse_unknown_options("FlanT5", HuggingFaceSeq2Seq, settings)
        llm = HuggingFaceSeq2Seq(fspath(model), **settings)
        super().__init__(llm, prompt, cutoff)
        for name in llm.SETTINGS:
            setattr(self, name, getattr(llm, name))
