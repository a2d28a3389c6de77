"""What the command line means by its decoders, presets and lanes."""

import pytest

from app.commands.decoder_options import DecoderSizes, read_decoding, read_lanes, require_drafting
from app.errors import BadOption
from app.values.messages import DecoderName, Decoding

GIVEN = DecoderSizes(window=6, ngram=3, guesses=2, rows=12)
"""As many sizes as `--decoders lookahead,auto` uses."""


def test_auto_decides_unless_something_else_is_said() -> None:
    assert read_decoding(None, DecoderSizes(), "on") == Decoding("auto")
    assert read_decoding(None, DecoderSizes(rows=32), "off") == Decoding("auto", rows=32, same_text=False)


def test_w_n_g_or_a_preset_ask_for_lookahead() -> None:
    assert read_decoding(None, DecoderSizes(window=9), "on") == Decoding("lookahead", window=9)
    assert read_decoding(None, DecoderSizes(preset="13b"), "on") == Decoding("lookahead", 10, 5, 10)


def test_what_is_given_by_hand_wins_over_the_preset() -> None:
    sizes = DecoderSizes(preset="7b", guesses=3)
    assert read_decoding("lookahead", sizes, "on") == Decoding("lookahead", 15, 5, 3)


def test_nothing_and_zero_are_not_the_same() -> None:
    assert read_decoding(None, DecoderSizes(window=0, guesses=0), "on") == Decoding(
        "lookahead", window=0, guesses=0
    )


@pytest.mark.parametrize(
    ("decoder", "sizes", "sentence"),
    [
        (
            "auto",
            DecoderSizes(preset="7b"),
            "--preset would change nothing with --decoder auto. Leave it out.",
        ),
        ("auto", DecoderSizes(window=5, guesses=5), "--window and --guesses would change nothing with"),
        (
            "prompt-lookup",
            DecoderSizes(ngram=3),
            "--ngram would change nothing with --decoder prompt-lookup.",
        ),
        ("lookahead", DecoderSizes(rows=8), "--rows would change nothing with --decoder lookahead."),
        (None, DecoderSizes(preset="7b", rows=8), "--rows would change nothing with --decoder lookahead."),
        ("jacobi", DecoderSizes(rows=8), "--rows would change nothing with --decoder jacobi."),
        ("jacobi", DecoderSizes(window=8, ngram=3), "--ngram would change nothing with --decoder jacobi."),
        ("plain", DecoderSizes(rows=8), "--rows would change nothing with --decoder plain."),
        ("plain", DecoderSizes(preset="7b"), "--preset would change nothing with --decoder plain."),
        (
            "lookahead",
            DecoderSizes("7b", 5, 3, 5),
            "--preset would change nothing beside --window, --ngram and --guesses.",
        ),
    ],
)
def test_a_size_that_would_do_nothing_is_refused(
    decoder: DecoderName | None, sizes: DecoderSizes, sentence: str
) -> None:
    with pytest.raises(BadOption) as caught:
        read_decoding(decoder, sizes, "on")
    assert sentence in str(caught.value)


def test_jacobi_takes_its_window() -> None:
    assert read_decoding("jacobi", DecoderSizes(window=8), "on") == Decoding("jacobi", window=8)


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


def test_lanes_keep_their_order_and_lose_their_blanks() -> None:
    assert [lane.name for lane in read_lanes(" auto:8 , plain", DecoderSizes(), same_text=True)] == [
        "auto:8",
        "plain",
    ]


@pytest.mark.parametrize(
    "lane",
    [
        "",
        "fast",
        "auto:",
        "auto:x",
        "auto:1/2",
        "auto:-1",
        "plain:1",
        "lookahead:7c",
        "lookahead:1/2",
        "jacobi:7b",
    ],
)
def test_a_lane_that_is_none_is_named_with_those_that_are(lane: str) -> None:
    with pytest.raises(BadOption) as caught:
        read_lanes(f"plain,{lane}", DecoderSizes(), same_text=True)
    assert str(caught.value).startswith(
        f"Unknown decoder {lane!r}. Choose from plain, auto, auto:32 (rows), "
    )


def test_a_lane_with_an_impossible_size_gets_its_rule() -> None:
    with pytest.raises(BadOption, match="Ngram must be from 2 to 16, got 99"):
        read_lanes("lookahead:5/99/5", DecoderSizes(), same_text=True)
