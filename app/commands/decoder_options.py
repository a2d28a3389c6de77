"""The decoder and its sizes from the command line: as options, or as the lanes of a benchmark.

    plain   auto   auto:32 (rows)   lookahead   lookahead:15/5/15 (W/N/G)   lookahead:7b   prompt-lookup
    jacobi   jacobi:8 (W)

Explicit sizes win over a preset. A size that the chosen decoder does not use is refused; only plain accepts them
all, as the other side of a comparison.
"""

from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from app.conversation.decoder_comparison import Lane
from app.errors import BadOption, impossible_values
from app.messages import PRESETS, DecoderName, Decoding, Preset

OnOff = Literal["on", "off"]
LANES = (
    "plain, auto, auto:32 (rows), lookahead, lookahead:15/5/15 (W/N/G), lookahead:7b (or 13b, 33b), "
    "prompt-lookup, jacobi or jacobi:8 (W)"
)


@dataclass(frozen=True, slots=True)
class DecoderSizes:
    """The sizes that were given; None for those that were not."""

    preset: Preset | None = None
    window: int | None = None
    ngram: int | None = None
    guesses: int | None = None
    rows: int | None = None

    @property
    def has_w_n_g(self) -> bool:
        """Whether any of lookahead's own sizes was given."""
        return any(size is not None for size in (self.preset, self.window, self.ngram, self.guesses))

    def apply(self, decoding: Decoding) -> Decoding:
        """The decoding with these sizes. Explicit sizes win over the preset, and the preset over its own."""
        sizes = (decoding.window, decoding.ngram, decoding.guesses)
        window, ngram, guesses = PRESETS[self.preset] if self.preset else sizes
        with impossible_values():
            return replace(
                decoding,
                window=_given(self.window, window),
                ngram=_given(self.ngram, ngram),
                guesses=_given(self.guesses, guesses),
                rows=_given(self.rows, decoding.rows),
            )


def _given(size: int | None, otherwise: int) -> int:
    return otherwise if size is None else size


def read_decoding(decoder: DecoderName | None, sizes: DecoderSizes, same_text: OnOff) -> Decoding:
    """The decoding of these options. The default is auto, or lookahead where W, N, G or a preset are given."""
    chosen = decoder or ("lookahead" if sizes.has_w_n_g else "auto")
    if sizes.rows is not None and chosen not in ("auto", "plain"):
        raise BadOption(
            f"--rows is only for --decoder auto, and the decoder is {chosen}. Leave it out or choose auto."
        )
    if sizes.has_w_n_g and chosen in ("auto", "prompt-lookup"):
        raise BadOption(
            "--preset, --window, --ngram and --guesses are only for --decoder lookahead, and the decoder is "
            + (f"{chosen}. It has --rows instead." if chosen == "auto" else f"{chosen}.")
        )
    return sizes.apply(Decoding(chosen, same_text=same_text == "on"))


def read_lanes(text: str, base: Decoding) -> list[Lane]:
    """The lanes of a list such as `plain,auto:32,lookahead:7b`. Other sizes are those of `base`."""
    return [Lane(name, _decoding(name, base)) for name in map(str.strip, text.split(","))]


def _decoding(lane: str, base: Decoding) -> Decoding:
    decoder, colon, sizes = lane.partition(":")
    if decoder not in get_args(DecoderName) or (colon and not sizes):
        raise _unknown(lane)
    return _sizes(lane, sizes.split("/") if sizes else []).apply(
        replace(base, decoder=cast(DecoderName, decoder))
    )


def _sizes(lane: str, sizes: list[str]) -> DecoderSizes:
    """The sizes after the lane's colon."""
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
