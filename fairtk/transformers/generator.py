"""Generators: answers from rankings and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import ColumnError, InputError, ParameterError
from fairtk.frames import (
    ANSWER_STATUS,
    DOCNO,
    QANSWER,
    QID,
    QUERY,
    QUESTION,
    SAMPLE,
    SCORE,
    BoolArray,
    IntArray,
    Run,
    digest,
    identity_name,
)
from fairtk.frames.answers import PROMPT_CUT
from fairtk.frames.columns import IN_PROMPT, PROMPT_ID, SUBSET, plain_columns
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
from fairtk.llm.chat import Chat, Completion, Outcome, Prompt, as_prompt, questions
from fairtk.llm.hugging_face import HuggingFaceChatModel
from fairtk.llm.ledger import LedgerModel, estimate_all
from fairtk.llm.loading import require_packages
from fairtk.llm.progress import progress_bar
from fairtk.llm.prompts import SHORTEST_ENTRY, Built, PromptBuilder, as_builder
from fairtk.llm.reading import AnswerReader, Reading, check_reader, is_cut, read
from fairtk.plugins.registry import refuse_unknown_options
from fairtk.remarks import (
    DROPPED_DOCUMENTS,
    EMPTY_DOCUMENTS,
    FULL_PROMPTS,
    LONG_QUESTIONS,
    ONE_ANSWER,
    UNKNOWN_TOKENS,
)
from fairtk.stage_context import changed, current, of_call, remark
from fairtk.transformers.base import FairTransformer
from fairtk.wording import format_list, missing_columns, such

CONTENT_MODELS = (HuggingFaceChatModel, FunctionModel)
"""Models of generators that are identified by their content; others have keys in ledgers."""

MOST_UNKNOWN = 0.05
"""The share of unknown tokens of a prompt from which a remark is made."""

_CUT_REASON = (
    "the answer was cut at the maximum number of tokens; raise max_new_tokens (max_tokens of a "
    "server), or use on_cut='keep'"
)
_PROMPT_CUT_REASON = (
    "the server has read less than half of the prompt; raise its context window, then use "
    "Ledger(retry_unusable=True), or use on_cut='keep'"
)


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
        prompts: one prompt per (question, documents); they may repeat.
        qids: a query of each prompt.
        prompt_of_row: the index in `prompts` of each row; shape (n_rows,).
        in_prompt: whether the prompt has the document of each row, shape (n_rows,); `None` if the
            rows have no documents.
    """

    prompts: Sequence[Prompt]
    qids: Sequence[str]
    prompt_of_row: IntArray
    in_prompt: BoolArray | None = None


