"""The X-ray: which step it shows, what it says, and what of it is exported."""

import json
import re
from html import unescape

import pytest

from app.ui.live.exporting import exported
from app.ui.live.port import Recording
from app.ui.live.token_text import LONGEST, cells, shortened, visible
from app.ui.live.window_table import window_table
from app.ui.live.xray import facts, key, xray
from app.ui.live.xray_view import Move, XrayView, moved, shown_number
from tests.ui.live.traces import ESSAY, PLAIN, TEXTS, WORDS, recording_of, texts

LIVE = XrayView()
TWO = recording_of(ESSAY, PLAIN)


def test_what_cannot_be_seen_gets_a_sign() -> None:
    assert visible(" a\n\tb\x00") == "·a⏎⇥b�"
    assert visible("") == "∅"


def test_long_tokens_are_cut_and_wide_ones_take_two_cells() -> None:
    assert len(shortened("x" * 40)) == LONGEST
    assert (cells("ab"), cells("日本")) == (2, 4)


@pytest.mark.parametrize(
    ("move", "on_screen", "shown"),
    [("pause", 12, 12), ("back", 12, 11), ("back", 11, 11), ("forward", 11, 12), ("forward", 12, 12),
     ("first", 12, 11), ("last", 11, 12), ("go", 11, 11), ("go", 999, 12), ("go", 0, 11)],
)  # fmt: skip
def test_steps_are_walked_within_what_is_kept(move: Move, on_screen: int, shown: int) -> None:
    assert moved(move, on_screen, recording_of(ESSAY, PLAIN, last=12)) == XrayView(False, shown)


def test_live_follows_the_newest_step() -> None:
    assert moved("live", 1, TWO) == LIVE
    assert shown_number(LIVE, TWO) == 2
    assert shown_number(LIVE, Recording()) == 0


def test_a_step_that_is_gone_gives_way_to_the_oldest() -> None:
    assert shown_number(XrayView(False, 3), recording_of(ESSAY, PLAIN, last=40)) == 39


def test_a_view_before_the_first_step_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more, got -1"):
        XrayView(False, -1)


def test_moving_where_there_is_nothing_is_harmless() -> None:
    assert moved("back", 0, Recording()) == XrayView(False, 0)


def test_without_steps_it_says_what_will_come() -> None:
    html = xray(LIVE, Recording(), texts)
    assert "each forward pass of the next reply appears here" in html
    assert 'data-shown="0"' in html


def test_its_data_say_where_it_stands() -> None:
    html = xray(XrayView(False, 1), TWO, texts)
    assert 'data-live="no" data-first="1" data-last="2" data-shown="1"' in html


def test_the_text_goes_up_to_the_step_and_lights_what_it_wrote() -> None:
    first, second = (xray(XrayView(False, number), TWO, texts) for number in (1, 2))
    assert '<span>…seven</span><mark class="window" title="window">eight</mark><mark class="model"' in first
    assert "<span>…eight four</span><mark" in second


def test_the_same_picture_has_the_same_key() -> None:
    assert key(LIVE, TWO) == key(LIVE, recording_of(ESSAY, PLAIN))
    assert key(LIVE, TWO) != key(XrayView(False, 2), TWO)
    assert key(LIVE, TWO) != key(LIVE, recording_of(PLAIN, ESSAY))
    # More of what its window guessed has come meanwhile.
    paused = XrayView(False, 1)
    assert key(paused, recording_of(ESSAY)) != key(paused, TWO)


def test_a_step_is_told_in_a_sentence() -> None:
    assert facts(ESSAY) == (
        "One forward pass checked 4 drafted tokens and 8 guesses of the window: 1 accepted, "
        "<b>2 tokens written</b>."
    )
    assert "no drafted tokens: 0 accepted, <b>1 token written</b>" in facts(PLAIN)


def test_a_step_without_a_window_shows_none() -> None:
    assert "<table" not in xray(LIVE, TWO, texts)
    assert "<table" in xray(XrayView(False, 1), TWO, texts)


def test_guesses_of_the_same_place_stand_below_each_other() -> None:
    rows = window_table(ESSAY.trace.window, [7, 8, 4, 11], 3, WORDS).split("<tr")
    texts_of = [[unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", row)] for row in rows[2:]]
    assert texts_of == [
        ["", "", "t3", "t2", "t1"],
        ["", "", "eight", "·four", "t1", ""],
        ["seven", "eight", "nine⏎", "", ""],
        ["seven", "eight", "·four", "eleven", ""],
    ]


def test_guesses_that_came_true_are_lit() -> None:
    html = window_table(ESSAY.trace.window, [7, 8, 4, 11], 3, WORDS)
    assert re.findall(r'<td class="true" title="([^"]*)"', html) == ["eight", "·four", "eight"]
    assert re.findall(r'<td class="(?:fresh|later)" title="([^"]*)"', html)[-1] == "eleven"


def test_nothing_that_a_token_says_is_markup() -> None:
    html = xray(XrayView(False, 1), TWO, texts)
    assert "&lt;i&gt;&amp;" in html
    assert "<i>" not in html


def test_the_export_has_every_step_with_texts_settings_and_numbers() -> None:
    document = json.loads(exported(recording_of(ESSAY, PLAIN, last=12), texts))
    assert document["settings"] == {"decoder": "lookahead"}
    assert document["statistics"]["steps"] == 12
    assert [step["number"] for step in document["steps"]] == [11, 12]
    assert document["steps"][0]["said"] == [8, 4, 1, 2, 3]
    assert document["steps"][0]["written"] == [8, 4]
    assert document["texts"]["6"] == TEXTS[6]
