"""How far the results of two ways to run a model may be apart: what every trial at load goes by."""

import torch
from torch import Tensor

TOLERANCE = {torch.float32: 1e-2, torch.bfloat16: 0.15, torch.float16: 0.05}
"""How far a row's values may be apart, in standard deviations of all values. Wrong logits differ by 1 and more."""


def is_close(found: Tensor, expected: Tensor) -> bool:
    """Whether each row agrees up to rounding, by its root mean square.

    The largest of millions of logits may be off by more: two units in the last place of bfloat16."""
    rows = (found.float() - expected.float()).square().mean(-1).sqrt()
    return bool(rows.max() / expected.float().std() < TOLERANCE[found.dtype])
