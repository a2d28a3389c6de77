"""Measures steps and prompts of models with random weights. Steps are eager, with fused layers, recorded as CUDA
graphs, sampled, or with quantised weights."""

from collections.abc import Callable, Generator, Iterator, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import nn
from torch.profiler import profile
from torch.utils.benchmark import Timer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from app.engine.attention import NAME, register
from app.engine.attention.backend_choice import capabilities_of, choose_attention
from app.engine.block.block import chain_block
from app.engine.graphs.graph_trial import choose_steps
from app.engine.layers.fusion_choice import fuse
from app.engine.layers.packed_layers import PackedLinear, packer
from app.engine.layers.packed_weight import GROUP, Numbers
from app.engine.layers.quantisation import quantise
from app.engine.machine.process_memory import is_out_of_memory, release_memory
from app.engine.measuring.step_timing import profile_steps
from app.engine.runner.model_config import Rotary, context_of, heads_of
from app.engine.runner.runner import BlockRunner
from app.errors import first_line
from app.values.messages import Sampling
from app.values.quantisation_sizes import Quantisation
from tools.gpu_report.plan import Plan, Row

KERNELS = 15
"""Number of kernels that are listed for each step."""
QUANTISATIONS: tuple[Quantisation, ...] = ("none", "int8", "int4")
PACKED = {"packed in 4 bits": 4, "packed in 8 bits": 6}
"""Forms of packed weights, and the bits of a number in the file. Numbers of 6 bits are stored in 8."""


def step_times(plan: Plan) -> Iterator[Row]:
    """Yield the milliseconds of a step by its rows, for each of KINDS, and the share of the copy bandwidth."""
    for name in plan.shapes:
        error = yield from _until_out_of_memory(_times_of(plan, name))
        if error:
            yield {"model": name, "error": error}


def _times_of(plan: Plan, name: str) -> Iterator[Row]:
    model = random_model(plan, name)
    runners, _ = _runners(model, plan)
    read, bandwidth = _bytes_of_step(model), copy_bandwidth(plan)
    for rows in plan.step_rows:
        columns = {f"{kind} ms": _step_ms(runner, plan, rows) for kind, runner in runners.items()}
        share = read / (columns["fused graphs ms"] / 1000) / bandwidth
        yield {"model": name, "rows": rows, **columns, "share of copy bandwidth": share}


def _bytes_of_step(model: PreTrainedModel) -> int:
    """Return the bytes of weights that a step reads: all but the embedding, unless it is the head as well."""
    shared = {id(one) for one in model.get_input_embeddings().parameters()}
    head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    tied = {id(one) for one in head.parameters()}
    return sum(one.nbytes for one in model.parameters() if id(one) in tied or id(one) not in shared)


def copy_bandwidth(plan: Plan) -> float:
    """Return how many bytes the device reads and writes per second while it copies a large tensor."""
    source = torch.randint(0, 100, (plan.copied,), dtype=torch.uint8, device=plan.device)
    target = torch.empty_like(source)
    timer = Timer("target.copy_(source)", globals={"target": target, "source": source})
    return 2 * plan.copied / timer.blocked_autorange(min_run_time=plan.seconds).median


SAMPLINGS = {
    "greedy": Sampling(),
    "temperature 0.8": Sampling(0.8),
    "top-k 40, top-p 0.95": Sampling(0.8, top_k=40, top_p=0.95),
    "top-p 0.9": Sampling(0.8, top_p=0.9),
}


def sampled_times(plan: Plan) -> Iterator[Row]:
    """Yield the milliseconds of a step for each number of rows and way of sampling."""
    runners, _ = _runners(random_model(plan, plan.quantised_shape), plan, ("fused graphs",))
    for rows in plan.step_rows:
        columns = {
            f"{name} ms": _step_ms(runners["fused graphs"], plan, rows, sampling)
            for name, sampling in SAMPLINGS.items()
        }
        yield {"model": plan.quantised_shape, "rows": rows, **columns}


