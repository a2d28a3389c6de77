"""Reads the decoder and its sizes from the command line, as options or as the lanes (decoders) of a benchmark."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal, cast, get_args

from app.conversation.race.lane_comparison import Lane
from app.errors import BadOption, impossible_values
from app.values.messages import PRESETS, DecoderName, Decoding, Preset

OnOff = Literal["on", "off"]
LANES = (
    "plain, auto, auto:32 (rows), lookahead, lookahead:15/5/15 (W/N/G), lookahead:7b (or 13b, 33b), "
    "prompt-lookup, jacobi or jacobi:8 (W)"
)
W_N_G = ("window", "ngram", "guesses")
TAKEN: Mapping[DecoderName, tuple[str, ...]] = {
    "plain": (),
    "auto": ("rows",),
    "lookahead": ("preset", *W_N_G),
    "prompt-lookup": (),
    "jacobi": ("window",),
}
"""The sizes that each decoder uses."""
DRAFTING: tuple[DecoderName, ...] = ("auto", "lookahead")
"""The decoders that use a draft model."""


@dataclass(frozen=True, slots=True)
class DecoderSizes:
    """The decoder's sizes as the user gave them; None for a size that was not given."""

    preset: Preset | None = None
    window: int | None = None
    ngram: int | None = None
    guesses: int | None = None
    rows: int | None = None

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(name for name, size in asdict(self).items() if size is not None)

    def apply(self, decoding: Decoding) -> Decoding:
        """Return the decoding with these sizes. Raises BadOption for impossible sizes.

        Explicit sizes override the preset, which overrides the decoding's own sizes."""
        sizes = (decoding.window, decoding.ngram, decoding.guesses)
        window, ngram, guesses = PRESETS[self.preset] if self.preset else sizes
        with impossible_values():
            by_preset = replace(decoding, window=window, ngram=ngram, guesses=guesses)
            given = {name: getattr(self, name) for name in self.given if name != "preset"}
            return replace(by_preset, **given)


def read_decoding(decoder: DecoderName | None, sizes: DecoderSizes, same_text: OnOff) -> Decoding:
    """Return the decoding of these options. The default is auto, or lookahead if W, N, G or a preset is given.

    Raises BadOption for a size that is impossible or that the decoder does not use."""
    chosen = decoder or ("lookahead" if {*sizes.given} - {"rows"} else "auto")
    _require_used(sizes, TAKEN[chosen], f"--decoder {chosen}")
    return sizes.apply(Decoding(chosen, same_text=same_text == "on"))


def read_lanes(text: str, sizes: DecoderSizes, same_text: bool) -> list[Lane]:
    """Read a list of lanes such as `plain,auto:32,lookahead:7b`. A lane without sizes gets the given `sizes`.

    Raises BadOption."""
    base = sizes.apply(Decoding(same_text=same_text))
    lanes = [Lane(name, _decoding(name, base)) for name in map(str.strip, text.split(","))]
    used = [TAKEN[lane.decoding.decoder] for lane in lanes if ":" not in lane.name]
    _require_used(sizes, {name for names in used for name in names}, f"--decoders {text}")
    return lanes


def require_drafting(draft_model: str, decoders: Iterable[DecoderName]) -> None:
    """Raise BadOption if none of these decoders uses the draft model."""
    if draft_model and not {*decoders} & {*DRAFTING}:
        raise BadOption(
            f"--draft-model is for the decoders {' and '.join(DRAFTING)}. Choose one of them, or leave it out."
        )


def _require_used(sizes: DecoderSizes, used: Iterable[str], decoders: str) -> None:
    useless = [f"--{name}" for name in sizes.given if name not in used]
    if useless:
        them = "them" if useless[1:] else "it"
        raise BadOption(f"{' and '.join(useless)} would change nothing with {decoders}. Leave {them} out.")
    if {"preset", *W_N_G} <= {*sizes.given}:
        raise BadOption("--preset would change nothing with --window, --ngram and --guesses. Leave it out.")


def _decoding(lane: str, base: Decoding) -> Decoding:
    decoder, colon, sizes = lane.partition(":")
    if decoder not in get_args(DecoderName) or (colon and not sizes):
        raise _unknown(lane)
    return _sizes(lane, sizes.split("/") if sizes else []).apply(
        replace(base, decoder=cast(DecoderName, decoder))
    )


def _sizes(lane: str, sizes: list[str]) -> DecoderSizes:
    match lane.partition(":")[0], sizes:
        case _, []:
            return DecoderSizes()
        case "lookahead", [("7b" | "13b" | "33b") as preset]:
            return DecoderSizes(preset=preset)
        case "lookahead", [window, ngram, guesses]:
            return DecoderSizes(None, *(_number(lane, size) for size in (window, ngram, guesses)))
        case "auto", [rows]:
            return DecoderSizes(rows=_number(lane, rows))
        case "jacobi", [window]:
            return DecoderSizes(window=_number(lane, window))
    raise _unknown(lane)


def _number(lane: str, size: str) -> int:
    if not size.isdecimal():
        raise _unknown(lane)
    return int(size)


def _unknown(lane: str) -> BadOption:
    return BadOption(f"Unknown decoder {lane!r}. Choose from {LANES}, separated by commas.")
