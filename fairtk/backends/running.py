"""The loop over batches of texts: the longest first, halved where memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fairtk.backends.batching import cost, plan_batches
from fairtk.backends.memory import is_out_of_memory
from fairtk.errors import ModelError
from fairtk.frames.arrays import IntArray


def in_batches(
    lengths: IntArray,
    most: int,
    new_tokens: int,
    run: Callable[[IntArray], Any],
    device: Any,
    name: str,
    remedy: str,
) -> Iterator[tuple[IntArray, Any]]:
    """Yield the numbers of each batch's texts and what `run` made of them.

    Args:
        lengths: tokens of each text; shape (n,).
        most: the largest `cost` of a batch; halved, and the batch tried again, when memory runs
            out.
        new_tokens: tokens that each answer may have; 0 where nothing is generated.
        run: does a batch; never returns None.
        device: the torch device that `run` uses.
        name: the model's, for messages.
        remedy: what to do where memory does not hold one text.

    Raises:
        ModelError: memory does not hold one text.
    """
    from tqdm import tqdm

    waiting = plan_batches(lengths, most, new_tokens)[::-1]
    # disable=None: a bar on a terminal only; delay: only for work that takes a while
    bar = tqdm(total=len(lengths), desc=name, unit="text", delay=2, disable=None, leave=False)
    with bar:
        while waiting:
            batch = waiting.pop()
            price = cost(len(batch), int(lengths[batch].max()), new_tokens)
            output = None
            if len(batch) == 1 or price <= most:
                output = _unless_memory_runs_out(run, batch, device)
            if output is not None:
                yield batch, output
                bar.update(len(batch))
            elif len(batch) == 1:
                raise ModelError(
                    f"memory on {device} does not hold one prompt of {lengths[batch[0]]} tokens "
                    f"for {name!r}: {remedy}"
                )
            else:
                most = min(most, max(1, price // 2))
                middle = len(batch) // 2
                waiting += [batch[middle:], batch[:middle]]


def _unless_memory_runs_out(run: Callable[[IntArray], Any], batch: IntArray, device: Any) -> Any:
    import torch

    try:
        with torch.inference_mode():
            return run(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return None
