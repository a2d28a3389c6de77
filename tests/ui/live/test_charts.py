"""The charts of the live numbers."""

from typing import get_args

from app.settings import assets_dir
from app.ui.live.tokens import ABOUT, ORIGINS
from app.values.messages import Origin


def test_every_origin_has_a_word_a_hover_and_a_colour_in_both_themes() -> None:
    css = (assets_dir() / "ui" / "foresight.css").read_text(encoding="utf-8")
    assert set(ABOUT) == set(get_args(Origin))
    for origin in ORIGINS:
        assert css.count(f"--of-{origin}: #") == 2
