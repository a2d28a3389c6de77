"""Whether a model that is here already fits a device."""

from pathlib import Path

from app.model_messages import Fit, Memory, Precision
from app.models_registry.files.shape import read_shape
from app.models_registry.files.weights import check_model, read_weights
from app.models_registry.fit.estimate import Estimator, judge


def judge_folder(folder: Path, name: str, memory: Memory, precision: Precision, context: int) -> Fit:
    """Whether the model in this folder fits. Raises ModelError when its files make no sense."""
    check_model(folder, name)
    estimator = Estimator(read_shape(folder, name), read_weights(folder, name), memory.device)
    return judge(estimator, memory, precision, context)
