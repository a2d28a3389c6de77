"""The charts of the live numbers."""

import re
from typing import get_args

import pytest

from app.settings import assets_dir
from app.ui.live.charts import BOTTOM, TOP, hit_chart, length_histogram, step_bars, token_chart
from app.ui.live.step_history import CHART_STEPS, StepHistory, StepOrigins, extend
from app.ui.live.tokens import ABOUT, ORIGINS
from app.values.messages import Origin
from tests.ui.live.traces import step_of

THREE = extend(
    StepHistory(),
    [step_of(1, "window", "window", "model"), step_of(2, "model"), step_of(3, "prompt", "model")],
)


def heights(html: str) -> list[float]:
    """The y of each point of a chart's curve, which begins and ends at the bottom."""
    points = re.search(r'<polyline points="0,(\d+) ([^"]*) \d+,(\d+)"', html)
    assert points and int(points[1]) == int(points[3]) == BOTTOM
    return [float(point.split(",")[1]) for point in points[2].split()]


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


def test_the_curves_begin_at_plain_decoding_and_at_no_hits() -> None:
    means = extend(StepHistory(), [step_of(1, "model")]).means
    assert heights(token_chart(means)) == heights(hit_chart(means)) == [BOTTOM]
    assert "1 token: without lookahead" in token_chart(means)


def test_the_curves_show_the_newest_means() -> None:
    assert heights(token_chart(THREE.means)) == [TOP, 40.0, 40.0]
    assert heights(hit_chart(THREE.means)) == [TOP, 40.0, 31.5]
    assert "3 tokens per step" in token_chart(THREE.means)


def test_the_chart_grows_with_what_it_shows_until_it_is_full() -> None:
    events = [step_of(number, *("output",) * 30) for number in range(1, 2 * CHART_STEPS)]
    means = extend(StepHistory(), events).means
    assert heights(token_chart(means)) == heights(hit_chart(means)) == [TOP] * CHART_STEPS
    assert "scale(1,1)" in token_chart(means) and "scale(2,1)" in token_chart(means[:60])
    assert "scale(5,1)" in token_chart(means[:3]), "a short reply does not fill the width"


def test_the_columns_are_shares_of_steps() -> None:
    html = length_histogram(THREE)
    assert html.count(">33%<") == 3
    assert 'aria-label="Tokens written in one step: 1: 33%, 2: 33%, 3: 33%"' in html
