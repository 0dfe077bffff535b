"""The training loss of the tiny model: the answer, and hints at the way to it.

Besides the answer, three things are supervised, which a reader of the prompt does as well: what
each text is about (its theme, from the second layer's state at the entry's tag and at the end of
the question), which entries match the question (the first head of the last encoder layer looks
from the end at the tags of the entries with the question's theme, or at the end itself), and where
the answer is read (the decoder looks at the end). The hints cost nothing at use: the theme's
classifier is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from demo_model.examples import Example
from demo_model.grammar import Grammar

THEME_LAYER = 2
"""The encoder layer after which a text's theme is asked for."""
THEME_WEIGHT = 0.5
LOOK_WEIGHT = 0.3
_SMALLEST = 1e-6


@dataclass(frozen=True)
class Losses:
    """Losses of one batch, as scalars with gradients.

    Attributes:
        answer: cross-entropy of the answer's tokens.
        theme: cross-entropy of the themes.
        look: negative log attention on the matching entries.
        read: negative log attention of the decoder on the end of the prompt.
    """

    answer: torch.Tensor
    theme: torch.Tensor
    look: torch.Tensor
    read: torch.Tensor

    @property
    def total(self) -> torch.Tensor:
        """The weighted sum that is minimized."""
        return self.answer + THEME_WEIGHT * self.theme + LOOK_WEIGHT * (self.look + self.read)


class Supervision:
    """Computes the losses of a batch.

    Args:
        tokenizer: the model's; every tag is one token.
        grammar: themes and tags.
    """

    def __init__(self, tokenizer: Any, grammar: Grammar) -> None:
        self.tokenizer = tokenizer
        self.answers = {tag: tokenizer(tag)["input_ids"] for tag in grammar.tags}
        self.tag_ids = torch.tensor([ids[0] for ids in self.answers.values()])
        self.is_id = tokenizer("is")["input_ids"][0]

    def losses(self, model: Any, classifier: Any, examples: Sequence[Example]) -> Losses:
        """Run the model on a batch.

        Args:
            model: a ``T5ForConditionalGeneration`` with eager attention.
            classifier: linear, from the model's width to the themes.
            examples: the batch.
        """
        batch = self.tokenizer([e.prompt for e in examples], return_tensors="pt", padding=True)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        labels = torch.tensor([self.answers[e.answer] for e in examples])
        out = model(
            input_ids=ids,
            attention_mask=mask,
            labels=labels,
            output_hidden_states=True,
            output_attentions=True,
        )
        rows = torch.arange(len(examples))
        end = mask.sum(1) - 1
        tags = self._entry_tags(ids)
        entry_themes = torch.tensor([t for e in examples for t in e.entry_themes], dtype=torch.long)
        themes = torch.tensor([e.theme for e in examples])

        states = out.encoder_hidden_states[THEME_LAYER]
        told = classifier(torch.cat([states[tags], states[rows, end]]))
        theme = functional.cross_entropy(told, torch.cat([entry_themes, themes]))

        target = torch.zeros_like(tags)
        counts = torch.tensor([len(e.entry_themes) for e in examples])
        target[tags] = entry_themes == themes.repeat_interleave(counts)
        nothing = ~target.any(1)
        target[rows[nothing], end[nothing]] = True
        seen = (out.encoder_attentions[-1][rows, 0, end] * target).sum(1)
        read = out.cross_attentions[-1][rows, :, 0, end]
        return Losses(out.loss, theme, _cost(seen), _cost(read))

    def _entry_tags(self, ids: torch.Tensor) -> torch.Tensor:
        """Where the tags of the entries are: a tag's token after "is"."""
        before = torch.roll(ids, 1, dims=1) == self.is_id
        return before & torch.isin(ids, self.tag_ids)


def _cost(attention: torch.Tensor) -> torch.Tensor:
    return -attention.clamp_min(_SMALLEST).log().mean()
