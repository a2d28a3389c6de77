"""What the command line means by its decoders, presets and lanes."""

import pytest

from app.commands.decoder_options import DecoderSizes, read_decoding, read_lanes
from app.errors import BadOption
from app.messages import DecoderName, Decoding

BASE = Decoding(window=6, ngram=3, guesses=2, rows=12, same_text=False)


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
            "are only for --decoder lookahead, and the decoder is auto. It has --rows instead.",
        ),
        (
            "prompt-lookup",
            DecoderSizes(ngram=3),
            "are only for --decoder lookahead, and the decoder is prompt-lookup.",
        ),
        (
            "lookahead",
            DecoderSizes(rows=8),
            "--rows is only for --decoder auto, and the decoder is lookahead.",
        ),
        ("jacobi", DecoderSizes(rows=8), "and the decoder is jacobi. Leave it out or choose auto."),
    ],
)
def test_a_size_that_would_do_nothing_is_refused(
    decoder: DecoderName, sizes: DecoderSizes, sentence: str
) -> None:
    with pytest.raises(BadOption) as caught:
        read_decoding(decoder, sizes, "on")
    assert sentence in str(caught.value)


def test_plain_takes_every_size_as_the_other_end_of_a_comparison() -> None:
    assert read_decoding("plain", DecoderSizes("7b", rows=8), "on") == Decoding("plain", 15, 5, 15, rows=8)


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
    [found] = read_lanes(lane, BASE)
    assert (found.name, found.decoding) == (lane, decoding)


def test_lanes_keep_their_order_and_lose_their_blanks() -> None:
    assert [lane.name for lane in read_lanes(" auto:8 , plain", BASE)] == ["auto:8", "plain"]


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
        read_lanes(f"plain,{lane}", BASE)
    assert str(caught.value).startswith(
        f"Unknown decoder {lane!r}. Choose from plain, auto, auto:32 (rows), "
    )


def test_a_lane_with_an_impossible_size_gets_its_rule() -> None:
    with pytest.raises(BadOption, match="Ngram must be from 2 to 16, got 99"):
        read_lanes("lookahead:5/99/5", BASE)
