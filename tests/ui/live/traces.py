"""A reply of two steps, whose tokens say what their ids are."""

from collections.abc import Sequence

from app.ui.live.step_history import StepHistory, TracedStep
from app.values.messages import Origin, Piece, Statistics
from app.values.reply_statistics import StepTrace


def step_of(number: int, *origins: Origin) -> Piece:
    """The piece of step `number`, with a token for each origin."""
    return Piece("x", (0,) * len(origins), origins, Statistics(steps=number))


# 7 -> 8 -> 9 and 6, 7 -> 5; the model says 8 behind 7, and 4 behind 8.
ESSAY = TracedStep(
    StepTrace(
        tokens=(7, 8, 9, 5, 6),
        parents=(-1, 0, 1, 0, 1),
        origins=("model", "window", "prompt", "successor", "output"),
        predicted=(8, 4, 1, 2, 3),
        accepted=(0, 1),
        window=((7, 8, 9), (8, 4, 1), (3, 2, 1)),
    ),
    (8, 4),
)
PLAIN = TracedStep(StepTrace((4,), (-1,), ("model",), (11,), (0,)), (11,))
TEXTS = {4: " four", 5: "five", 6: "<i>&", 7: "seven", 8: "eight", 9: "nine\n", 11: "eleven"}


def texts(ids: Sequence[int]) -> tuple[str, ...]:
    """What the tokens of these steps say."""
    return tuple(TEXTS.get(token, f"t{token}") for token in ids)


WORDS = dict(zip(range(12), texts(range(12)), strict=True))


def history_of(*steps: TracedStep, last: int = 0) -> StepHistory:
    """These steps as the newest of a reply, the newest of them being number `last`."""
    return StepHistory(traced=steps, statistics=Statistics(steps=last or len(steps)))
