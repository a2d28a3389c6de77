"""Finished races, and what a person reads of HTML."""

import re
from html import unescape

import pytest

from app.values.race import RaceResult
from app.values.reply_statistics import Margin
from tests.racing import AUTO, PLAIN, LaneEngine, make_plan, run_race


def text(html: str) -> str:
    """What a person reads."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


@pytest.fixture(scope="module")
def result() -> RaceResult:
    return run_race(LaneEngine(), make_plan(PLAIN, AUTO))


@pytest.fixture(scope="module")
def differing() -> RaceResult:
    engine = LaneEngine(texts={"auto": "one two three <b>bold</b>"})
    engine.closeness = Margin("four ", "<b>", 0.03)
    return run_race(engine, make_plan(PLAIN, AUTO))
