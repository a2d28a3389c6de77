"""The prompts of an empty chat."""

import pytest

from app.ui.welcome.render import FOR_DEMO, FOR_OTHERS, starters_for


def test_the_demo_model_has_starters_of_its_own_and_all_others_share_theirs() -> None:
    assert starters_for("demo") == FOR_DEMO
    assert starters_for("org/small@c0ffee") == starters_for("/models/mine") == FOR_OTHERS


@pytest.mark.parametrize("starters", [FOR_DEMO, FOR_OTHERS], ids=["demo", "others"])
def test_there_is_a_quote_from_a_text_and_no_two_are_alike(starters: tuple) -> None:  # type: ignore[type-arg]
    assert "Quote from a text" in [one.title for one in starters]
    assert len({one.prompt for one in starters}) == len({one.title for one in starters}) == 4
