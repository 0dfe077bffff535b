"""What goes wrong with language models, as exceptions."""

from __future__ import annotations

from fairtk.errors import FairtkError, InputError


class LLMError(FairtkError):
    """A language model cannot be used at all: no call to it would succeed."""


class BudgetError(LLMError):
    """The next call would exceed ``max_calls`` or ``max_cost``.

    All answers that were paid for are in the ledger: with a larger budget the same work goes on
    where it stopped.
    """


class OfflineError(InputError):
    """An answer is not in the ledger, and ``offline=True`` forbids to ask for it."""
