"""Faster beam search for T5, with the answers of transformers.

transformers stores the prompt's keys and values once per beam, copies them whenever beams are
reordered, and adds the mask to the position bias in each layer. Here the beams of a prompt share
one copy, and the sum is computed once per pass: about half the time on a CPU, and a fraction of
the memory.
"""

from __future__ import annotations

from functools import cache
from typing import Any

ATTENTION = "fairtk-beams"
"""The name under which the attention is registered with transformers."""


def shares_beams(model: Any) -> bool:
    """Return whether `shared` supports a model, and set its attention if so.

    Args:
        model: a loaded Hugging Face model.
    """
    if model.config.model_type not in ("t5", "mt5") or not getattr(model, "_supports_sdpa", False):
        return False
    _register()
    model.set_attn_implementation(ATTENTION)
    return True


def shared(model: Any, ids: Any, mask: Any) -> dict[str, Any]:
    """Return the arguments of `model.generate` for prompts that are encoded once for all beams.

    Args:
        model: a model that `shares_beams` accepts.
        ids: token ids of the prompts; shape (n_prompts, longest).
        mask: their attention mask; same shape.
    """
    import torch
    from transformers import DynamicCache

    encoded = model.get_encoder()(input_ids=ids, attention_mask=mask)
    keys = DynamicCache(config=model.config)
    # one decoder step fills the keys of the prompts; the keys of the step itself are dropped
    model.get_decoder()(
        input_ids=torch.full_like(ids[:, :1], model.generation_config.decoder_start_token_id),
        encoder_hidden_states=encoded.last_hidden_state,
        encoder_attention_mask=mask,
        past_key_values=_beam_cache()(DynamicCache(config=model.config), keys),
        use_cache=True,
    )
    prompt_keys = _beam_cache()(DynamicCache(config=model.config), keys)
    return {"encoder_outputs": encoded, "attention_mask": mask, "past_key_values": prompt_keys}


@cache
def _beam_cache() -> Any:
    from transformers import EncoderDecoderCache

    class BeamCache(EncoderDecoderCache):  # type: ignore[misc]
        """A cache that does not move the keys of prompts when beams are reordered."""

        def reorder_cache(self, beam_idx: Any) -> None:
            self.self_attention_cache.reorder_cache(beam_idx)

    return BeamCache


@cache
def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(ATTENTION, _attend)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)


def _attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    position_bias: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Return T5's attention, shape (batch, queries, heads, size), for transformers' interface."""
    import torch

    beams = len(query) // len(key)
    if beams > 1:  # the beams of a prompt are several queries for its keys
        query = query.unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)
        attention_mask = None if attention_mask is None else attention_mask[::beams]
        position_bias = query.new_zeros(())  # T5's cross-attention has no position bias
    bias = _biased(attention_mask, position_bias)
    out = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=bias, scale=scaling
    )
    if beams > 1:
        out = out.unflatten(2, (beams, -1)).transpose(1, 2).flatten(0, 1)
    return out.transpose(1, 2).contiguous(), None


def _biased(mask: Any, bias: Any) -> Any:
    """Return the masked position bias, computed once because all layers share it."""
    import torch

    if mask is None:
        return None if bias.ndim == 0 else bias
    masked = getattr(bias, "masked", None)
    if masked is None:
        masked = torch.where(mask, bias, torch.finfo(bias.dtype).min)
        bias.masked = masked
    return masked
