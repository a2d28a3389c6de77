"""Ready-made prompts are there for every kind of text but one's own."""

from typing import get_args

from app.conversation.race.race_setup import next_prompt, ready_prompts
from app.values.race import TextKind


def test_every_kind_but_ones_own_has_prompts() -> None:
    assert {prompt.kind for prompt in ready_prompts()} == set(get_args(TextKind)) - {"own"}


def test_the_quoting_prompts_bring_their_sources() -> None:
    quoting = [prompt.text for prompt in ready_prompts() if prompt.kind == "quoting"]
    assert all("[1] " in text and "Question:" in text for text in quoting)


def test_the_next_prompt_goes_round() -> None:
    prompts = ready_prompts()
    first = next_prompt(prompts, "code", "")
    texts = [first]
    while (following := next_prompt(prompts, "code", texts[-1])) != first:
        texts.append(following)
    assert texts == [prompt.text for prompt in prompts if prompt.kind == "code"]


def test_ones_own_text_has_no_ready_made_one() -> None:
    assert next_prompt(ready_prompts(), "own", "Mine") == ""
