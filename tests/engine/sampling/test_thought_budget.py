"""A budget closes a thought after its tokens, and changes nothing else."""

from collections.abc import Sequence

import pytest
import torch

from app.engine.sampling.thought_budget import thought_budget
from app.values.chat_format import ReplyFormat

FORMAT = ReplyFormat("<t>", "</t>", thought_end="\n</t>\n\n")
LOGITS = torch.arange(128, dtype=torch.float32)


def encode(text: str) -> list[int]:
    return list(text.encode())


def decode(ids: Sequence[int]) -> str:
    return bytes(ids).decode()


def forced(written: str, budget: int, is_open: bool = False, prompt: str = "Hi", begun: str = "") -> str:
    """The text that a reply must continue with after `written`, as far as it is forced."""
    process = thought_budget(budget, FORMAT, is_open, len(prompt), len(prompt + begun), encode, decode)
    history, text = encode(prompt + begun + written), ""
    while not torch.equal(logits := process(LOGITS, history), LOGITS):
        assert int((logits > -torch.inf).sum()) == 1
        history.append(int(logits.argmax()))
        text += chr(history[-1])
    return text


@pytest.mark.parametrize(
    ("written", "budget", "is_open", "expected"),
    [
        ("<t>hm so", 5, False, "\n</t>\n\n"),
        ("<t>hm s", 5, False, ""),
        ("hm so", 5, True, "\n</t>\n\n"),
        ("so.\n</", 6, True, "t>\n\n"),
        ("so.\n", 4, True, "</t>\n\n"),
        ("</t> Ye", 7, True, ""),
        ("An answer", 6, False, ""),
    ],
)
def test_the_rest_of_the_closing_is_forced_after_the_budget(
    written: str, budget: int, is_open: bool, expected: str
) -> None:
    assert forced(written, budget, is_open) == expected


def test_a_thought_that_is_continued_after_its_budget_is_closed_at_once() -> None:
    assert forced("", 3, begun="<t>hm, so, well") == "\n</t>\n\n"
    assert forced("", 3, begun="<t>hm\n</t>\n\nYes, ") == ""
