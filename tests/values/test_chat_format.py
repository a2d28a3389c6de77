"""The levels of thinking that a chat template offers."""

import pytest

from app.values.chat_format import ChatFormat, Thinking, ThinkingLevel, ThinkingMode

SWITCH = ChatFormat(modes=(ThinkingMode("on"), ThinkingMode("off")))
EFFORTS = ChatFormat(modes=(ThinkingMode("medium"), ThinkingMode("low"), ThinkingMode("high")))


@pytest.mark.parametrize(
    ("chat_format", "level", "nearest"),
    [
        (SWITCH, "default", "on"), (SWITCH, "off", "off"), (SWITCH, "minimal", "off"), (SWITCH, "low", "on"),
        (SWITCH, "max", "on"), (EFFORTS, "off", "low"), (EFFORTS, "on", "medium"), (EFFORTS, "high", "high"),
        (EFFORTS, "max", "high"),
        (ChatFormat(), "high", "default"),
    ],
)  # fmt: skip
def test_a_level_stands_for_the_nearest_that_the_template_has(
    chat_format: ChatFormat, level: ThinkingLevel, nearest: ThinkingLevel
) -> None:
    assert chat_format.mode(level).level == nearest


def test_a_choice_of_thinking_is_checked() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Thinking(budget=-1)
    with pytest.raises(ValueError, match="thinking must be one of"):
        Thinking("sometimes")  # type: ignore[arg-type]
