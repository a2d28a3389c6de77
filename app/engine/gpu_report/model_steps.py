"""Whole steps of one model shape: by rows, as plain and lookahead decode, and as transformers generates.

A step is timed as a decoder takes it: the block goes to the runner, the chosen tokens come back to the host.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import Any

import torch

from app.engine import attention
from app.engine.batched_sampling import sampler_for
from app.engine.block import chain_block
from app.engine.decoders import make_decoder
from app.engine.generation import generate
from app.engine.gpu_report.attention_times import copy_finding
from app.engine.gpu_report.findings import Finding
from app.engine.gpu_report.gauge import Gauge, Times, in_turn, times_of
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.shapes import ModelShape, Shaped, random_model, shaped
from app.engine.lookahead.experience import Experience
from app.engine.lookahead.factory import Known
from app.engine.probing import probe
from app.engine.step import Step
from app.engine.step_times import StepProfile, choose_class
from app.engine.stopping import Stopper
from app.messages import Decoding, Sampling

LANES = {
    "plain": Decoding("plain"),
    "lookahead, W15 N5 G15": Decoding("lookahead", 15, 5, 15),
    "auto, 128 rows": Decoding("auto", rows=128),
}
LOOKAHEAD_ROWS = 64
"""Rows at which lookahead's cost of the same text is told."""
GENERATED = (1, 25)
"""Tokens of generate's short and long run: the difference is of steps alone."""
GENERATE_ROUNDS = 4


def model_steps(shape: ModelShape, plan: Plan, gauge: Gauge) -> Iterator[Finding]:
    """Everything about one shape; what is judged comes first."""
    copied = gauge.bandwidth()
    yield copy_finding(shape.name, copied)
    model = shaped(random_model(shape, gauge.device, plan.torch_dtype), shape.name)
    yield Finding("model", {"shape": shape.name}, {"bytes": model.bytes, **asdict(model.loaded.info)})
    # Before steps of all widths are taken: what they leave behind in memory would count as plain's.
    yield from _decoding(model, plan, gauge, copied)
    yield from step_times(model, plan, gauge, copied)
    yield _generate(model, plan, gauge)
    yield _same_text(model)


def step_times(
    model: Shaped, plan: Plan, gauge: Gauge, copied: float, what: str = "step"
) -> Iterator[Finding]:
    """Blocks of each width behind the context, in turn."""
    ids = _ids(model, plan.context + max(plan.step_rows))
    _prefill(model, ids[: plan.context])
    runs = [partial(_step, model, ids, plan.context, rows) for rows in plan.step_rows]
    for rows, took in zip(plan.step_rows, in_turn(gauge, runs, plan.rounds), strict=True):
        numbers = _step_numbers(model, plan.context + rows, took, copied)
        yield Finding(what, {"shape": model.loaded.info.name, "rows": rows}, numbers)
    model.runner.forget()


def _step_numbers(model: Shaped, positions: int, took: Times, copied: float) -> dict[str, Any]:
    read = model.read_bytes(positions)
    return {"ms": took.to_json(), "bytes": read, "share_of_copy": read / took.median / copied}


def _step(model: Shaped, ids: list[int], start: int, rows: int) -> None:
    block = chain_block(ids[start : start + rows], start, wanted=tuple(range(rows)))
    model.runner.forward(block).argmax(dim=-1).tolist()


def _ids(model: Shaped, count: int) -> list[int]:
    source = torch.Generator().manual_seed(0)
    return [int(each) for each in torch.randint(model.runner.vocabulary, (count,), generator=source)]


def _prefill(model: Shaped, ids: list[int]) -> None:
    model.runner.forget()
    for _ in model.runner.prefill(ids):
        pass


