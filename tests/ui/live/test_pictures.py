"""The panel's pictures: chart, strip and distributions as SVG and lists."""

import re
from typing import get_args

from app.messages import Origin
from app.settings import assets_dir
from app.ui.live.bars import lengths, sources
from app.ui.live.chart import ALL, HEIGHT, NONE, PLAIN, TOP, chart
from app.ui.live.origins import ABOUT, LEGEND, ORIGINS
from app.ui.live.strip import HEIGHT as STRIP_HEIGHT
from app.ui.live.strip import strip
from app.ui.live.trail import CHART_STEPS, Trail, extend
from tests.ui.live.pieces import step_of

THREE = extend(
    Trail(), [step_of(1, "window", "window", "model"), step_of(2, "model"), step_of(3, "prompt", "model")]
)


def heights(html: str, line: str) -> list[float]:
    """The y of each point of a line of the chart."""
    points = re.search(f'<polyline class="{line}" points="([^"]*)"', html)
    assert points
    return [float(point.split(",")[1]) for point in points[1].split()]


def test_every_origin_has_a_word_a_hover_and_a_colour_in_both_themes() -> None:
    css = (assets_dir() / "ui" / "foresight.css").read_text(encoding="utf-8")
    assert set(ORIGINS) == set(ABOUT) == set(get_args(Origin))
    for origin in ORIGINS:
        assert css.count(f"--of-{origin}: #") == 2
        assert f'<li class="{origin}"' in LEGEND


def test_the_strip_has_a_line_of_boxes_for_each_run_of_an_origin() -> None:
    html = strip(THREE)
    assert 'class="window" stroke-width="4" stroke-dasharray="7 1" d="M2 56v-16"' in html
    assert html.count("<path") == 3
    assert "Tokens of the last 3 steps" in html


def test_a_very_long_step_stays_inside_the_strip() -> None:
    tops = re.search(r"M2 56v-([\d.]+)", strip(Trail((("output",) * 40,))))
    assert tops and float(tops[1]) <= STRIP_HEIGHT


def test_the_chart_begins_at_plain_and_at_no_hits() -> None:
    html = chart(extend(Trail(), [step_of(1, "model")]))
    assert heights(html, "tokens") == [PLAIN]
    assert heights(html, "hits") == [NONE]


def test_the_chart_ends_in_its_newest_values() -> None:
    html = chart(THREE)
    assert "<tspan>2.0</tspan> tokens" in html
    assert "<tspan>67%</tspan> hits" in html
    assert 'aria-label="Tokens per step and hit rate of the last 3 steps"' in html


def test_the_chart_grows_with_what_it_shows() -> None:
    events = [step_of(number, *("output",) * 30) for number in range(1, 2 * CHART_STEPS)]
    html = chart(extend(Trail(), events))
    assert heights(html, "tokens") == [TOP] * CHART_STEPS
    assert heights(html, "hits") == [ALL] * CHART_STEPS
    assert max(heights(chart(THREE), "hits")) < HEIGHT


def test_a_chart_without_steps_has_its_axes() -> None:
    html = chart(Trail())
    assert "1.0 plain" in html
    assert heights(html, "tokens") == []


def test_the_columns_are_shares_of_steps() -> None:
    html = lengths(THREE)
    assert html.count(">33%<") == 3
    assert 'aria-label="Tokens written in one step: 1: 33%, 2: 33%, 3: 33%"' in html


def test_sources_are_counted_and_always_all_there() -> None:
    html = sources(THREE)
    assert html.count("<li ") == len(ORIGINS)
    assert "<span>window</span>" in html
    assert "<b>2</b><em>33%</em>" in html
    assert sources(Trail()).count('class="none">0') == len(ORIGINS)
