"""A ledger of paid answers, with a budget."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Self

from fairtk import checks, stage_context
from fairtk.errors import ParameterError
from fairtk.io.artifacts import Artifact, artifact_type
from fairtk.io.atomic import real_path
from fairtk.io.manifest import MANIFEST, checked_file, file_digest, read_manifest
from fairtk.llm.budget import (
    Budget,
    Estimate,
    Prices,
    PriceTable,
    Spending,
    estimate,
    most_completion_tokens,
)
from fairtk.llm.chat import (
    BudgetError,
    Chat,
    ChatModel,
    Completion,
    DeferredError,
    Failure,
    LLMError,
    OfflineError,
    Outcome,
    call_keys,
    now,
)
from fairtk.llm.claims import Claim, Claims, process_name, tokens_of
from fairtk.llm.functions import as_chat_model
from fairtk.llm.reading import AnswerReader, is_usable
from fairtk.llm.store import AnswerStore, Database, answer_row, failure_row
from fairtk.stage_context import Recording

_MIN_WAIT, _MAX_WAIT = 0.02, 0.5  # seconds between two checks for answers of other processes
_QUIET = 2.0  # seconds of waiting before it is reported


_PACKAGED = "ledger.sqlite"
_PACKAGE_FORM = 1
"""The version of a package; the file in it has a version of its own."""


class Ledger(Artifact):
    """A file that records all answers of language models, so that no call is repeated.

    For example::

        llm = Ledger("answers.sqlite", max_calls=500).wrap(OpenAICompatible("gpt-4o"))

    Calls are equal if their model, parameters and prompt are equal. Each answer is committed before
    it is used, so a killed run continues where it stopped. If several threads or processes with the
    same file need the same answer, one makes the call and the others wait. The file contains
    prompts and answers, but no API keys. It may be the file of an experiment.

    Ledgers are artifacts of PyTerrier: `build_package`, `to_hf` and `to_zenodo` share the answers,
    and `from_url`, `from_hf` and `from_zenodo` open them with ``offline=True``.

    Args:
        path: the SQLite file; created if absent.
        offline: whether a call that is not in the ledger is an error. The file may be read-only.
        max_calls: the maximum number of calls to pay for from now on, including those of other
            processes with the same file; `None` for no limit.
        max_cost: the maximum price of these calls, in the currency of `prices`; `None` for no
            limit. A call under way counts with the price of the longest possible answer.
        max_tokens: the maximum number of tokens of their prompts and answers, as the server reports
            them, otherwise estimated (four characters per token); `None` for no limit. A call under
            way counts with the longest possible answer.
        prices: model to (prompt, completion) per million tokens, or a TSV file with the columns
            ``model``, ``prompt``, ``completion``. The price of other models is unknown.
        retry_unusable: whether to request unusable answers once more: those that the `Generator`
            reads with another status than ``"ok"`` or ``"unknown"``
            (`fairtk.frames.answers.STATUSES`), e.g. because the server had cut the prompt, and
            those without usable keywords. It is not supported for local models, which would give
            the same answer again.
        retry_failed: whether to request prompts once more whose calls failed in a way that cannot
            pass, e.g. because the model refuses the prompt. Other failed calls are always retried.

    Raises:
        ParameterError: a limit is negative or not a number, or the file is part of a package, and
            not `offline`.
        OfflineError: `offline`, and the file does not exist.
        FormatError: the file cannot be opened or is not of this version, or the prices cannot be
            read.
    """

    ARTIFACT_TYPE = "ledger"

    def __init__(
        self,
        path: str | PathLike[str],
        offline: bool = False,
        max_calls: int | None = None,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        prices: PriceTable | str | PathLike[str] | None = None,
        retry_unusable: bool = False,
        retry_failed: bool = False,
    ) -> None:
        self.offline = checks.boolean("offline", offline, "Ledger")
        self.retry_unusable = checks.boolean("retry_unusable", retry_unusable, "Ledger")
        self.budget = Budget(max_calls, max_cost, max_tokens, Prices(prices))
        self.since = now() if retry_unusable else ""
        self.retry_failed = checks.boolean("retry_failed", retry_failed, "Ledger")
        self.failed_since = now() if retry_failed else ""
        self._temperatures: dict[str, list[float | None]] = {}
        self._open(path)
        self.budget.after = self.claims.last_payment()

    def _open(self, path: str | PathLike[str]) -> None:
        if self.offline and not Path(path).exists():
            raise OfflineError(f"{path}: no such ledger, which `offline=True` requires")
        self.path = real_path(path)
        is_packaged = self.path.name == _PACKAGED and artifact_type(self.path.parent) == "ledger"
        if is_packaged and not self.offline:
            raise ParameterError(
                f"{path} is part of a package, which is not changed: use offline=True, or a copy "
                "of the file"
            )
        self.store = AnswerStore(Database(self.path, self.offline, read_only=is_packaged))
        self.claims = Claims(self.store)

    @classmethod
    def load(cls, path: str | PathLike[str], **settings: Any) -> Self:
        """Open a ledger, or the folder of a package.

        Args:
            path: the file, or the folder.
            settings: other arguments of `Ledger`. A package is opened with ``offline=True``; to
                add answers, copy its file.

        Raises:
            FormatError: a file of the package is missing or was changed, or its format is newer
                than this version of fairtk.
        """
        folder = Path(path)
        if not folder.is_dir():
            return cls(path, **settings)
        content, remedy = "a package of a ledger", "download the package again"
        digests = read_manifest(folder, _PACKAGE_FORM, content, remedy)
        checked_file(folder / _PACKAGED, digests.get(_PACKAGED), content, remedy)
        return cls(folder / _PACKAGED, **{"offline": True, **settings})

    def _write_files(self, folder: Path) -> None:
        """Write the files of a package: a ledger with the answers, without payments and claims."""
        self.store.copy_to(folder / _PACKAGED)
        files = {_PACKAGED: file_digest(folder / _PACKAGED)}
        manifest = json.dumps({"form": _PACKAGE_FORM, "files": files}, indent=2)
        (folder / MANIFEST).write_text(f"{manifest}\n", encoding="utf-8")

    @property
    def prices(self) -> Prices:
        """The prices of models."""
        return self.budget.prices

    @property
    def spent(self) -> Spending:
        """The spending of this ledger since it was opened."""
        return self.budget.own

    def recorded(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Return the stored answers by key, except those to request again."""
        return self.store.get(keys, self.since)

    def temperatures(self, model: str) -> list[float | None]:
        """Return the temperatures of a model's answers when they were first needed."""
        if model not in self._temperatures:
            self._temperatures[model] = self.store.temperatures(model)
        return self._temperatures[model]

    def failures(self, keys: Iterable[str]) -> dict[str, Failure]:
        """Return the stored failures by key, except those to request again."""
        recording = stage_context.of_call().recording
        since = max(self.failed_since, recording.failed_since if recording else "")
        reasons = self.store.failures(keys, since)
        return {key: Failure(reason, can_pass=False) for key, reason in reasons.items()}

    def claim(self, llm: ChatModel, calls: Mapping[str, Chat]) -> dict[str, Claim]:
        """Claim calls by key, and return the claims up to the first refused one."""
        most = {key: self.budget.most(llm, chat) for key, chat in calls.items()}
        budget = self.budget if self.budget.limited else None
        return dict(zip(calls, self.claims.claim(most, self.since, budget), strict=False))

    def pay(
        self, llm: ChatModel, calls: Mapping[str, Chat], answers: Mapping[str, Completion]
    ) -> dict[str, Completion]:
        """Commit the answers of claimed calls by key, and return the stored answers."""
        parameters = llm.parameters()
        prices = [
            self.budget.spend(llm, answer, self.budget.most(llm, calls[key]).price)
            for key, answer in answers.items()
        ]
        rows = [
            answer_row(key, llm.name, parameters, calls[key], answer)
            for key, answer in answers.items()
        ]
        tokens = [0 if llm.free else tokens_of(row) for row in rows]
        return {**answers, **self.claims.pay(rows, prices, tokens, self.since)}

    def wrap(self, llm: Any) -> LedgerModel:
        """Return a model behind this ledger.

        Args:
            llm: a `ChatModel`, or any argument of `fairtk.llm.as_chat_model`.

        Raises:
            ParameterError: `max_cost` is set, and the price of the model is unknown; or
                `max_tokens` is set, and the length of its answers has no limit; or
                `retry_unusable` is set, and the model is local.
        """
        return LedgerModel(as_chat_model(llm), self)

    def close(self) -> None:
        """Close the file."""
        if not self.offline:
            self.claims.close()
        self.store.close()

    def __len__(self) -> int:
        return len(self.store)

    def __bool__(self) -> bool:
        return True  # also without answers

    def __getstate__(self) -> dict[str, Any]:
        # another process opens the file again, and shares the budget from its start
        return {k: v for k, v in vars(self).items() if k not in ("store", "claims")}

    def __getattr__(self, name: str) -> Any:
        # another process opens the file on first use
        if name not in ("store", "claims") or "path" not in vars(self):
            raise AttributeError(f"Ledger has no attribute {name!r}")
        self.refuse_on_clusters("a model")
        self._open(self.path)
        return vars(self)[name]

    def refuse_on_clusters(self, what: str) -> None:
        """Raise an `LLMError` about a model on the worker of a cluster, where no file is open."""
        if stage_context.of_call().refuses_ledgers and "store" not in vars(self):
            raise LLMError(
                f"{what} with the ledger {self.path} is called by a worker of a cluster, where "
                "answers cannot be recorded: hold the model in an attribute of a transformer (or a "
                "list, dict or dataclass there), so that the calling process calls it"
            )

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        limits = self.budget.limits
        settings = [f", {k}={v!r}" for k, v in limits.items() if v is not None]
        names = ("offline", "retry_unusable", "retry_failed")
        flags = [f", {name}=True" for name in names if getattr(self, name)]
        return f"Ledger({str(self.path)!r}{''.join(flags + settings)})"


