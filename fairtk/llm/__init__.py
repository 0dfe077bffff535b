"""Language models: call servers and local models, and record all answers in a ledger.

For example::

    from fairtk.llm import Ledger, OpenAICompatible

    llm = Ledger("answers.sqlite").wrap(OpenAICompatible("gpt-4o"))

`OpenAICompatible` calls any server with OpenAI's protocol, `HuggingFaceSeq2Seq`,
`HuggingFaceCausal` and `CTranslate2Seq2Seq` run models here, `FunctionModel` calls a function, and
`KeywordRefiner` needs no model. All are a `ChatModel`. Importing this package loads no client and
no model.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
