"""One refinement of a query towards a group, as a stage of its own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import pandas as pd
import pyterrier as pt

from fairtk.errors import ColumnError, DataWarning, InputError, ParameterError, listed
from fairtk.frames import DOCNO, GROUP, QID, QUERY
from fairtk.llm import (
    ChatModel,
    Refinement,
    RefinementPromptLike,
    as_chat_model,
    as_refinement_prompt,
)
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.fair_qr.loop import qids_of, refine


class QueryRefiner(FairTransformer):
    """Q -> Q: asks a model once for keywords that find more documents of a group.

    The first step of FAIR-QR without its loop (Chen & Fang 2025, section 2.2). The earlier query
    is kept as ``query_0`` (one that was there as ``query_1``, and so on), as PyTerrier does it; the
    prompt names the earliest query as the original one and ``query`` as the current keywords, so
    that two refiners in a row refine further. Other columns stay.

    A query whose call fails finally, or whose answer is not a list of keywords (a sentence, a
    refusal, an empty answer), is left out, and a `DataWarning` names it and the reason: it is
    missing, never silently unrefined (`missing` has those of the last call: ``qid``, ``reason``).

    Args:
        llm: a `fairtk.llm.ChatModel`, or anything that `fairtk.llm.as_chat_model` takes.
        group: the group, for all queries; or one for each qid; None: the column ``group``.
        prompt: a name (``"refine"``, ``"refine-few-shot"``, ``"refine-chain-of-thought"``, a
            plugin's) or a refinement prompt.
        attribute: what the groups are about, e.g. ``"gender"``, for the prompt.
        temperature: of the model; None: the model's own.

    Raises:
        ParameterError: a setting is none of these.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("llm", "group", "prompt", "attribute", "temperature")
    missing: pd.DataFrame | None = None

    def __init__(
        self,
        llm: Any,
        group: str | Mapping[str, str] | None = None,
        prompt: str | RefinementPromptLike = "refine",
        attribute: str = "",
        temperature: float | None = None,
    ) -> None:
        super().__init__()
        if group is not None and not isinstance(group, str | Mapping):
            raise ParameterError(
                f"QueryRefiner: group must be a name, a mapping from qid to name, or None for the "
                f"column {GROUP!r}; found {group!r}"
            )
        model = as_chat_model(llm)
        self.llm: ChatModel = model if temperature is None else model.at_temperature(temperature)
        self.group = group
        self.prompt = as_refinement_prompt(prompt, "QueryRefiner")
        self.attribute = attribute
        self.temperature = temperature

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the queries with refined keywords in ``query``.

        Args:
            inp: queries (Q), one row each.

        Raises:
            ColumnError: a column is missing, or the frame has documents.
            DuplicateError: a qid occurs twice.
            InputError: a query or its group is missing; names the qid.
            LLMError: no call to the model would succeed.
        """
        self.check_inputs(inp, [QID, QUERY, *([GROUP] if self.group is None else [])])
        if DOCNO in inp.columns:
            raise ColumnError(
                "QueryRefiner takes queries, but its input has the column 'docno': put it before "
                "the retriever"
            )
        out = pt.model.push_queries(inp)
        out.insert(list(inp.columns).index(QUERY), QUERY, out["query_0"])
        if inp.empty:
            return out
        qids = qids_of(inp, "QueryRefiner")
        results = refine(self.llm, self.prompt, self._requests(inp, qids))
        lost = {q: r.reason for q, r in zip(qids, results, strict=True) if r.query is None}
        self.missing = pd.DataFrame({QID: list(lost), "reason": list(lost.values())})
        if lost:
            reasons = [f"{qid}: {reason}" for qid, reason in lost.items()]
            warnings.warn(
                f"QueryRefiner: {len(lost)} of {len(qids)} queries could not be refined and are "
                f"left out ({listed(reasons, 5)})",
                DataWarning,
                stacklevel=2,
            )
        out[QUERY] = pd.Series([r.query for r in results], index=out.index, dtype="str")
        kept = [r.query is not None for r in results]
        return out[kept].reset_index(drop=True)

    def _requests(self, inp: pd.DataFrame, qids: list[str]) -> list[Refinement]:
        earliest = QUERY
        while (following := f"query_{_number(earliest) + 1}") in inp.columns:
            earliest = following
        columns = [inp[QUERY].tolist(), inp[earliest].tolist(), self._groups(inp, qids)]
        requests = []
        for qid, keywords, query, group in zip(qids, *columns, strict=True):
            for name, value in ((QUERY, keywords), (earliest, query), (GROUP, group)):
                if not isinstance(value, str) or not value.strip():
                    raise InputError(
                        f"QueryRefiner: qid {qid!r} needs a text as {name!r}; found {value!r}"
                    )
            requests.append(Refinement(query, keywords, (group,), self.attribute))
        return requests

    def _groups(self, inp: pd.DataFrame, qids: list[str]) -> list[Any]:
        if self.group is None:
            found: list[Any] = inp[GROUP].tolist()
            return found
        if isinstance(self.group, str):
            return [self.group] * len(qids)
        return [self.group.get(qid) for qid in qids]


def _number(column: str) -> int:
    return -1 if column == QUERY else int(column.rpartition("_")[2])
