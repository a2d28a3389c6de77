"""What the X-ray is shown: the newest steps of a reply, and what tokens say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from app.chat_messages import ChatVersion
from app.messages import Statistics
from app.step_trace import TRACED_STEPS, StepTrace

KEPT_STEPS = TRACED_STEPS
"""How many steps of a reply the X-ray goes back."""


@dataclass(frozen=True, slots=True)
class SeenStep:
    """A step's picture, and the tokens that it wrote."""

    trace: StepTrace
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """The newest steps of a reply, oldest first, its numbers, and its settings as they are exported."""

    steps: tuple[SeenStep, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def last(self) -> int:
        """The number of the newest step; 0 before the first."""
        return max(self.statistics.steps, len(self.steps))

    @property
    def first(self) -> int:
        """The number of the oldest step that is here."""
        return self.last - len(self.steps) + 1


class Watched(Protocol):
    """The replies that are watched. Both answer at once, from any thread."""

    def recording(self, chat: int) -> Recording:
        """The newest steps, at most KEPT_STEPS, of the chat's newest reply; without steps where there is none."""

    def texts(self, chat: int, ids: Sequence[int]) -> tuple[str, ...]:
        """What each token of that reply says, one by one."""


class Seated(Protocol):
    """Whoever looks at a page: at the chat of this place."""

    place: ChatVersion