def identical_bits(plan: Plan) -> Iterator[Row]:
    """Yield milliseconds by rows, without and with the same text, and which row counts are bitwise identical."""
    runners, _ = _runners(random_model(plan, plan.quantised_shape), plan, ("fused graphs",))
    profile = profile_steps(runners["fused graphs"], lambda _done, _total: None)
    for rows, seconds in zip(profile.free.buckets, profile.free.seconds, strict=True):
        same = next((each for each in profile.bucket_sets if rows in each), ())
        row: Row = {"model": plan.quantised_shape, "rows": rows, "ms": 1000 * seconds}
        if profile.batch_invariant:
            row["same text ms"] = 1000 * profile.batch_invariant.seconds_for(rows)
        yield row | {"bitwise identical to": ", ".join(map(str, same)), "note": profile.note}


def prompt_times(plan: Plan) -> Iterator[Row]:
    """Yield the seconds of reading a prompt, for several lengths."""
    model = random_model(plan, plan.quantised_shape)
    runner = _runners(model, plan, ("fused graphs",))[0]["fused graphs"]
    for length in plan.prompt_lengths:
        ids = torch.randint(runner.vocabulary, (length,)).tolist()
        for _attempt in range(2):  # the first may compile kernels
            runner.forget()
            begin = perf_counter()
            for _ in runner.prefill(ids):
                pass
            int(runner.forward(chain_block(ids[:1], length, (0,))).argmax())  # waits for the device
            seconds = perf_counter() - begin
        yield {
            "model": plan.quantised_shape,
            "tokens": length,
            "seconds": seconds,
            "tokens per second": length / seconds,
        }


def step_kernels(plan: Plan) -> Iterator[Row]:
    """Yield the kernels of a step at few and at many rows: calls and milliseconds, the longest first.

    The model has the first shape that fits into memory. The first rows name the attention and the layers, and
    whether CUDA graphs are used."""
    for name in plan.shapes:
        error = yield from _until_out_of_memory(_kernels_of(plan, name))
        if not error:
            return
        yield {"model": name, "error": error}


def _until_out_of_memory(rows: Iterator[Row]) -> Generator[Row, None, str]:
    """Yield the rows. If memory runs out, free it and return the error; otherwise return ""."""
    try:
        yield from rows
        return ""
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)
    release_memory()
    return reason


def _kernels_of(plan: Plan, name: str) -> Iterator[Row]:
    runners, notes = _runners(random_model(plan, name), plan, ("fused graphs",))
    runner = runners["fused graphs"]
    for note in (*notes, f"CUDA graphs: {runner.steps.note or 'used'}"):
        yield {"model": name, "kernel": note}
    for rows in plan.kernel_rows:
        step = _step(runner, plan, rows)
        with profile(acc_events=True) as profiler:
            step()
        events = profiler.key_averages()
        on_card = [event for event in events if str(event.device_type).endswith("CUDA")]
        for one in sorted(on_card or events, key=_device_us, reverse=True)[:KERNELS]:
            yield {
                "model": name,
                "rows": rows,
                "kernel": one.key[:60],
                "calls": one.count,
                "ms": _device_us(one) / 1000,
            }


def _device_us(event: Any) -> float:
    """Return the event's own microseconds on the GPU; on the CPU if it has none on the GPU."""
    return float(event.self_device_time_total or event.self_cpu_time_total)


def quantised_times(plan: Plan) -> Iterator[Row]:
    """Yield the milliseconds of a step by its rows and the quantisation of the weights."""
    for quantisation in QUANTISATIONS:
        model = random_model(plan, plan.quantised_shape)
        if quantisation != "none":
            quantise(model, quantisation, plan.torch_device)
        yield from _form_times(model, plan, quantisation)
    # The kernels for packed weights on a CPU take float32 alone.
    forms = PACKED if plan.device != "cpu" or plan.dtype == "float32" else {}
    for form, bits in forms.items():
        model = random_model(plan, plan.quantised_shape)
        pack_randomly(model, bits, plan.torch_device)
        yield from _form_times(model, plan, form)