class Generator(FairTransformer):
    """A transformer that generates one answer per ranking (R or S) or query (Q).

    ==========  =====================================================================
    input       R or S: ``qid``, ``query`` (or ``question``), ``docno``, ``score`` and the
                columns that the prompt reads (``prompt.fields``, often ``text`` from a
                ``text_loader``); ``sample`` if sampled. Q: ``qid``, ``query``.
    output      the input's rows and columns, in their order, ``qanswer``, ``answer_status``
                (see `fairtk.frames.answers.STATUSES`) and, for R and S, ``in_prompt``; with
                several answers, the first two are lists, and ``prompt_id`` is equal for
                rankings with the same prompt
    ==========  =====================================================================

    The prompt contains the first ``cutoff`` ranks of a ranking, and the column ``question`` if
    present, else ``query``. All rows of a ranking get the answer, also those below the cutoff; an
    earlier ``qanswer`` is replaced. Equal prompts are generated once, so 100 similar samples cost
    few answers. ``in_prompt`` says whether the prompt has a document: those below the cutoff, and
    those that do not fit the model's window, are not in it. For Q, and for the empty subset of
    `fairtk.credit.Subsets`, the prompt has no documents.

    Args:
        llm: a model of `fairtk.llm`, alone or behind a ledger with its budget and prices
            (``Ledger("answers.sqlite").wrap(...)``), or any argument of
            `fairtk.llm.as_chat_model`: a function from a list of prompts to a list of answers, or a
            model of pyterrier_rag.
        prompt: a name (`fairtk.prompts.get`) or a prompt builder.
        cutoff: the maximum number of documents in a prompt, at least 1.
        answer: how to read the answer in the text of the model: ``"plain"``; ``"after-thinking"``,
            the text after the last ``</think>`` or ``[/THINK]`` (a thought without an end is no
            answer); ``"json:KEY"``, the value of a key in the first JSON object that has it, also
            in a fenced block; or a function from the text to the answer. Recorded texts can be read
            in another way without a call.
        answers: the number of answers per prompt, each with its own seed and key in ledgers. The
            first one has the seed of the model, so it is the answer of ``answers=1``. More than one
            require a model that samples. EU is the mean over the answers, and
            ``Results.compare(levels=True)`` shows how much they vary.
        on_cut: ``"keep"``, or ``"fail"`` for a failure of the query if an answer was cut at the
            maximum number of tokens, whatever its status, or the server has read less than half of
            the prompt.

    Raises:
        ParameterError: a setting is out of its range.
    """

    identity_name = "fairtk.Generator"
    output_version = 2
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("llm", "prompt", "cutoff", "answer", "answers", "on_cut"),
    )

    def __init__(
        self,
        llm: Any,
        prompt: str | PromptBuilder = "rag",
        cutoff: int = 5,
        answer: AnswerReader = "after-thinking",
        answers: int = 1,
        on_cut: str = "keep",
    ) -> None:
        super().__init__()
        self.answer = check_reader(answer, type(self).__name__)
        self.on_cut = checks.choice("on_cut", on_cut, ("keep", "fail"), type(self).__name__)
        rule = "be an integer of at least 1 (for answers without documents, pass only queries)"
        self.cutoff = checks.integer("cutoff", cutoff, type(self).__name__, rule=rule)
        self.llm: ChatModel = as_chat_model(llm)
        self.answers = checks.integer("answers", answers, type(self).__name__)
        if self.answers > 1 and self.llm.repeats:
            raise ParameterError(
                f"{type(self).__name__}: answers={self.answers} requires a model that samples, but "
                f"all answers of {self.llm.name!r} to a prompt are equal ({self.llm.repeats}); set "
                "a temperature above 0, or use answers=1"
            )
        self.prompt: PromptBuilder = as_builder(prompt)
        # by prompt, for each answer, for the next attempt
        self._outcomes: list[dict[Prompt, Outcome]] = [{} for _ in range(self.answers)]
        self._failed_since = ""

    @property
    def models(self) -> list[ChatModel]:
        """The models of all answers to a prompt, which differ in their seeds."""
        llm = self.llm.read_by(self.answer) if isinstance(self.llm, LedgerModel) else self.llm
        return [llm.numbered(number) for number in range(self.answers)]

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with ``qanswer``, ``answer_status`` and, with documents, ``in_prompt``.

        Raises:
            ColumnError: a column is missing (`TransformerInputError`).
            InputError: a question or a document field is NaN, or a ranking has several questions;
                names the qid.
            DuplicateError: duplicate document in a ranking, or duplicate qid in topics.
            ModelError: the model cannot be loaded.
            UnansweredError: a call failed, a prompt exceeds the model's window, or an answer was
                cut with ``on_cut="fail"``; names the qid.
                The other answers are kept for the next call. A prompt that the model refuses is not
                sent again by this object.
            LLMError: no call would succeed, or the budget is spent.
        """
        prompts = self.build_prompts(inp)
        out = inp.copy()
        if inp.empty:
            out[QANSWER] = out[ANSWER_STATUS] = pd.Series(
                dtype="str" if self.answers == 1 else object
            )
            if self.answers > 1:
                out[PROMPT_ID] = pd.Series(dtype="str")
            return out.assign(**{IN_PROMPT: pd.Series(dtype=bool)}) if DOCNO in inp else out
        for name, cells in answer_columns(self, prompts.prompts, self._generate(prompts)).items():
            # an array is faster than a list with the text of each row
            array = pd.Series(cells, dtype=object if isinstance(cells[0], list) else "str").array
            out[name] = array.take(prompts.prompt_of_row)
        if prompts.in_prompt is not None:
            out[IN_PROMPT] = prompts.in_prompt
        return out

    def read(self, prompt: Prompt, outcome: Outcome) -> Reading | Failure:
        """Return the answer to a prompt and its status, or the failure of the call.

        With ``on_cut="fail"``, an answer that was cut is a failure.
        """
        if isinstance(outcome, Failure):
            return outcome
        text = prompt.text if isinstance(prompt, Chat) else prompt
        reading = read(outcome, text, self.answer)
        if reading.status == PROMPT_CUT and self._counts_tokens:
            reading = read(outcome, text, self.answer, of_server=False)
        if self.on_cut == "fail" and reading.status == PROMPT_CUT:
            return Failure(_PROMPT_CUT_REASON)
        if self.on_cut == "fail" and is_cut(outcome):
            return Failure(_CUT_REASON)
        return reading

    @property
    def _counts_tokens(self) -> bool:
        """Whether the tokens of prompts are counted here, by a tokenizer, and not by a server."""
        llm = self.llm.llm if isinstance(self.llm, LedgerModel) else self.llm
        return isinstance(llm, CONTENT_MODELS) and llm.tokenizer is not None

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

        Equal prompts count once. Recorded answers are not subtracted. A model that runs here, e.g.
        `FlanT5`, has tokens, but no calls and no price, unless it is behind a ledger. Everything is
        0 for a function.

        Raises:
            InputError: as `transform`.
        """
        if isinstance(self.llm, FunctionModel):
            return Estimate(0, 0, 0, 0.0, 0.0)
        chats = questions(dict.fromkeys(self.build_prompts(inp).prompts))
        work = estimate_all(self.llm, [chat for chat in chats for _ in range(self.answers)])
        return work._replace(calls=0, price=0.0) if self.llm.local else work

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
        prompts, _ = self._build(qids, questions[code].tolist(), [()] * len(inp), [])
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
        documents = [
            {field: texts[code[row]] for field, (code, texts) in values.items()} for row in distinct
        ]
        is_empty = np.array([not "".join(map(str, d.values())).strip() for d in documents], bool)
        if values and is_empty.any():
            self._remark_on_empty(run, top[is_empty[content]])
        prompts, n_documents = self._build(
            qids,
            questions[question[start][first]].tolist(),
            [tuple(line[line >= 0].tolist()) for line in lines[first, 1:]],
            documents,
        )
        prompt_of_row = np.empty(len(inp), dtype=np.int64)
        prompt_of_row[run.order] = prompt_of_ranking[run.ranking]
        in_prompt &= run.position < np.array(n_documents)[prompt_of_ranking[run.ranking]]
        mask = np.empty(len(inp), dtype=bool)
        mask[run.order] = in_prompt
        return RowPrompts(prompts, qids, prompt_of_row, mask)

    def _remark_on_empty(self, run: Run, rows: IntArray) -> None:
        """Remark on documents without text in sorted rows of prompts."""
        docnos: dict[int, dict[str, None]] = {}
        for query, doc in zip(run.query[rows].tolist(), run.doc[rows].tolist(), strict=True):
            docnos.setdefault(query, {})[str(run.docnos[doc])] = None
        details = [[*docnos.get(query, ())] for query in range(len(run.qids))]
        number = [len(detail) for detail in details]
        remark(EMPTY_DOCUMENTS, type(self).__name__, number, run.qids, details, stacklevel=5)

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
    ) -> tuple[list[Prompt], list[int]]:
        """Return one prompt per (question, documents), and its number of documents."""
        where = type(self).__name__
        tokenizer = self.llm.tokenizer
        remark_on_long_questions(where, self.prompt, tokenizer, qids, questions)
        if self.answers == 1 and not self.llm.repeats:
            distinct = list(dict.fromkeys(qids))
            remark(ONE_ANSWER, where, np.ones(len(distinct), dtype=bool), distinct, stacklevel=5)
        build = getattr(self.prompt, "build", None)  # of built-in prompts
        prompts: list[Prompt] = []
        built = []
        for qid, question, ranking in zip(qids, questions, rankings, strict=True):
            try:
                chosen = [documents[i] for i in ranking]
                if build is None:
                    text = self.prompt(str(question), chosen, tokenizer)
                    built.append(Built("", len(chosen), 0, len(chosen)))
                else:
                    built.append(build(str(question), chosen, tokenizer))
                    text = built[-1].text
                prompts.append(as_prompt(text, f"the prompt {self.prompt!r}"))
            except InputError as error:
                raise InputError(f"{where}: qid {qid!r}: {error}") from error
        self._remark_on_space(qids, [len(ranking) for ranking in rankings], built)
        self._remark_on_unknown_tokens(qids, prompts)
        return prompts, [one.n_documents for one in built]

    def _remark_on_space(
        self, qids: Sequence[str], sizes: Sequence[int], built: Sequence[Built]
    ) -> None:
        """Remark on documents that do not fit the prompts."""
        parts = [one[1:] for one in built]
        table = pd.DataFrame(parts, columns=Built._fields[1:]).assign(qid=qids, size=sizes)
        table["dropped"] = table["size"] - table["n_documents"]
        table = table[table["dropped"] + table["n_cut"] > 0]
        if table.empty:
            return
        distinct, details = list(dict.fromkeys(qids)), {}
        for qid, rows in table.groupby("qid", sort=False):
            most = rows[["dropped", "n_cut", "size"]].max().tolist()
            fitting = int(rows["n_whole"].min())
            details[qid] = (
                f"{qid}: up to {most[0]} left out and {most[1]} cut of {most[2]}, "
                f"{f'cutoff={fitting}' if fitting else 'no cutoff'} fits"
            )
        count = (table["dropped"] + table["n_cut"]).groupby(table["qid"]).sum()
        number = count.reindex(distinct, fill_value=0).to_numpy()
        listed = [[details[qid]] if qid in details else [] for qid in distinct]
        remark(DROPPED_DOCUMENTS, type(self).__name__, number, distinct, listed, stacklevel=6)

    def _remark_on_unknown_tokens(self, qids: Sequence[str], prompts: Sequence[Prompt]) -> None:
        """Remark on prompts with many unknown tokens."""
        share_of = getattr(self.llm.tokenizer, "unknown_share", None)
        if share_of is None:
            return
        most: dict[str, float] = {}
        for qid, prompt in zip(qids, prompts, strict=True):
            share = share_of(prompt.text if isinstance(prompt, Chat) else prompt)
            most[qid] = max(most.get(qid, 0.0), share)
        details = [[f"{q}: {s:.0%}"] if s > MOST_UNKNOWN else [] for q, s in most.items()]
        number = [len(detail) for detail in details]
        remark(UNKNOWN_TOKENS, type(self).__name__, number, list(most), details, stacklevel=6)

    def _generate(self, prompts: RowPrompts) -> list[list[Reading]]:
        """Return the answers to each prompt. Each distinct prompt is sent once per answer."""
        recording = of_call().recording
        if recording is not None and recording.failed_since > self._failed_since:  # `retry_failed`
            self._failed_since = recording.failed_since
            self._outcomes = [
                {p: o for p, o in outcomes.items() if isinstance(o, Completion)}
                for outcomes in self._outcomes
            ]
        numbered = [self._request(i, llm, prompts.prompts) for i, llm in enumerate(self.models)]
        failures: dict[Prompt, str] = {}
        readings: list[list[Reading]] = []
        for prompt, qid in zip(prompts.prompts, prompts.qids, strict=True):
            of_prompt = []
            for outcomes in numbered:
                outcome = outcomes.get(prompt, Failure("the model gave no answer"))
                reading = self.read(prompt, outcome)
                if isinstance(reading, Failure):
                    failures.setdefault(prompt, f"qid {qid!r}: {reading.reason}")
                else:
                    of_prompt.append(reading)
            readings.append(of_prompt)
        if failures:
            raise UnansweredError(
                f"{type(self).__name__}: no answer to {len(failures)} of "
                f"{len(set(prompts.prompts))} prompts (the first: {next(iter(failures.values()))})"
            )
        after = current().after_attempts
        if after is None:
            self._forget_answers()
        else:  # a part of the batch may fail later, and these answers would be requested again
            after.append(self._forget_answers)
        return readings

    def _forget_answers(self) -> None:
        self._outcomes = [
            {p: o for p, o in outcomes.items() if isinstance(o, Failure)}
            for outcomes in self._outcomes
        ]

    def _request(
        self, number: int, llm: ChatModel, prompts: Sequence[Prompt]
    ) -> dict[Prompt, Outcome]:
        """Return the outcomes of one of several answers by prompt."""
        outcomes = dict(self._outcomes[number])
        unanswered = [p for p in dict.fromkeys(prompts) if p not in outcomes]
        # two functions may have the same key in a ledger
        unrecorded = llm if isinstance(llm, CONTENT_MODELS) else None
        try:
            with (
                progress_bar("answers", len(unanswered), "prompt") as progress,
                changed(generator=unrecorded),
            ):
                for index, outcome in llm.outcomes(questions(unanswered)):
                    outcomes[unanswered[index]] = outcome
                    progress(1)
        finally:  # for the next attempt
            self._outcomes[number] = {
                p: o for p, o in outcomes.items() if isinstance(o, Completion) or not o.can_pass
            }
        return outcomes

    def digest(self) -> str:
        """Return the content digest of class and settings; a ledger does not count."""
        return digest([identity_name(type(self)), self.settings() | {"llm": self.llm.digest()}])

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_outcomes": [{} for _ in range(self.answers)]}


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


