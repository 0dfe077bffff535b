"""One call to a server: its attempts, its form, and what each kind of failure means."""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Iterable, Mapping
from threading import Event
from typing import Any

from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, Outcome, escaped
from fairtk.llm.errors import LLMError
from fairtk.llm.forms import CallForm, refused_parameter
from fairtk.llm.replies import BrokenReplyError, detail, one_line, read_reply, without_keys
from fairtk.llm.retries import LONGEST_WAIT, Streak, backoff, retry_after

OPENAI_URL = "https://api.openai.com/v1"
MOST_FAILURES = 5
"""Calls in a row that fail with all their attempts: the server counts as dead."""

_TRY_AGAIN = (408, 409, 425, 429)


class ServerModel(ChatModel):
    """A model behind a server: the base of `OpenAICompatible`, which documents the settings."""

    model: str
    base_url: str | None
    api_key_env: str | None
    timeout: float
    retries: int
    backoff: float
    _streak: Streak
    _form: CallForm

    def sent_parameters(self) -> dict[str, Any]:
        """Return `parameters` as the server takes them."""
        return self._form.of(self.parameters())

    @property
    def refused(self) -> tuple[str, ...]:
        """What the server refused to take so far."""
        return self._form.refused

    def learn(self, refused: Iterable[str]) -> None:
        """Be told what the server refused earlier."""
        self._form.learn(refused)

    def _ask(self, client: Any, chat: Chat, stopped: Event) -> Outcome:
        """Return the outcome of one call with its retries, in a form that the server takes."""
        rng = random.Random()  # waits only: no result depends on it
        reason = "not tried"
        # of a server that just failed every attempt of a call, less is to be hoped for
        retries = min(self.retries, 1) if self._streak.count else self.retries
        for attempt in range(retries + 1):
            patience = self._streak.patience(self.timeout, attempt)
            if not patience:
                return self._failed(f"{reason} ({attempt} attempts)", stopped)
            begin = time.perf_counter()
            try:
                reply = self._send_in_form(client, chat, patience)
                self._streak.heard = True
                found = read_reply(reply, time.perf_counter() - begin)
                self._streak.end()
                return self._without_key(found)
            except BrokenReplyError as error:
                if attempt == retries and error.kept is not None:
                    self._streak.end()
                    return self._without_key(error.kept)
                said = self._hidden(one_line(str(error)))
                reason, again, asked = f"the response is not a chat completion ({said})", True, None
            except Exception as error:
                reason, again, asked = self._judge(error, patience)
            if not again:  # the server is there, and refuses this prompt
                self._streak.end()
                return Failure(f"{self.model!r}: {reason}")
            if (asked or 0.0) > LONGEST_WAIT:
                return self._failed(reason, stopped)
            if attempt < retries and stopped.wait(backoff(self.backoff, attempt, asked, rng)):
                return Failure(f"{self.model!r}: stopped while waiting to try again ({reason})")
        return self._failed(f"{reason} ({retries + 1} attempts)", stopped)

    def _failed(self, reason: str, stopped: Event) -> Failure:
        """Return the failure of a call that the server is to blame for; the last in a row ends
        all.
        """
        if self._streak.add() >= MOST_FAILURES and not stopped.is_set():
            stopped.set()
            raise LLMError(
                f"stopped: {MOST_FAILURES} calls in a row to {self.base_url or OPENAI_URL} failed, "
                f"the last to {self.model!r} with: {reason}; the server seems to be down: run "
                "again when it answers (with a ledger, no answer so far is asked for again)"
            )
        return Failure(f"{self.model!r}: {reason}")

    def _send_in_form(self, client: Any, chat: Chat, patience: float) -> bytes:
        """Send a call; without what the server refuses, as soon as it says so."""
        while True:
            sent = {k: v for k, v in self.sent_parameters().items() if v is not None}
            try:
                return self._send(client, chat, patience, sent)
            except Exception as error:
                refused = refused_parameter(error, sent)
                if refused is None:
                    raise
                self._form.learn([refused])  # each once, so that this ends

    def _send(self, client: Any, chat: Chat, patience: float, sent: Mapping[str, Any]) -> bytes:
        response = client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=[{"role": m.role, "content": escaped(m.content)} for m in chat.messages],
            **sent,
            **({} if patience == self.timeout else {"timeout": patience}),
        )
        content: bytes = response.content
        return content

    def _without_key(self, found: Completion) -> Completion:
        """Return an answer; one that is no text, and may repeat what was sent, without the key."""
        if found.finish != "unreadable":
            return found
        return dataclasses.replace(found, text=self._hidden(found.text))

    def _judge(self, error: Exception, patience: float) -> tuple[str, bool, float | None]:
        """Return what happened, whether to try again, and the wait that the server asks for.

        What no other call would do better at is raised, as an `LLMError`.
        """
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            self._streak.heard = True
            said = self._hidden(detail(error))
            server = self.base_url or OPENAI_URL
            if status in (401, 403):
                # its text often repeats a part of the key
                raise LLMError(
                    f"the server {server} refuses the key in {self.api_key_env!r} for the model "
                    f"{self.model!r} (status {status}): set a valid key"
                ) from None
            if status == 404:
                raise LLMError(
                    f"the server {server} does not know the model {self.model!r} (status 404: "
                    f"{said}): check model and base_url"
                ) from None
            headers = getattr(getattr(error, "response", None), "headers", {})
            again = status in _TRY_AGAIN or status >= 500
            return f"status {status}: {said}", again, retry_after(headers)
        kind = type(error).__name__
        if kind == "APITimeoutError":
            return f"no answer within {patience:.3g} s", True, None
        if kind == "APIConnectionError":
            return f"no connection to {self.base_url or OPENAI_URL}", True, None
        # whatever else goes wrong is the end of this call, not of the work
        said = self._hidden(one_line(str(error)))
        return f"{kind}: {said}", kind.startswith("API"), None

    def _hidden(self, text: str) -> str:
        """Return a server's text without anything that looks like a key."""
        return without_keys(text, os.environ.get(self.api_key_env or "", ""))
