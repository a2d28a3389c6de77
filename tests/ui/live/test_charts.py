"""The charts of the live numbers."""

import re
from typing import get_args

import pytest

from app.settings import assets_dir
from app.ui.live.charts import step_bars
from app.ui.live.step_history import StepHistory, StepOrigins, extend
from app.ui.live.tokens import ABOUT, ORIGINS
from app.values.messages import Origin
from tests.ui.live.traces import step_of

THREE = extend(
    StepHistory(),
    [step_of(1, "window", "window", "model"), step_of(2, "model"), step_of(3, "prompt", "model")],
)


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
