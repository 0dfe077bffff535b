"""Language models: chats in, completions out, each answer kept in a ledger.

    from fairtk.llm import Ledger, OpenAICompatible

    llm = Ledger("answers.sqlite").wrap(OpenAICompatible("gpt-4o"))

`OpenAICompatible` talks to any server with OpenAI's protocol, `LocalChat` to models of this machine
and to any object that generates, and `KeywordRefiner` needs no model at all. Importing this package
loads no client and no model.
"""

from __future__ import annotations

from fairtk.llm.budget import Estimate, Prices, Spending
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, Message, Outcome
from fairtk.llm.errors import BudgetError, LLMError, OfflineError
from fairtk.llm.keywords import KeywordRefiner
from fairtk.llm.ledger import Ledger
from fairtk.llm.local import ChatBackend, LocalChat, as_chat_model
from fairtk.llm.recorded import Recorded
from fairtk.llm.rows import made_row
from fairtk.llm.server import OpenAICompatible

__all__ = [
    "BudgetError",
    "Chat",
    "ChatBackend",
    "ChatModel",
    "Completion",
    "Estimate",
    "Failure",
    "KeywordRefiner",
    "LLMError",
    "Ledger",
    "LocalChat",
    "Message",
    "OfflineError",
    "OpenAICompatible",
    "Outcome",
    "Prices",
    "Recorded",
    "Spending",
    "as_chat_model",
    "made_row",
]
