"""How far the results of two ways to run a model may be apart: what every trial at load goes by."""

import torch
from torch import Tensor

TOLERANCE = {torch.float32: 1e-2, torch.bfloat16: 0.15, torch.float16: 0.05}
"""How far values may be apart, in standard deviations of all of them. Wrong logits differ by 1 and more."""


def is_close(found: Tensor, expected: Tensor) -> bool:
    """Whether values agree up to rounding."""
    difference = (found.float() - expected.float()).abs().max() / expected.float().std()
    return bool(difference < TOLERANCE[found.dtype])
