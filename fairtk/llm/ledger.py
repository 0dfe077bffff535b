"""The ledger: no answer is paid for twice, none is lost, and a budget is kept."""

from __future__ import annotations

from os import PathLike
from typing import Any

from fairtk.llm.account import Account
from fairtk.llm.budget import Budget, Prices, PriceTable
from fairtk.llm.local import as_chat_model
from fairtk.llm.recorded import Recorded


class Ledger(Account):
    """Keeps every answer of a language model in a file, and answers equal calls from it.

        llm = Ledger("answers.sqlite", max_calls=500).wrap(OpenAICompatible("gpt-4o"))

    Calls are equal when model, parameters and prompt are. Each answer is committed before it is
    used, so a killed run goes on where it stopped. Equal calls at the same time are made once, in
    all threads and processes that have the file open: the others wait for the answer. The file
    holds prompts and answers, and no keys.

    Args:
        path: the SQLite file; made when it is not there. A file that is damaged or of another
            version is kept under another name, with a warning, and what it holds is taken over.
        offline: whether a call that is not in the ledger is an error.
        max_calls: the most calls to pay for from now on, those of other processes with the same
            file included; None: any number.
        max_cost: the most money to pay from now on, counted likewise, in the currency of `prices`;
            None: any. Before a call its answer, and those of the calls that still run, are counted
            as long as can be; near the limit fewer calls run at a time.
        prices: model to (prompt, completion) per million tokens, or a TSV file with the columns
            ``model``, ``prompt``, ``completion``. What is not listed has no known price.
        retry_unusable: whether to ask once more for answers that are there and of no use: refused,
            cut off, unreadable, or rejected by who read them.

    Raises:
        ParameterError: a limit is negative or no number.
        OfflineError: `offline`, and there is no such file.
        FormatError: the file cannot be opened, or the prices cannot be read.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        offline: bool = False,
        max_calls: int | None = None,
        max_cost: float | None = None,
        prices: PriceTable | str | PathLike[str] | None = None,
        retry_unusable: bool = False,
    ) -> None:
        super().__init__(path, Budget(max_calls, max_cost, Prices(prices)), offline, retry_unusable)

    def wrap(self, llm: Any) -> Recorded:
        """Return a model behind this ledger.

        Args:
            llm: a `ChatModel`, or what `fairtk.llm.as_chat_model` takes: a backend, a function.

        Raises:
            ParameterError: `max_cost` is given, but no price for the model.
        """
        return Recorded(as_chat_model(llm), self)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        limits = {"max_calls": self.budget.max_calls, "max_cost": self.budget.max_cost}
        shown = "".join(f", {k}={v!r}" for k, v in limits.items() if v is not None)
        flags = [f", {n}=True" for n in ("offline", "retry_unusable") if getattr(self, n)]
        return f"Ledger({str(self.path)!r}{''.join(flags)}{shown})"