def answer_columns(
    generator: Generator, prompts: Sequence[Prompt], readings: Sequence[Sequence[Reading] | None]
) -> dict[str, list[Any]]:
    """Return the columns of a generator's answers, a value per prompt.

    Args:
        generator: the generator.
        prompts: the prompts.
        readings: the answers to each prompt, `None` without answers.
    """
    if generator.answers == 1:
        return {
            QANSWER: [of and of[0].answer for of in readings],
            ANSWER_STATUS: [of and of[0].status for of in readings],
        }
    return {
        QANSWER: [of and [one.answer for one in of] for of in readings],
        ANSWER_STATUS: [of and [one.status for one in of] for of in readings],
        PROMPT_ID: [
            digest(prompt.messages if isinstance(prompt, Chat) else prompt) for prompt in prompts
        ],
    }


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
        answer: see `Generator`.
        answers: see `Generator`.
        on_cut: see `Generator`.
        **settings: ``device``, ``dtype``, ``num_beams``, ``max_new_tokens``,
            ``max_prompt_tokens``, ``batch_tokens``, ``revision``, ``temperature`` and ``seed``, as
            in `fairtk.llm.HuggingFaceSeq2Seq`.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ParameterError: a setting is unknown or out of its range.
    """

    identity_name = "fairtk.FlanT5"
    output_version = 2
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("model", "prompt", "cutoff", "answer", "answers", "on_cut"),
        *HuggingFaceSeq2Seq.SETTINGS[1:],
    )

    def __init__(
        self,
        model: str | PathLike[str] = "google/flan-t5-small",
        prompt: str | PromptBuilder = "rag",
        cutoff: int = 5,
        answer: AnswerReader = "after-thinking",
        answers: int = 1,
        on_cut: str = "keep",
        **settings: Any,
    ) -> None:
        require_packages("FlanT5")
        refuse_unknown_options("FlanT5", HuggingFaceSeq2Seq, settings)
        name = fspath(model) if isinstance(model, PathLike) else model
        llm = HuggingFaceSeq2Seq(name, **settings)
        super().__init__(llm, prompt, cutoff, answer, answers, on_cut)
        for name in llm.SETTINGS:
            setattr(self, name, getattr(llm, name))
