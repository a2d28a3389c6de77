"""A race as it stands in the view's controls, and as the plan it means."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from app.errors import BadOption, impossible_values
from app.messages import DecoderName, Decoding, ModelChoice, Options
from app.race_messages import RacePlan, RacePrompt, TextKind

NOBODY = "none"
"""What a lane's picker holds where no lane is wanted."""
DECODERS = (
    ("Auto", "auto"),
    ("Plain", "plain"),
    ("Lookahead W/N/G", "lookahead"),
    ("Prompt lookup", "prompt-lookup"),
    ("Jacobi", "jacobi"),
)
FIRST_LANES = ("plain", "auto", NOBODY)
USUAL_TOKENS = 128


class LaneControls(NamedTuple):
    """One lane's controls, in the order in which events pass them. An emptied box holds None."""

    decoder: str
    window: float | None
    ngram: float | None
    guesses: float | None


LANE_CONTROLS = len(LaneControls._fields)


def read_plan(
    kind: TextKind,
    text: str,
    tokens: float | None,
    lanes: Sequence[Any],
    options: Options,
    model: ModelChoice,
) -> RacePlan:
    """The race that the controls mean; sampling and same text are those of the chat. Raises BadOption."""
    if not text.strip():
        raise BadOption("There is no prompt: write one, or choose a ready-made one.")
    each = [LaneControls(*lanes[i : i + LANE_CONTROLS]) for i in range(0, len(lanes), LANE_CONTROLS)]
    with impossible_values():
        decodings = tuple(_decoding(lane, options.decoding) for lane in each if lane.decoder != NOBODY)
        asked = replace(options, max_new_tokens=_whole(tokens, "Tokens"))
        return RacePlan(RacePrompt(kind, text.strip()), decodings, asked, model)


def _decoding(lane: LaneControls, chosen: Decoding) -> Decoding:
    """Sizes that this decoder does not look at stay as they are chosen for the chat."""
    decoder = cast(DecoderName, lane.decoder)
    decoding = replace(chosen, decoder=decoder)
    if decoder == "jacobi":
        return replace(decoding, window=_whole(lane.window, "W"))
    if decoder != "lookahead":
        return decoding
    return replace(
        decoding,
        window=_whole(lane.window, "W"),
        ngram=_whole(lane.ngram, "N"),
        guesses=_whole(lane.guesses, "G"),
    )


def _whole(value: float | None, name: str) -> int:
    if value is None:
        raise BadOption(f"The box {name} is empty: type a number.")
    if not float(value).is_integer():
        raise BadOption(f"The box {name} takes a whole number, got {value!r}.")
    return int(value)
