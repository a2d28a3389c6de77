"""Keeps part of a model in main memory if the GPU has no room for it, by transformers' device_map="auto".

Copying takes far longer than computing, and as long for 64 rows as for one. So lookahead with N tokens per step is
nearly N times as fast as plain decoding."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from transformers import PreTrainedModel

from app.engine.attention.backend_choice import SDPA, capabilities_of, torchs_own
from app.engine.layers.model_trial import reason_against_trees
from app.engine.loading.device_trial import device_fault
from app.engine.loading.kernel_choice import KernelChoice, run_in_chains
from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.weights import Place
from app.engine.machine.device_options import Estimate, RankPlan
from app.engine.machine.hardware import choose_device, choose_dtype, dtype_name, numbered
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import BlockRunner, EagerSteps
from app.engine.text.sandbox import Sandbox
from app.errors import AttentionUnavailable, BadOption
from app.system.machine import ram
from app.values.messages import ModelChoice, ModelFolder, Progress
from app.values.model import Fit, copying_words, gigabytes

_OWN = "part of the model is in main memory"
_OTHER = "leave --offload out"


def check_can_offload(folder: ModelFolder, choice: ModelChoice, plan: RankPlan) -> None:
    """Raise BadOption, before anything is read, if no part of this model can stay in main memory."""
    if plan.torchrun or len(plan.devices) > 1:
        raise BadOption("--offload is for one GPU: use one device.")
    if choose_device(choice.device, fault_of=device_fault).device.type != "cuda":
        raise BadOption(
            f"No CUDA device is used here, so the whole model is in main memory anyway: {_OTHER}."
        )
    if find_spec("accelerate") is None:
        raise BadOption("--offload needs the package accelerate: run pip install accelerate.")
    if choice.quantisation not in ("auto", "none"):
        raise BadOption(
            "Quantised weights cannot be divided between GPU and main memory: "
            f"{_OTHER}, or leave --quantisation out."
        )
    if folder.path.is_file():
        raise BadOption(
            f"A GGUF file cannot be divided between GPU and main memory: {_OTHER}, or use the model's safetensors."
        )
    if choice.attention not in ("auto", "sdpa"):
        raise AttentionUnavailable(choice.attention, _OWN)


def load_in_part(
    folder: ModelFolder,
    drafts: Sequence[ModelFolder],
    choice: ModelChoice,
    sandbox: Sandbox | None,
    estimate: Estimate,
    progress: Progress,
) -> LoadedModel:
    """Load the model, with as much of it on the GPU as fits together with the draft model.

    If a part stays in main memory, a note says so. Raises AppError, and errors of memory and of the device."""
    device = numbered(choose_device(choice.device, fault_of=device_fault).device)
    precision = dtype_name(choose_dtype(choice.dtype, device))
    draft = drafts[0].path if drafts else None
    fit = estimate(folder, precision, str(device), choice.context, draft=draft)
    if fit is None:
        raise BadOption(
            f"The memory for {folder.name} cannot be estimated here, so the model cannot be divided between the "
            f"GPU and main memory: {_OTHER}."
        )
    if fit.verdict == "fits":
        return load(folder, choice, sandbox, progress=progress)
    check_room(folder, fit, ram().free)
    progress(f"Loading {folder.name}. About {copying_words(fit.offloaded)}", 0, 0)
    place = part_on_gpu(fit.room)
    loaded = load(
        folder, choice, sandbox, reads_heads=False, place=place, choose=run_in_part, progress=progress
    )
    note = f"{copying_words(loaded.info.offloaded)}."
    return replace(loaded, info=loaded.info.with_note("device", note))


def check_room(folder: ModelFolder, fit: Fit, free: int) -> None:
    """Raise BadOption if not even a part fits the GPU, or if the rest does not fit main memory (`free` bytes)."""
    if not fit.offloaded:
        raise BadOption(
            f"{folder.name} is too large for {fit.memory.device} even with part of it in main memory: choose a "
            "smaller model, a shorter context, or no draft model."
        )
    if fit.offloaded > free:
        raise BadOption(
            f"{gigabytes(fit.offloaded)} of {folder.name} would stay in main memory, of which {gigabytes(free)} "
            "are free: choose a smaller model, or --quantisation int4 without --offload."
        )


def part_on_gpu(room: int) -> Place:
    """Return a Place that lets accelerate fill `room` bytes of the GPU and keep the rest in main memory."""
    return lambda _config, device: {
        "device_map": "auto",
        "max_memory": {device.index: room, "cpu": ram().total},
    }


def run_in_part(model: PreTrainedModel, _choice: ModelChoice, context: int) -> KernelChoice:
    """Return a runner of blocks with torch's kernels, or a runner of chains if the model cannot check trees.

    Raises BadOption if even the embedding, whose device gets a step's inputs, does not fit the GPU."""
    if model.device.type == "meta":
        raise BadOption("The GPU has no room even for this model's embedding: choose a smaller model.")
    if reason := reason_against_trees(model, SDPA.attend):
        return run_in_chains(model, context, reason)
    attention = torchs_own(capabilities_of(model.device), _OWN)
    steps = EagerSteps(model, attention, _OWN if model.device.type == "cuda" else "")
    runner = BlockRunner(model, context, rotary_of(model.config, context), attention, steps)
    return KernelChoice(runner, attention, {"fused": f"Layers keep torch's kernels: {_OWN}."})
