"""The sections of a report, in the order of their weight, and for how long each may run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from app.engine.gpu_report.attention_times import attention_times
from app.engine.gpu_report.correctness import correctness
from app.engine.gpu_report.findings import Finding
from app.engine.gpu_report.flex_times import flex_times
from app.engine.gpu_report.gauge import Gauge
from app.engine.gpu_report.model_steps import model_steps
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.quantised import quantised_steps
from app.engine.gpu_report.replies import replies
from app.engine.gpu_report.soak import soak

CORRECTNESS, ATTENTION, FLEX, SOAK, QUANTISED = (
    "correctness",
    "attention",
    "flex_attention",
    "soak",
    "quantised",
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report that may fail alone. `seconds` are its share of the time at most."""

    name: str
    seconds: float
    measure: Callable[[Plan, Gauge], Iterator[Finding]]

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"a section needs time, got {self.seconds}")


def sections(plan: Plan) -> list[Section]:
    """What is judged first comes first: when the time is over, the rest is not run."""
    first, *others = [
        Section(shape.name, 75 if place == 0 else 45, partial(model_steps, shape))
        for place, shape in enumerate(plan.models)
    ]
    trained = [
        Section(reply_section(asked.name), 45, partial(replies, asked))
        for asked in plan.replies
        if asked.prompts
    ]
    return [
        Section(CORRECTNESS, 60, correctness),
        first,
        Section(ATTENTION, 55, attention_times),
        *trained[:1],
        *([Section(SOAK, plan.soak_seconds + 25, soak)] if plan.soak_folders else []),
        *others,
        *trained[1:],
        Section(FLEX, 45, flex_times),
        Section(QUANTISED, 40, quantised_steps),
    ]


def reply_section(model: str) -> str:
    """What the section about a trained model's replies is called."""
    return f"replies of {model}"
