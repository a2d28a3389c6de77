"""A device with a time of its own: what was recorded is replayed at once, and its logits come when a sleep is over.

So the host's work can be told apart on a CPU: what runs before the logits are read overlaps the device, what runs
between their arrival and the next replay keeps it waiting. What a card would do itself counts for neither. The
host's time is its thread's: other programs of the machine do not count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, sleep, thread_time

from torch import Tensor

from app.engine.sampling import Choices, Sampler
from tests.engine.simulated_graphs import SimulatedCapturer, SimulatedGraph


@dataclass
class Device:
    """What it is to be waited for, and for how many seconds it stood still before each step."""

    step_seconds: float
    gaps: list[float] = field(default_factory=list)
    _ready: float = 0.0  # when the newest step's logits are there
    _idle_since: float = 0.0

    def run_step(self, work: Callable[[], None]) -> None:
        """A step is launched."""
        if self._idle_since:
            self.gaps.append(thread_time() - self._idle_since)
        work()
        self._ready = perf_counter() + self.step_seconds

    def run_aside(self, work: Callable[[], None]) -> None:
        """Something short is launched between two steps."""
        began = thread_time()
        work()
        self._idle_since += thread_time() - began

    def read(self, sampler: Sampler, logits: Tensor, likely: int, positions: Sequence[int]) -> Choices:
        """What is sampled from the step's logits, which are waited for."""
        sleep(max(self._ready - perf_counter(), 0.0))
        choices = sampler(logits, likely, positions)
        self._idle_since = thread_time()
        return choices

    def rest(self) -> None:
        """The next step is not a reply's next."""
        self._idle_since = 0.0


def read_from(device: Device, sampler: Sampler) -> Sampler:
    """The sampler, on this device."""

    def sample(logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
        return device.read(sampler, logits, likely, positions)

    return sample


@dataclass
class Launched:
    """A tape whose replays are the device's."""

    tape: SimulatedGraph
    run: Callable[[Callable[[], None]], None]

    def replay(self) -> None:
        self.run(self.tape.replay)


class SleepingCapturer:
    """Records steps of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._capturer = SimulatedCapturer()

    def capture(self, work: Callable[[], None]) -> Launched:
        """A step, or the few copies that move accepted rows."""
        self.device.rest()
        tape = self._capturer.capture(work)
        return Launched(tape, self.device.run_step if len(tape.plays) > FEW else self.device.run_aside)

    def release(self) -> None:
        self._capturer.release()


FEW = 40
"""Operations of a recording that is no step: those of the demo model have several hundred."""
