"""Cuts the array of token ids into rows of the context's length, and yields the rows in a random order."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

HELD_OUT_ROWS = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """inputs, targets: [rows, length]; targets are the inputs shifted by one token."""

    inputs: Tensor
    targets: Tensor


def held_out(ids: Tensor, length: int) -> Batch:
    """Return the last rows of the text, which no training batch contains."""
    tail = ids[-HELD_OUT_ROWS * length - 1 :].long()
    return Batch(tail[:-1].view(-1, length), tail[1:].view(-1, length))


def training_batches(ids: Tensor, length: int, rows: int) -> Iterator[Batch]:
    """Yield batches without end, in another order in each epoch, without the incomplete last batch of an epoch.

    Raises ValueError if the text has too few rows for a batch."""
    num_rows = (len(ids) - 1) // length - HELD_OUT_ROWS
    if num_rows < rows:
        raise ValueError(f"the text must have at least {rows} rows of {length} tokens, got {num_rows}")
    step = 0
    while True:
        order = np.random.default_rng(step).permutation(num_rows)
        for start in range(0, num_rows - rows + 1, rows):
            yield _batch(ids, length, order[start : start + rows])
            step += 1


def _batch(ids: Tensor, length: int, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Batch:
    texts = [ids[row * length : (row + 1) * length + 1].long() for row in rows.tolist()]
    return Batch(torch.stack([t[:-1] for t in texts]), torch.stack([t[1:] for t in texts]))
