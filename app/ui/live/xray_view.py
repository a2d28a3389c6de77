"""Which step a page's X-ray shows, as a value: live it is the newest one, paused the person steps through them."""

from dataclasses import dataclass
from typing import Literal, get_args

from app.ui.live.port import Recording, SeenStep
from app.validation import require

Move = Literal["live", "pause", "first", "back", "forward", "last", "go"]
MOVES = get_args(Move)


@dataclass(frozen=True, slots=True)
class XrayView:
    """Live, or stopped at the step of this number (from 1)."""

    is_live: bool = True
    shown: int = 0

    def __post_init__(self) -> None:
        require(self.shown >= 0, "a step's number must be 0 or more", self.shown)


def shown_number(view: XrayView, recording: Recording) -> int:
    """The number of the step to show, 0 where there is none: one that is gone gives way to the oldest."""
    if not recording.steps:
        return 0
    return recording.last if view.is_live else min(max(view.shown, recording.first), recording.last)


def shown_step(number: int, recording: Recording) -> SeenStep:
    """The step of a number that `shown_number` gave."""
    return recording.steps[number - recording.first]


def moved(move: Move, on_screen: int, recording: Recording) -> XrayView:
    """The view after a control was used while this step was on the screen, where `pause` and `go` stay."""
    if move == "live":
        return XrayView(True)
    to = {
        "first": recording.first,
        "back": on_screen - 1,
        "forward": on_screen + 1,
        "last": recording.last,
    }.get(move, on_screen)
    stopped = XrayView(False, max(to, 0))
    return XrayView(False, shown_number(stopped, recording)) if recording.steps else stopped
