"""Language models: chats in, completions out, each answer kept in a ledger.

    from fairtk.llm import Ledger, OpenAICompatible

    llm = Ledger("answers.sqlite").wrap(OpenAICompatible("gpt-4o"))

`OpenAICompatible` talks to any server with OpenAI's protocol, `LocalChat` to models of this machine
and to any object that generates, and `KeywordRefiner` needs no model at all. Importing this package
loads no client and no model.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