def _form_times(model: PreTrainedModel, plan: Plan, form: str) -> Iterator[Row]:
    runners, _ = _runners(model, plan, ("fused graphs",))
    for rows in plan.step_rows:
        yield {"weights": form, "rows": rows, "ms": _step_ms(runners["fused graphs"], plan, rows)}


def pack_randomly(model: PreTrainedModel, bits: int, device: torch.device) -> None:
    """Replace the model's Linears by layers with random packed weights, with a factor for each GROUP numbers."""
    linears = [(path, one) for path, one in model.named_modules() if isinstance(one, nn.Linear)]
    for path, linear in linears:
        shape = linear.out_features, linear.in_features
        groups = shape[1] // GROUP
        with device:
            values = torch.randint(0, 2**bits, shape, dtype=torch.uint8)
            factors = torch.ones((shape[0], groups), dtype=torch.int8)
            scale = torch.full((shape[0], 1), 1e-4, dtype=torch.float16)
        numbers = Numbers(bits, values, scale, factors=factors)
        model.set_submodule(path, PackedLinear(packer(device)(shape, [numbers]), linear.bias))


def random_model(plan: Plan, name: str) -> PreTrainedModel:
    """Make the model directly on the device, because its weights may not fit into the host's memory."""
    torch.manual_seed(0)
    register()
    settings = dict(plan.shapes[name])
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with plan.torch_device:
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=plan.torch_dtype)  # type: ignore[no-untyped-call]
    model.requires_grad_(False).train(False).set_attn_implementation(NAME)
    return model


KINDS = ("eager", "fused eager", "graphs", "fused graphs")
"""Ways to run a model; on a CPU all of them are eager."""


def _runners(
    model: PreTrainedModel, plan: Plan, kinds: Sequence[str] = KINDS
) -> tuple[dict[str, BlockRunner], list[str]]:
    """Return runners with the same weights, and notes about their attention and their fused layers."""
    config = model.config.get_text_config(decoder=True)
    machine, context = capabilities_of(plan.torch_device), context_of(config)
    attention = choose_attention("auto", machine, heads_of(config, model.dtype))
    fused, rotary = fuse(model, machine, attention.attend), Rotary("fixed", context)

    def runner(kind: str) -> BlockRunner:
        used = fused.model if "fused" in kind else model
        steps = choose_steps(used, attention, rotary, context) if "graphs" in kind else None
        return BlockRunner(used, context, rotary, attention, steps)

    notes = [f"attention: {attention.name} {attention.note}".strip(), fused.note or "layers: torch's kernels"]
    return {kind: runner(kind) for kind in kinds}, notes


def _step_ms(runner: BlockRunner, plan: Plan, rows: int, sampling: Sampling = SAMPLINGS["greedy"]) -> float:
    """Return the milliseconds of a step, from the host's call to the chosen tokens on the host."""
    step = _step(runner, plan, rows, sampling)
    measured = Timer("step()", globals={"step": step}).blocked_autorange(min_run_time=plan.seconds)
    return 1000 * measured.median


def _step(
    runner: BlockRunner, plan: Plan, rows: int, sampling: Sampling = SAMPLINGS["greedy"]
) -> Callable[[], list[int]]:
    """Return a function that runs a step after the plan's context. The steps that warm up have run already."""
    source = torch.Generator().manual_seed(0)
    ids = torch.randint(runner.vocabulary, (plan.context + rows,), generator=source).tolist()
    for _ in runner.prefill(ids[: plan.context]):
        pass
    block = chain_block(ids[plan.context :], plan.context, tuple(range(rows)))

    sample = runner.sampler(sampling)
    positions = [position + 1 for position in block.positions]

    def step() -> list[int]:
        choices = sample(runner.forward(block), 1, positions)
        return [choices.choose(row, range(position)) for row, position in enumerate(positions)]

    for _ in range(runner.steps.warm_up):
        step()
    return step
