"""The values of the Race view's controls, and the race plan that they describe."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from app.errors import BadOption, impossible_values
from app.values.messages import DecoderName, Decoding, ModelChoice, Options
from app.values.race import RacePlan, RacePrompt, TextKind

NO_LANE = "none"
"""The value of a lane's decoder box without a lane."""
DECODERS = (
    ("Auto", "auto"),
    ("Plain", "plain"),
    ("Lookahead W/N/G", "lookahead"),
    ("Prompt lookup", "prompt-lookup"),
    ("Jacobi", "jacobi"),
)
DEFAULT_LANES = ("plain", "auto", NO_LANE)
DEFAULT_TOKENS = 128


class LaneValues(NamedTuple):
    """The values of one lane's controls, in the order in which events pass them. An emptied box has None."""

    decoder: str
    window: float | None
    ngram: float | None
    guesses: float | None


LANE_VALUES = len(LaneValues._fields)


def read_plan(
    kind: TextKind,
    text: str,
    tokens: float | None,
    lanes: Sequence[Any],
    options: Options,
    model: ModelChoice,
) -> RacePlan:
    """The plan for these values. Sampling and same text are those of the chat. Raises BadOption."""
    if not text.strip():
        raise BadOption("There is no prompt. Write one, or choose an example.")
    each = [LaneValues(*lanes[i : i + LANE_VALUES]) for i in range(0, len(lanes), LANE_VALUES)]
    with impossible_values():
        decodings = tuple(_decoding(lane, options.decoding) for lane in each if lane.decoder != NO_LANE)
        limited = replace(options, max_new_tokens=_integer(tokens, "Tokens"))
        return RacePlan(RacePrompt(kind, text.strip()), decodings, limited, model)


def _decoding(lane: LaneValues, chosen: Decoding) -> Decoding:
    """Sizes that this decoder does not use stay as in the chat."""
    decoder = cast(DecoderName, lane.decoder)
    decoding = replace(chosen, decoder=decoder)
    if decoder == "jacobi":
        return replace(decoding, window=_integer(lane.window, "W"))
    if decoder != "lookahead":
        return decoding
    return replace(
        decoding,
        window=_integer(lane.window, "W"),
        ngram=_integer(lane.ngram, "N"),
        guesses=_integer(lane.guesses, "G"),
    )


def _integer(value: float | None, name: str) -> int:
    if value is None:
        raise BadOption(f"The box {name} is empty: type a number.")
    if not float(value).is_integer():
        raise BadOption(f"The box {name} takes a whole number, got {value!r}.")
    return int(value)
