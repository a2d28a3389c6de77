"""The charts of the live numbers."""

import re
from typing import get_args

import pytest

from app.settings import assets_dir
from app.ui.live.charts import ALL, HEIGHT, NONE, PLAIN, TOP, average_chart, length_histogram, step_bars
from app.ui.live.step_history import CHART_STEPS, StepHistory, StepOrigins, extend
from app.ui.live.tokens import ABOUT, ORIGINS
from app.values.messages import Origin
from tests.ui.live.traces import step_of

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


@pytest.mark.parametrize("origins", [THREE.origins, (("output",) * 40, ("window", "model"))])
def test_step_bars_show_every_token_inside_the_picture(origins: tuple[StepOrigins, ...]) -> None:
    html = step_bars(StepHistory(origins))
    assert f"Tokens of the last {len(origins)} steps" in html
    for origin in ORIGINS:
        path = re.search(rf'class="{origin}" [^>]*stroke-dasharray="([\d.]+) 1" d="([^"]*)"', html)
        runs = re.findall(r"M([\d.]+) ([\d.]+)v-([\d.]+)", path[2]) if path else []
        boxes = sum(float(height) for _, _, height in runs) / (float(path[1]) + 1) if path else 0
        assert round(boxes) == sum(step.count(origin) for step in origins)
        assert all(float(bottom) - float(height) >= -0.01 for _, bottom, height in runs)


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
