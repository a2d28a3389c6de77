"""A device with a time of its own: its answers are recorded, and replayed when a sleep is over.

So the host's work can be told apart on a CPU: what runs before an answer is read overlaps the device, what runs
between its arrival and the next launch keeps the device waiting. While answers are replayed nothing is computed,
for that would leave the host's memory out of the caches. The host's time is its thread's: other programs of the
machine do not count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, sleep, thread_time

import torch
from torch import Tensor

from app.engine.sampling.sampling import Choices, Sampler, make_sampler
from app.values.messages import Sampling
from tests.engine.simulated_graphs import SimulatedCapturer, SimulatedGraph


@dataclass
class Device:
    """Its steps take so long. `gaps` are the seconds that it stood still before each that was replayed."""

    step_seconds: float
    gaps: list[float] = field(default_factory=list)
    _answers: list[Tensor] = field(default_factory=list)
    _is_replaying: bool = False
    _ready: float = 0.0  # when the newest step's answer is there
    _idle_since: float = 0.0

    def recording(self, sampler: Sampler) -> Sampler:
        """The sampler, whose answers are kept until they are replayed."""
        self._is_replaying, self._answers = False, []

        def sample(logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
            choices = sampler(logits, likely, positions)
            drawn = [choices.choose(row, range(position)) for row, position in enumerate(positions)]
            columns = choices.logits, choices.ids, choices.ids[:, :1], torch.tensor(drawn)[:, None]
            self._answers.append(torch.cat([torch.as_tensor(column).float() for column in columns], dim=1))
            return choices

        return sample

    def replaying(self) -> Sampler:
        """What it said when it was recorded, whatever the logits are now."""
        self._is_replaying = True
        answers = iter(self._answers)

        def answer(_logits: Tensor, _count: int, _draws: object) -> Tensor:
            sleep(max(self._ready - perf_counter(), 0.0))
            self._idle_since = thread_time()
            return next(answers)

        return make_sampler(Sampling(), "cuda", answer)  # which takes an answer's last column for its draw

    def launch(self, work: Callable[[], None], is_step: bool) -> None:
        """Begin a step, or the few copies that move accepted rows."""
        if not self._is_replaying:
            work()
        elif is_step:
            self.gaps.append(thread_time() - self._idle_since)
            self._ready = perf_counter() + self.step_seconds


@dataclass
class Launched:
    """A tape whose replays are the device's."""

    tape: SimulatedGraph
    device: Device

    def replay(self) -> None:
        self.device.launch(self.tape.replay, len(self.tape.plays) > FEW)


class SleepingCapturer(SimulatedCapturer):
    """Records steps of a device."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device

    def capture(self, work: Callable[[], None]) -> Launched:  # type: ignore[override]
        return Launched(super().capture(work), self.device)


FEW = 40
"""Operations of a recording that is no step: those of the demo model have several hundred."""
