"""Models with fused layers on any device: the app makes them on cards alone."""

from transformers import PreTrainedModel

from app.engine.layers.fused_modules import LayerKernels
from app.engine.layers.fusion_choice import fuse_by
from app.engine.loading.loading import LoadedModel
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import BlockRunner
from tests.engine.architectures import BRANCHING, Architecture


def named(name: str) -> Architecture:
    """The architecture of the zoo with this name."""
    return next(each for each in BRANCHING if each.name == name)


def fused_model(loaded: LoadedModel, kernels: LayerKernels) -> PreTrainedModel:
    runner = loaded.runner
    assert isinstance(runner, BlockRunner)
    # Few rows: triton's interpreter takes long.
    return fuse_by(kernels, runner.model, runner.attention.attend, rows=(3,)).model


def fused_runner(loaded: LoadedModel, kernels: LayerKernels) -> BlockRunner:
    """The loaded model's runner, but for its layers."""
    runner, model = loaded.runner, fused_model(loaded, kernels)
    assert isinstance(runner, BlockRunner)
    rotary = rotary_of(model.config.get_text_config(decoder=True), runner.context)
    return BlockRunner(model, runner.context, rotary, runner.attention)
