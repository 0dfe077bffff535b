"""Prompt builders: a question and ranked documents in, one prompt out.

A builder is any object with ``fields`` (the document columns it reads), ``name`` and
``builder(question, documents, tokenizer) -> str``. Built-in and plugin builders are found by name:

    fairtk.prompts.get("lamp-4")
    fairtk.prompts.get("lamp-4", truncate="fair-rag")
    fairtk.prompts.get("template", template="{documents} {question}")
"""

from __future__ import annotations

from fairtk.prompts.builder import Prompt, PromptBuilder
from fairtk.prompts.lookup import as_builder, get
from fairtk.prompts.truncation import Entry

__all__ = ["Entry", "Prompt", "PromptBuilder", "as_builder", "get"]
