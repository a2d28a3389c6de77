"""The leaderboard and its picture."""

from xml.etree import ElementTree

from app.commands.bench_measurement import LaneNumbers, SetResults
from app.commands.leaderboard import SPEC_BENCH, Leaderboard
from app.commands.leaderboard_picture import picture


def numbers(name: str, speed: float | None, tokens: float = 1.0, same: float = 1.0) -> LaneNumbers:
    return LaneNumbers(name, tokens, 9.0, 9.0, 8.0, 0.5, speed, same == 1, same, {})


def results(*names: str) -> list[SetResults]:
    return [
        SetResults(name, 2, (numbers("plain", 1.0), numbers("auto | <8>", 1.5 + place, 2.5, 0.75)), 2)
        for place, name in enumerate(names)
    ]


def test_the_fastest_comes_first_with_a_column_for_each_category() -> None:
    lines = Leaderboard.of(results("chat", "code")).markdown().splitlines()
    assert lines == [
        "| Models | chat | code | #Mean Accepted Tokens | Overall | Same text |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| auto \\| <8> | 1.50x | 2.50x | 2.50 | 2.00x | 75% |",
        "| plain | 1.00x | 1.00x | 1.00 | 1.00x | yes |",
    ]


def test_published_rows_stand_beside_spec_bench_and_say_so() -> None:
    text = Leaderboard.of(results(*SPEC_BENCH)).markdown()
    published = [line for line in text.splitlines() if "(published)" in line]
    assert "Multi-turn Conversation" in text
    name, *speeds = [cell.strip() for cell in published[0].strip("|").split("|")]
    assert name == "LADE, Vicuna-7B on an A100 (published)"
    assert speeds == ["1.40x", "1.14x", "1.19x", "1.24x", "1.55x", "1.09x", "1.66", "1.27x", "-"]
    assert "published" not in Leaderboard.of(results("qa", "rag")).markdown()


def test_without_plain_there_are_no_speeds() -> None:
    board = Leaderboard.of([SetResults("chat", 1, (numbers("auto", None),), 1)])
    assert board.markdown().splitlines()[-1] == "| auto | - | 1.00 | - | yes |"
    assert ElementTree.fromstring(picture(board, "title")) is not None


def test_the_picture_has_a_bar_for_each_decoder_and_category() -> None:
    root = ElementTree.fromstring(picture(Leaderboard.of(results("chat", "code")), "A & B"))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "A & B"
    assert texts[1:10] == ["chat", "1.50x", "1.00x", "code", "2.50x", "1.00x", "Overall", "2.00x", "1.00x"]
    assert "auto | <8>, 2.50 tokens per step" in texts
    widths = [float(bar.get("width", "0")) for bar in root.iter("{http://www.w3.org/2000/svg}rect")][1:7]
    assert [round(width / widths[1], 2) for width in widths] == [1.5, 1, 2.5, 1, 2, 1]
