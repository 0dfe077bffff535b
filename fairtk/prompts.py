"""Prompt builders: a question and ranked documents in, one prompt out."""

from __future__ import annotations

from fairtk.llm.prompts import Entry, Prompt, PromptBuilder, get

__all__ = ["Entry", "Prompt", "PromptBuilder", "get"]