def _decoding(model: Shaped, plan: Plan, gauge: Gauge, copied: float) -> Iterator[Finding]:
    """Each lane's steps and its memory; plain comes first, so what the others take more is theirs."""
    plain_peak = 0
    for lane, decoding in LANES.items():
        # The first reply fills pools and records graphs; it is measured for memory, the second for time.
        model.runner.forget()
        gauge.used()
        peaks, steps = [], []
        for _ in range(2):
            steps = _write(model, plan, decoding, gauge)
            peaks.append(gauge.peak())
        took = times_of([seconds for seconds, _ in steps])
        rows = sum(step.rows for _, step in steps) / len(steps)
        plain_peak = plain_peak or max(peaks)
        yield Finding(
            "decoding",
            {"shape": model.loaded.info.name, "lane": lane},
            {
                **_step_numbers(model, plan.context + round(rows), took, copied),
                "rows_per_step": rows,
                "peak_bytes": max(peaks),
                "extra_share": max(0, max(peaks) - plain_peak) / model.bytes if plain_peak else None,
            },
        )


def _write(model: Shaped, plan: Plan, decoding: Decoding, gauge: Gauge) -> list[tuple[float, Step]]:
    """A reply behind the context: each step and its seconds. The peak of memory is of its steps alone."""
    info = model.loaded.info
    stopper = Stopper(frozenset(), plan.tokens, info.context - plan.context, (), model.loaded.decode)
    known = Known(Experience(model.runner.vocabulary, info.parameters))
    decoder, sampler = make_decoder(decoding, known), sampler_for(Sampling(), info.device)
    steps: list[tuple[float, Step]] = []
    begin = perf_counter()
    for item in generate(model.runner, _ids(model, plan.context), decoder, sampler, stopper):
        now = perf_counter()
        if isinstance(item, Step):
            steps.append((now - begin, item))
        else:
            gauge.restart_peak()
        begin = perf_counter()
    return steps


def _generate(model: Shaped, plan: Plan, gauge: Gauge) -> Finding:
    """A step of transformers' generate as it comes: its own attention and cache, greedy, nothing else said."""
    network: Any = model.model
    prompt = torch.tensor([_ids(model, plan.context)], device=gauge.device)
    network.generation_config.eos_token_id = None  # it must write on

    def write(tokens: int) -> Callable[[], object]:
        return lambda: network.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0,
        )

    network.set_attn_implementation("sdpa")
    try:
        short, long = in_turn(gauge, [write(tokens) for tokens in GENERATED], GENERATE_ROUNDS, warm_up=1)
    finally:
        network.set_attn_implementation(attention.NAME)
    steps = GENERATED[1] - GENERATED[0]
    numbers = {
        which: 1000 * (getattr(long, which) - getattr(short, which)) / steps for which in ("median", "least")
    }
    return Finding(
        "generate",
        {"shape": model.loaded.info.name},
        {"ms": {**numbers, "samples": long.samples}, "attention": "sdpa"},
    )


def _same_text(model: Shaped) -> Finding:
    """The app's own probe of widths: what it found, how long it took, and what the same text costs a step."""
    begin = perf_counter()
    profile = probe(model.runner, lambda _done, _total: None)
    seconds = perf_counter() - begin
    return Finding(
        "probe",
        {"shape": model.loaded.info.name},
        {"seconds": seconds, "profile": asdict(profile), **same_text_costs(profile)},
    )


def same_text_costs(profile: StepProfile) -> dict[str, Any]:
    """How much longer a step of plain, and one of 64 rows, takes where the same text is kept; None: it is not."""
    widths = choose_class(profile)
    numbers: dict[str, Any] = {"note": profile.note, "widths": list(widths)}
    if not widths or not profile.steady:
        return {**numbers, "plain_cost": None, "lookahead_cost": None}
    wide = min((width for width in widths if width >= LOOKAHEAD_ROWS), default=widths[-1])
    free, steady = profile.free.seconds_for, profile.steady.seconds_for
    return {
        **numbers,
        "plain_cost": steady(widths[0]) / free(1) - 1,
        "lookahead_cost": steady(wide) / free(wide) - 1,
        "lookahead_rows": wide,
    }
