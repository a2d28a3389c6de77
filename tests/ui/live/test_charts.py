"""The charts of the live numbers."""

import re
from typing import get_args

from app.settings import assets_dir
from app.ui.live.charts import (
    ALL,
    BARS_HEIGHT,
    HEIGHT,
    NONE,
    PLAIN,
    TOP,
    average_chart,
    length_histogram,
    step_bars,
)
from app.ui.live.step_history import CHART_STEPS, StepHistory, extend
from app.ui.live.tokens import ABOUT, ORIGINS
from app.values.messages import Origin
from tests.ui.live.pieces import step_of

THREE = extend(
    StepHistory(),
    [step_of(1, "window", "window", "model"), step_of(2, "model"), step_of(3, "prompt", "model")],
)


def heights(html: str, line: str) -> list[float]:
    """The y of each point of a line of the chart."""
    points = re.search(f'<polyline class="{line}" points="([^"]*)"', html)
    assert points
    return [float(point.split(",")[1]) for point in points[1].split()]


def test_every_origin_has_a_word_a_hover_and_a_colour_in_both_themes() -> None:
    css = (assets_dir() / "ui" / "foresight.css").read_text(encoding="utf-8")
    assert set(ABOUT) == set(get_args(Origin))
    for origin in ORIGINS:
        assert css.count(f"--of-{origin}: #") == 2


def test_step_bars_have_a_line_of_boxes_for_each_run_of_an_origin() -> None:
    html = step_bars(THREE)
    assert 'class="window" stroke-width="4" stroke-dasharray="7 1" d="M2 56v-16"' in html
    assert html.count("<path") == 3
    assert "Tokens of the last 3 steps" in html


def test_a_very_long_step_stays_inside_the_bars() -> None:
    tops = re.search(r"M2 56v-([\d.]+)", step_bars(StepHistory((("output",) * 40,))))
    assert tops and float(tops[1]) <= BARS_HEIGHT


def test_the_chart_begins_at_plain_and_at_no_hits() -> None:
    html = average_chart(extend(StepHistory(), [step_of(1, "model")]))
    assert heights(html, "tokens") == [PLAIN]
    assert heights(html, "hits") == [NONE]
    label = re.search(r'class="tokens" x="5" y="(\d+)"', html)
    assert label and int(label[1]) < PLAIN, "it stands apart from the label of plain decoding"


def test_the_chart_ends_in_its_newest_values() -> None:
    html = average_chart(THREE)
    assert "<tspan>2.0</tspan> tokens" in html
    assert "<tspan>67%</tspan> hits" in html
    assert 'aria-label="Tokens per step and hit rate of the last 3 steps"' in html


def test_the_chart_grows_with_what_it_shows() -> None:
    events = [step_of(number, *("output",) * 30) for number in range(1, 2 * CHART_STEPS)]
    html = average_chart(extend(StepHistory(), events))
    assert heights(html, "tokens") == [TOP] * CHART_STEPS
    assert heights(html, "hits") == [ALL] * CHART_STEPS
    assert max(heights(average_chart(THREE), "hits")) < HEIGHT


def test_a_chart_without_steps_has_its_axes() -> None:
    html = average_chart(StepHistory())
    assert "1.0 plain" in html
    assert heights(html, "tokens") == []


def test_the_columns_are_shares_of_steps() -> None:
    html = length_histogram(THREE)
    assert html.count(">33%<") == 3
    assert 'aria-label="Tokens written in one step: 1: 33%, 2: 33%, 3: 33%"' in html
