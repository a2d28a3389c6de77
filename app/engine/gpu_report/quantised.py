"""Steps on quantised weights, where torchao is there."""

from collections.abc import Iterator

from app.engine.gpu_report.findings import Finding
from app.engine.gpu_report.gauge import Gauge
from app.engine.gpu_report.model_steps import step_times
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.shapes import random_model, shaped
from app.engine.quantising import check_can_quantise, quantise
from app.quantisation import Quantisation

KINDS: tuple[Quantisation, ...] = ("int8", "int4")


def quantised_steps(plan: Plan, gauge: Gauge) -> Iterator[Finding]:
    """One shape in 8 and in 4 bits; raises BadOption without torchao."""
    check_can_quantise("int8")
    copied = gauge.bandwidth()
    for name in KINDS:
        network = random_model(plan.quantised, gauge.device, plan.torch_dtype)
        count = quantise(network, name, gauge.device)
        model = shaped(network, f"{plan.quantised.name}, {name}", name, count)
        yield Finding("quantised model", {"shape": model.loaded.info.name}, {"bytes": model.bytes})
        yield from step_times(model, plan, gauge, copied, "quantised step")
