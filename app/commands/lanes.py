"""Which decoder runs and how wide, as the command line says it: by options, or as the lanes of a benchmark.

    plain   auto   auto:32 (rows)   lookahead   lookahead:15/5/15 (W/N/G)   lookahead:7b   prompt-lookup
    jacobi   jacobi:8 (W)

What is given by hand wins over a preset. A size that the chosen decoder would not look at is refused, since the
person expects it to do something; plain alone takes them all, as the other end of a comparison.
"""

from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from app.errors import BadOption, impossible_values
from app.messages import PRESETS, DecoderName, Decoding, Preset

OnOff = Literal["on", "off"]
LANES = (
    "plain, auto, auto:32 (rows), lookahead, lookahead:15/5/15 (W/N/G), lookahead:7b (or 13b, 33b), "
    "prompt-lookup, jacobi or jacobi:8 (W)"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What was said about a decoder's sizes; None: nothing."""

    preset: Preset | None = None
    window: int | None = None
    ngram: int | None = None
    guesses: int | None = None
    rows: int | None = None

    @property
    def has_w_n_g(self) -> bool:
        """Whether anything was said about lookahead's own sizes."""
        return any(size is not None for size in (self.preset, self.window, self.ngram, self.guesses))

    def apply(self, decoding: Decoding) -> Decoding:
        """The decoding with these sizes: its own, under the preset's, under those given by hand."""
        sizes = (decoding.window, decoding.ngram, decoding.guesses)
        window, ngram, guesses = PRESETS[self.preset] if self.preset else sizes
        with impossible_values():
            return replace(
                decoding,
                window=_said(self.window, window),
                ngram=_said(self.ngram, ngram),
                guesses=_said(self.guesses, guesses),
                rows=_said(self.rows, decoding.rows),
            )


def _said(size: int | None, otherwise: int) -> int:
    return otherwise if size is None else size


@dataclass(frozen=True, slots=True)
class Lane:
    """One column of a comparison: a decoding under the name that the person gave it."""

    name: str
    decoding: Decoding


def read_decoding(decoder: DecoderName | None, sizes: Sizes, same_text: OnOff) -> Decoding:
    """The decoding that the options mean: auto, unless W, N, G or a preset without a decoder ask for lookahead."""
    chosen = decoder or ("lookahead" if sizes.has_w_n_g else "auto")
    if sizes.rows is not None and chosen not in ("auto", "plain"):
        raise BadOption(
            f"--rows is the budget of auto: leave it out, or give --decoder auto instead of {chosen}."
        )
    if sizes.has_w_n_g and chosen in ("auto", "prompt-lookup"):
        raise BadOption(
            f"--preset, --window, --ngram and --guesses are for --decoder lookahead: {chosen} takes none of them"
            + (", but --rows." if chosen == "auto" else ".")
        )
    return sizes.apply(Decoding(chosen, same_text=same_text == "on"))


def read_lanes(text: str, base: Decoding) -> list[Lane]:
    """The lanes of a list such as `plain,auto:32,lookahead:7b`; sizes that a lane leaves out are the base's."""
    return [Lane(name, _decoding(name, base)) for name in map(str.strip, text.split(","))]


def _decoding(lane: str, base: Decoding) -> Decoding:
    decoder, colon, sizes = lane.partition(":")
    if decoder not in get_args(DecoderName) or (colon and not sizes):
        raise _unknown(lane)
    return _sizes(lane, sizes.split("/") if sizes else []).apply(
        replace(base, decoder=cast(DecoderName, decoder))
    )


def _sizes(lane: str, said: list[str]) -> Sizes:
    """What stands behind the lane's colon."""
    match lane.partition(":")[0], said:
        case _, []:
            return Sizes()
        case "lookahead", [("7b" | "13b" | "33b") as preset]:
            return Sizes(preset=preset)
        case "lookahead", [window, ngram, guesses]:
            return Sizes(None, *(_number(lane, size) for size in (window, ngram, guesses)))
        case "auto", [rows]:
            return Sizes(rows=_number(lane, rows))
        case "jacobi", [window]:
            return Sizes(window=_number(lane, window))
    raise _unknown(lane)


def _number(lane: str, size: str) -> int:
    if not size.isdecimal():
        raise _unknown(lane)
    return int(size)


def _unknown(lane: str) -> BadOption:
    return BadOption(f"There is no lane {lane!r}: choose among {LANES}, separated by commas.")
