"""Steps of models with random weights: eager, with fused layers, as CUDA graphs, and with quantised weights."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.profiler import profile
from torch.utils.benchmark import Timer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from app.engine.attention import NAME, register
from app.engine.attention.selector import capabilities_of, choose_attention
from app.engine.block import chain_block
from app.engine.fused_layers.fuse import fuse
from app.engine.loading import context_of, heads_of
from app.engine.quantising import check_can_quantise, quantise
from app.engine.rotary import Rotary
from app.engine.runner import BlockRunner
from app.engine.step_graphs import choose_steps
from app.quantisation import Quantisation
from tools.gpu_report.plan import Plan, Row

KERNELS = 15
"""Lines for each step."""
QUANTISATIONS: tuple[Quantisation, ...] = ("none", "int8", "int4")


def step_times(plan: Plan) -> Iterator[Row]:
    """Milliseconds of a step by its rows: eager or as graphs, with torch's or with fused layers."""
    for name in plan.shapes:
        model = random_model(plan, name)
        runners = _runners(model, plan)
        for rows in plan.step_rows:
            columns = {f"{kind} ms": _step_ms(runner, plan, rows) for kind, runner in runners.items()}
            yield {"model": name, "rows": rows, **columns}


def step_kernels(plan: Plan) -> Iterator[Row]:
    """The kernels of the first shape's step at few and at many rows: calls and milliseconds, the longest first.

    The first row says whether steps are recorded, or why not."""
    name = next(iter(plan.shapes))
    runner = list(_runners(random_model(plan, name), plan).values())[-1]
    yield {"model": name, "kernel": f"CUDA graphs: {runner.steps.note or 'used'}"}
    for rows in plan.kernel_rows:
        step = _step(runner, plan, rows)
        with profile() as profiler:
            step()
        found = sorted(profiler.key_averages(), key=_device_us, reverse=True)[:KERNELS]
        for one in found:
            yield {
                "model": name,
                "rows": rows,
                "kernel": one.key[:60],
                "calls": one.count,
                "ms": _device_us(one) / 1000,
            }


def _device_us(event: Any) -> float:
    """Its own microseconds on the card; on the CPU where it ran there alone."""
    return float(event.self_device_time_total or event.self_cpu_time_total)


def quantised_times(plan: Plan) -> Iterator[Row]:
    """Milliseconds of a step by its rows and the bits of the weights. Raises BadOption without torchao."""
    check_can_quantise("int8")
    for quantisation in QUANTISATIONS:
        model = random_model(plan, plan.quantised_shape)
        if quantisation != "none":
            quantise(model, quantisation, plan.torch_device)
        runner = list(_runners(model, plan).values())[-1]
        for rows in plan.step_rows:
            yield {"weights": quantisation, "rows": rows, "ms": _step_ms(runner, plan, rows)}


def random_model(plan: Plan, name: str) -> PreTrainedModel:
    """The model made on the device, so that the host never holds its weights."""
    torch.manual_seed(0)
    register()
    settings = dict(plan.shapes[name])
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with plan.torch_device:
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=plan.torch_dtype)  # type: ignore[no-untyped-call]
    model.requires_grad_(False).train(False).set_attn_implementation(NAME)
    return model


def _runners(model: PreTrainedModel, plan: Plan) -> dict[str, BlockRunner]:
    """The same weights run in several ways; on a CPU all of them are eager."""
    config = model.config.get_text_config(decoder=True)
    machine, context = capabilities_of(plan.torch_device), context_of(config)
    attention = choose_attention("auto", machine, heads_of(config, model.dtype))
    fused, rotary = fuse(model, machine, attention.attend).model, Rotary("fixed", context)
    return {
        "eager": BlockRunner(model, context, rotary, attention),
        "fused eager": BlockRunner(fused, context, rotary, attention),
        "graphs": BlockRunner(
            model, context, rotary, attention, choose_steps(model, attention, rotary, context)
        ),
        "fused graphs": BlockRunner(
            fused, context, rotary, attention, choose_steps(fused, attention, rotary, context)
        ),
    }


def _step_ms(runner: BlockRunner, plan: Plan, rows: int) -> float:
    """One block behind the context, from the host's call to the chosen tokens on the host."""
    step = _step(runner, plan, rows)
    measured = Timer("step()", globals={"step": step}).blocked_autorange(min_run_time=plan.seconds)
    return 1000 * measured.median


def _step(runner: BlockRunner, plan: Plan, rows: int) -> Callable[[], list[int]]:
    """A step behind the context, warmed up."""
    source = torch.Generator().manual_seed(0)
    ids = torch.randint(runner.vocabulary, (plan.context + rows,), generator=source).tolist()
    for _ in runner.prefill(ids[: plan.context]):
        pass
    block = chain_block(ids[plan.context :], plan.context, tuple(range(rows)))

    def step() -> list[int]:
        tokens: list[int] = runner.forward(block).argmax(dim=-1).tolist()
        return tokens

    for _ in range(runner.steps.warm_up):
        step()
    return step
