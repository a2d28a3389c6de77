"""What the command line means by its decoders, presets and lanes."""

from dataclasses import replace

import pytest

from app.commands.decoder_options import DecoderSizes, read_decoding, read_lanes, require_drafting
from app.errors import BadOption
from app.values.messages import DecoderName, Decoding

GIVEN = DecoderSizes(window=6, ngram=3, guesses=2, rows=12)
"""As many sizes as `--decoders lookahead,auto` uses."""


@pytest.mark.parametrize(
    ("decoder", "sizes", "decoding"),
    [
        (None, DecoderSizes(), Decoding("auto")),
        (None, DecoderSizes(rows=32), Decoding("auto", rows=32)),
        (None, DecoderSizes(window=9), Decoding("lookahead", window=9)),
        (None, DecoderSizes(window=0, guesses=0), Decoding("lookahead", window=0, guesses=0)),
        (None, DecoderSizes(preset="13b"), Decoding("lookahead", 10, 5, 10)),
        ("lookahead", DecoderSizes(preset="7b", guesses=3), Decoding("lookahead", 15, 5, 3)),
        ("jacobi", DecoderSizes(window=8), Decoding("jacobi", window=8)),
    ],
)
def test_auto_decodes_unless_sizes_ask_for_lookahead_and_explicit_sizes_win(
    decoder: DecoderName | None, sizes: DecoderSizes, decoding: Decoding
) -> None:
    assert read_decoding(decoder, sizes, "on") == decoding
    assert read_decoding(decoder, sizes, "off") == replace(decoding, same_text=False)


@pytest.mark.parametrize(
    ("decoder", "sizes", "sentence"),
    [
        ("auto", DecoderSizes("7b"), "--preset would change nothing with --decoder auto. Leave it out."),
        (
            "auto",
            DecoderSizes(window=5, guesses=5),
            "--window and --guesses would change nothing with --decoder auto. Leave them out.",
        ),
        ("prompt-lookup", DecoderSizes(ngram=3), "--ngram would change nothing with --decoder prompt-"),
        ("lookahead", DecoderSizes(rows=8), "--rows would change nothing with --decoder lookahead."),
        (None, DecoderSizes(preset="7b", rows=8), "--rows would change nothing with --decoder lookahead."),
        ("jacobi", DecoderSizes(rows=8), "--rows would change nothing with --decoder jacobi."),
        ("jacobi", DecoderSizes(window=8, ngram=3), "--ngram would change nothing with --decoder jacobi."),
        ("plain", DecoderSizes(rows=8), "--rows would change nothing with --decoder plain."),
        ("plain", DecoderSizes(preset="7b"), "--preset would change nothing with --decoder plain."),
        ("lookahead", DecoderSizes("7b", 5, 3, 5), "--preset would change nothing with --window, --ngram"),
    ],
)
def test_a_size_that_would_do_nothing_is_refused(
    decoder: DecoderName | None, sizes: DecoderSizes, sentence: str
) -> None:
    with pytest.raises(BadOption) as caught:
        read_decoding(decoder, sizes, "on")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("lanes", "sizes", "useless"),
    [
        ("plain,lookahead", DecoderSizes(rows=16), "--rows"),
        ("plain,auto:32", DecoderSizes(rows=16), "--rows"),
        ("plain,auto", DecoderSizes(preset="7b"), "--preset"),
        ("auto,lookahead:15/5/15", DecoderSizes(window=5), "--window"),
        ("plain,jacobi:4", DecoderSizes(window=5), "--window"),
        ("auto,jacobi", DecoderSizes(window=5, ngram=4), "--ngram"),
    ],
)
def test_a_size_that_no_lane_uses_is_refused(lanes: str, sizes: DecoderSizes, useless: str) -> None:
    with pytest.raises(BadOption) as caught:
        read_lanes(lanes, sizes, same_text=True)
    assert str(caught.value) == f"{useless} would change nothing with --decoders {lanes}. Leave it out."


def test_a_draft_model_that_no_decoder_asks_is_refused() -> None:
    require_drafting("", ["plain"])
    require_drafting("org/draft", ["plain", "lookahead"])
    require_drafting("org/draft", ["auto"])
    for decoder in ("plain", "jacobi", "prompt-lookup"):
        with pytest.raises(BadOption, match="--draft-model is for the decoders auto and lookahead"):
            require_drafting("org/draft", [decoder])


@pytest.mark.parametrize(
    ("lane", "decoding"),
    [
        ("plain", Decoding("plain", 6, 3, 2, 12, False)),
        ("auto", Decoding("auto", 6, 3, 2, 12, False)),
        ("auto:32", Decoding("auto", 6, 3, 2, 32, False)),
        ("lookahead", Decoding("lookahead", 6, 3, 2, 12, False)),
        ("lookahead:15/5/4", Decoding("lookahead", 15, 5, 4, 12, False)),
        ("lookahead:33b", Decoding("lookahead", 7, 5, 7, 12, False)),
        ("prompt-lookup", Decoding("prompt-lookup", 6, 3, 2, 12, False)),
        ("jacobi:8", Decoding("jacobi", 8, 3, 2, 12, False)),
    ],
)
def test_a_lane_is_a_decoder_with_its_sizes(lane: str, decoding: Decoding) -> None:
    found = read_lanes(f"{lane},lookahead,auto", GIVEN, same_text=False)[0]
    assert (found.name, found.decoding) == (lane, decoding)


NO_LANES = "fast auto: auto:x auto:1/2 auto:-1 plain:1 lookahead:7c lookahead:1/2 jacobi:7b"


@pytest.mark.parametrize("lane", ["", *NO_LANES.split()])
def test_a_lane_that_is_none_is_named_with_those_that_are(lane: str) -> None:
    with pytest.raises(BadOption) as caught:
        read_lanes(f"plain,{lane}", DecoderSizes(), same_text=True)
    assert str(caught.value).startswith(
        f"Unknown decoder {lane!r}. Choose from plain, auto, auto:32 (rows), "
    )


def test_a_lane_with_an_impossible_size_gets_its_rule() -> None:
    with pytest.raises(BadOption, match=r"N \(n-gram\) must be from 2 to 16; it is 99"):
        read_lanes("lookahead:5/99/5", DecoderSizes(), same_text=True)
