"""How far the results of two ways to run a model may be apart: what every trial at load goes by."""

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

TOLERANCE = {torch.float32: 1e-2, torch.bfloat16: 0.15, torch.float16: 0.05}
"""How far a row's values may be apart, in standard deviations of all values. Wrong logits differ by 1 and more."""
ROUNDED = 0.05
"""The same where layers round activations to whole numbers: what differs a little may be rounded the other way."""


def rounds_activations(model: nn.Module) -> bool:
    """Whether layers do: then float32's last digits change the text, too."""
    return any(getattr(layer, "rounds_activations", False) for layer in model.modules())


def is_exact(model: PreTrainedModel) -> bool:
    """Whether what a number of rows or of threads changes is float32's last digits, and the text by no means."""
    return model.dtype.itemsize >= 4 and not rounds_activations(model)


def tolerance_of(model: PreTrainedModel) -> float:
    """How far two ways to run this model may be apart."""
    return max(TOLERANCE[model.dtype], ROUNDED if rounds_activations(model) else 0.0)


def is_close(found: Tensor, expected: Tensor, tolerance: float = 0.0) -> bool:
    """Whether each row agrees up to rounding, by its root mean square; 0.0 is the tolerance of the type.

    The largest of millions of logits may be off by more: two units in the last place of bfloat16."""
    rows = (found.float() - expected.float()).square().mean(-1).sqrt()
    return bool(rows.max() / expected.float().std() < (tolerance or TOLERANCE[found.dtype]))