def estimate_all(llm: ChatModel, chats: Sequence[Chat]) -> Estimate:
    """Return the estimate for calls as if no answer were recorded, with the ledger's prices."""
    if isinstance(llm, LedgerModel):
        return estimate(llm.llm, chats, 0, llm.ledger.prices)
    return estimate(llm, chats, 0, Prices())


class LedgerModel(ChatModel):
    """A model behind a ledger, created by `Ledger.wrap`.

    It is equal to the same model behind another ledger: a ledger does not affect answers.

    Args:
        llm: the model.
        ledger: the ledger that stores the answers.
        readers: how answers are read: `retry_unusable` requests those again that one of them cannot
            read. Without readers, an answer is as usable as it was when it was last read.

    Raises:
        ParameterError: the ledger has a `max_cost`, and the price of the model is unknown; or it
            has `max_tokens`, and the length of the model's answers has no limit; or it has
            `retry_unusable`, and the model is local.
    """

    identity_name = "fairtk.LedgerModel"
    output_version = 1

    def __init__(
        self, llm: ChatModel, ledger: Ledger, readers: tuple[AnswerReader, ...] = ()
    ) -> None:
        inner: ChatModel = llm.llm if isinstance(llm, LedgerModel) else llm
        if ledger.budget.max_cost is not None and not ledger.prices.known(inner):
            raise ParameterError(
                f"`max_cost` requires the price of {inner.name!r}, which is unknown; add it to "
                "`prices`, or use `max_calls`"
            )
        if ledger.budget.max_tokens is not None and math.isnan(most_completion_tokens(inner)):
            raise ParameterError(
                f"`max_tokens` of a ledger requires a limit for the answers of {inner.name!r}; set "
                "max_completion_tokens (max_tokens) of the model, or use `max_calls`"
            )
        if ledger.retry_unusable and inner.local:
            raise ParameterError(
                f"`retry_unusable` is not supported for {inner.name!r}: a local model gives the "
                "same answer to the same prompt; change its seed (with a temperature), "
                "max_new_tokens or the prompt"
            )
        self.llm: ChatModel = inner
        self.ledger = ledger
        self.readers = readers

    @property
    def name(self) -> str:
        """The model's name."""
        return self.llm.name

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.llm.tokenizer

    def parameters(self) -> dict[str, Any]:
        """Return the model's parameters."""
        return self.llm.parameters()

    def batches(self, chats: Sequence[Chat]) -> list[list[int]]:
        """Return the model's batches."""
        return self.llm.batches(chats)

    @property
    def concurrency(self) -> int:  # type: ignore[override]
        """The maximum number of calls at a time."""
        return self.llm.concurrency

    def digest(self) -> str:
        """Return the model's digest."""
        return self.llm.digest()

    def __repr__(self) -> str:
        return f"LedgerModel({self.llm!r}, {self.ledger!r})"

    def recorded(self) -> LedgerModel:
        """Return the model itself: all answers are recorded."""
        return self

    def check(self) -> None:
        """Raise an error if the model cannot be called and has no stored answers."""
        if stage_context.of_call().collector is not None and self.writable:
            return
        if not self.ledger.offline and not self.ledger.store.has(self.name):
            self.llm.check()

    @property
    def writable(self) -> bool:
        """Whether the model's requests can be written to batch files."""
        return hasattr(self.llm, "body")

    def at_temperature(self, temperature: float) -> LedgerModel:
        """Return the model at another temperature, behind the same ledger."""
        return LedgerModel(self.llm.at_temperature(temperature), self.ledger, self.readers)

    @property
    def repeats(self) -> str:
        """Why all answers of the model to a prompt are equal; empty if it samples."""
        return self.llm.repeats

    def numbered(self, number: int) -> LedgerModel:
        """Return the model for one of several answers, behind the same ledger."""
        return LedgerModel(self.llm.numbered(number), self.ledger, self.readers)

    def read_by(self, reader: AnswerReader) -> LedgerModel:
        """Return the model whose answers are also read in another way, behind the same ledger."""
        if not self.ledger.retry_unusable or reader in self.readers:
            return self
        return LedgerModel(self.llm, self.ledger, (*self.readers, reader))

    def key(self, chat: Chat) -> str:
        """Return the key of a call in the ledger."""
        return self._keys([chat])[0]

    def reject(self, chat: Chat) -> None:
        """Mark an answer as unusable; see `retry_unusable` of `Ledger`."""
        self.ledger.store.mark({self.key(chat): True})

    def estimate(self, chats: Sequence[Chat]) -> Estimate:
        """Return the number of calls to pay for, their tokens and price, without any call."""
        calls = dict(zip(self._keys(chats), chats, strict=True))
        answers = self._stored(calls)
        missing = [chat for key, chat in calls.items() if key not in answers]
        return estimate(self.llm, missing, len(answers), self.ledger.prices)

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the stored answers, then the new answers as they arrive and are committed.

        Raises:
            OfflineError: a call is not in the ledger, and the ledger is offline.
            BudgetError: the budget does not allow the next call. Earlier answers are recorded.
            DeferredError: calls are in a batch folder, or were just written to one.
            LLMError: no call to the model would succeed.
        """
        chats = list(chats)
        for chat in chats[:1]:
            self.ledger.refuse_on_clusters(f"{self.name!r} (prompt: {chat.text[:80]!r})")
        positions: dict[str, list[int]] = {}
        for position, key in enumerate(self._keys(chats)):
            positions.setdefault(key, []).append(position)
        calls = {key: chats[same[0]] for key, same in positions.items()}
        for key, outcome in self._outcomes(calls):
            yield from ((position, outcome) for position in positions[key])

    def _outcomes(self, calls: Mapping[str, Chat]) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcomes of calls by key."""
        stored = self._stored(calls)
        yield from stored.items()
        missing = {key: chat for key, chat in calls.items() if key not in stored}
        if not missing:
            return
        self._check_temperature(list(missing.values()))
        self._defer_or_refuse(missing)
        if not self.llm.local:
            yield from self._request(missing)
            return
        # batches of all calls, so that a run that is continued has the same ones
        keys = list(calls)
        for batch in self.llm.batches(list(calls.values())):
            part = {keys[i]: missing[keys[i]] for i in batch if keys[i] in missing}
            if part:
                yield from self._request(part)

    def check_temperature(self, chats: Sequence[Chat]) -> None:
        """Raise an error if the ledger has answers to missing calls at another temperature.

        A temperature that the user has set is never refused.

        Raises:
            LLMError: there are such answers.
        """
        if self._other_temperatures():
            calls = dict(zip(self._keys(chats), chats, strict=True))
            stored = self._stored(calls)
            self._check_temperature([chat for key, chat in calls.items() if key not in stored])

    def _other_temperatures(self) -> list[float | None]:
        if self.ledger.offline or not self.llm.has_default_temperature:
            return []
        temperatures = self.ledger.temperatures(self.name)
        return [one for one in temperatures if one != self.parameters().get("temperature")]

    def _check_temperature(self, chats: Sequence[Chat]) -> None:
        parameters = self.parameters()
        for temperature in self._other_temperatures() if chats else ():
            others = {**parameters, "temperature": temperature}
            keys = call_keys(self.name, others, chats, self.llm.reads_facts)
            n_stored = len(self.ledger.store.get(keys))
            if n_stored:
                own = parameters["temperature"]
                raise LLMError(
                    f"{self.ledger.path} has answers of {self.name!r} to {n_stored} of "
                    f"{len(chats)} prompts at temperature={temperature}, but the temperature is "
                    f"now {own:g} by default; set temperature={temperature} to use these answers, "
                    f"or temperature={own:g} to request new ones"
                )

    def _stored(self, calls: Mapping[str, Chat]) -> dict[str, Outcome]:
        """Return the stored answers, and the stored failures of the other calls."""
        if self.readers:
            unusable = {
                key: not all(is_usable(answer, calls[key].text, r) for r in self.readers)
                for key, answer in self.ledger.store.get(calls).items()
            }
            self.ledger.store.mark(unusable)
        answers = self.ledger.recorded(calls)
        failures = self.ledger.failures(key for key in calls if key not in answers)
        return {**answers, **failures}

    def _request(self, calls: dict[str, Chat]) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcomes of calls that were not recorded, of this or of other processes."""
        waited = 0.0
        while calls:
            n_calls, blocked = len(calls), dict[str, Claim]()
            for key, outcome in self._make(dict(calls), blocked):
                del calls[key]
                yield key, outcome
            if len(calls) == n_calls:
                self._raise_if_final(blocked, calls)
                waited += self._wait(waited, blocked)
            else:
                waited = 0.0
            stored = self._stored(calls)
            for key, outcome in stored.items():
                del calls[key]
                yield key, outcome
            waited = 0.0 if stored else waited

    def _keys(self, chats: Iterable[Chat]) -> list[str]:
        return call_keys(self.name, self.parameters(), chats, self.llm.reads_facts)

    def _defer_or_refuse(self, calls: Mapping[str, Chat]) -> None:
        """Raise an error if these calls belong to a batch folder, or the ledger is offline."""
        collector = stage_context.of_call().collector
        if collector is not None and self.writable:
            collector.take(self, calls)
            raise DeferredError(f"{len(calls)} prompts to {self.name!r} have no answer yet")
        if self.ledger.offline:
            raise OfflineError(
                f"{self.ledger.path}: missing answers of {self.name!r} to {len(calls)} prompts, "
                f"the first {next(iter(calls.values())).text[:80]!r}; run without `offline`"
            )

    def _make(
        self, calls: Mapping[str, Chat], blocked: dict[str, Claim]
    ) -> Iterator[tuple[str, Outcome]]:
        """Make the calls that no other process makes, within the budget.

        The claims of the other calls are added to `blocked`, by key.
        """
        keys: list[str] = []  # in the order in which the model gets the calls
        running: set[str] = set()

        def claimed() -> Iterator[Chat]:
            left = iter(calls)
            # claim as many calls as can start, or a batch of a local model
            while batch := list(islice(left, self._n_to_claim(calls, running))):
                claims = self.ledger.claim(self.llm, {key: calls[key] for key in batch})
                mine = [key for key, claim in claims.items() if claim.state == "mine"]
                running.update(mine)
                for key in mine:
                    keys.append(key)
                    yield calls[key]
                states = {key: claim for key, claim in claims.items() if key not in mine}
                blocked.update(states)
                if any(claim.state == "refused" for claim in states.values()):
                    return

        arrivals = self._arrivals(claimed())
        try:
            while True:
                # this model and other models that it calls are not recorded once more
                with stage_context.changed(recording=Recording()):
                    numbered = next(arrivals, None)
                if numbered is None:
                    break
                outcomes = {keys[number]: outcome for number, outcome in numbered}
                answers = {k: one for k, one in outcomes.items() if isinstance(one, Completion)}
                self._release(
                    {k: one for k, one in outcomes.items() if isinstance(one, Failure)}, calls
                )
                if answers:
                    outcomes |= self.ledger.pay(self.llm, calls, answers)
                running -= outcomes.keys()
                yield from outcomes.items()
            for key in list(running):
                yield key, Failure("the model gave no answer")
        except LLMError as error:
            if type(error) is not LLMError:
                raise
            raise LLMError(
                f"{error} ({len(self.ledger)} answers are stored in {self.ledger.path}; the next "
                "run continues with them)"
            ) from None
        finally:
            arrivals.close()
            self.ledger.claims.release(running)

    def _release(self, failures: Mapping[str, Failure], calls: Mapping[str, Chat]) -> None:
        rows = [
            failure_row(key, self.name, calls[key], failure.reason)
            for key, failure in failures.items()
            if not failure.can_pass
        ]
        self.ledger.claims.release(failures, rows)

    def _n_to_claim(self, calls: Collection[str], running: Collection[str]) -> int:
        return len(calls) if self.llm.local else max(1, self.llm.concurrency - len(running))

    def _arrivals(self, chats: Iterable[Chat]) -> Generator[list[tuple[int, Outcome]], None, None]:
        """Yield lists of outcomes to be stored together."""
        if self.llm.local:
            yield list(self.llm.outcomes(chats))
        else:
            yield from self.llm.arrivals(chats)

    def _raise_if_final(self, blocked: Mapping[str, Claim], calls: Mapping[str, Chat]) -> None:
        """Raise an error if other processes will not answer the blocked calls."""
        refused = next((claim for claim in blocked.values() if claim.state == "refused"), None)
        if refused is not None and not refused.running:
            raise BudgetError(
                f"{refused.reason}, so the next call to {self.name!r} is not made; raise the limit "
                f"and run again (all answers so far are in {self.ledger.path})"
            )
        folders = [claim.owner for claim in blocked.values() if claim.state == "batched"]
        if len(folders) == len(calls):
            raise DeferredError(
                f"{len(calls)} prompts to {self.name!r} are already in the batch folder "
                f"{folders[0]}; read its answers (`fairtk prompts read`, `Batches.read`), or drop "
                "it (`fairtk prompts drop`, `Batches.drop`)"
            )

    def _wait(self, waited: float, blocked: Mapping[str, Claim]) -> float:
        """Wait for other processes, longer each time, and return the seconds."""
        seconds = min(_MAX_WAIT, max(_MIN_WAIT, waited / 4))
        time.sleep(seconds)
        owners = {claim.owner for claim in blocked.values() if claim.state == "claimed"}
        owners.discard(process_name())
        if owners and waited < _QUIET <= waited + seconds:
            print(
                f"fairtk: waiting for {len(blocked)} answers that {', '.join(sorted(owners))} "
                f"requested (see {self.ledger.path})",
                file=sys.stderr,
            )
        return seconds
