"""Text that arrives: shown as far as it is there, in the end as if it had come at once, and at little cost."""

from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.ui.chat.live_markdown import LiveMarkdown
from app.ui.chat.markdown import render
from app.ui.chat.reply_text import LiveReplyText, reply_html

SNIPPETS = (
    "# A heading\n", "Some words", " and **bold", "** more", "\n", "\n\n", "- item\n", "1. one\n", "  - below\n",
    "> quote\n", "```python\n", "def f(x):\n", "    return x\n", "```\n", "````", "~~~\n", "| a | b |\n",
    "|---|---|\n", "| 1 | 2 |\n", "$$", "$x^2$", "\\[ a_b", "\\]", "\\(", "===\n", "---\n", "    indented\n",
    "\tTab", "`code", "`", "<think>", "</think>\n", "[1]: http://x\n", "\r", "\r\n", "costs $5", "\\begin{x}", "  ",
    "```markdown\n", "```sh\n", "**「", "」**",
)  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=5)), max_size=30)
REPLY = """<think>
Let me see.

- one
</think>

# Title

Some *words* and $x^2$.

```python
def f(x):
    return x
```

| a | b |
|---|---|
| 1 | 2 |

$$
\\frac{a}{b}
$$

1. one
2. two

   ```js
   let x
   ```

The end.
"""


def at_once() -> LiveMarkdown:
    """One that never takes a rest."""
    return LiveMarkdown(lambda: 0.0)


@given(pieces=TEXTS)
def test_text_in_pieces_ends_as_text_at_once(pieces: list[str]) -> None:
    live, text = at_once(), ""
    for piece in pieces:
        text += piece
        live.update(text)
    live.update(text, is_done=True)
    assert live.html == render(text)


@given(pieces=TEXTS)
@example(pieces=list(REPLY))
def test_a_reply_in_pieces_ends_as_a_reply_at_once(pieces: list[str]) -> None:
    live, text = LiveReplyText(), ""
    for piece in pieces:
        text += piece
        live.update(text)
    live.update(text, 1.5, is_done=True)
    assert live.html == reply_html(text, 1.5)


def test_what_is_settled_does_not_change() -> None:
    live = at_once()
    live.update("# A\n\nb\n\nc\n\nd")
    before = live.blocks
    live.update("# A\n\nb\n\nc\n\nd and more\n\n- e")
    assert live.blocks[: len(before) - 1] == before[:-1]
    assert before[:-1] == ('<h1 dir="auto">A</h1>\n', '<p dir="auto">b</p>\n')


def test_a_formula_may_hold_what_looked_like_blocks() -> None:
    live, text = at_once(), "$$\n# a\n# b\n# c\n"
    live.update(text)
    live.update(text + "$$\n\nx\n\ny")
    assert live.html == render(text + "$$\n\nx\n\ny")


def test_an_open_block_of_code_is_shown_as_code() -> None:
    live = at_once()
    live.update("Look:\n```python\ndef f")
    assert live.html == render("Look:\n```python\ndef f\n```").replace("\n</code>", "</code>")


def test_an_open_block_of_code_grows() -> None:
    live, text = at_once(), "```python\n"
    for number in range(200):
        text += f"x{number} = {number}\n"
        live.update(text)
        assert f"x{number}" in live.html
    assert live.html.count("<pre") == 1
    live.update(text + "```\nDone.")
    assert live.html == render(text + "```\nDone.")


def test_a_block_of_markdown_grows_past_the_blocks_that_it_holds() -> None:
    live, text = at_once(), "```markdown\n"
    for number in range(40):
        for piece in (f"Step {number}\n", "``", "`sh\n", f"ls {number}\n" * 40, "```", "\n", "then\n"):
            text += piece
            live.update(text)
    assert live.html.count("<pre") == 1
    live.update(text + "```\nDone.")
    assert live.html == render(text + "```\nDone.")


def test_what_only_seems_to_end_code_does_not() -> None:
    live, text = at_once(), "````\na\n```"
    for piece in ("", "`", "x\nb\n", "````", "\nout"):
        text += piece
        live.update(text)
    assert live.html == render("````\na\n````x\nb\n````\nout")


@pytest.mark.parametrize("text", ["so $${}", "$$\n{}\n", "\\[{}", "as \\({}"])
def test_an_open_formula_is_closed_for_show(text: str) -> None:
    live = at_once()
    live.update(text.replace("{}", r"\frac{a}{b}"))
    assert "<mfrac>" in live.html


def test_rendering_takes_no_more_than_its_share_of_the_time() -> None:
    ticks = count()  # each look at the clock takes a second
    live, shown = LiveMarkdown(lambda: float(next(ticks))), []
    for end in range(1, 100):
        live.update("word" * end)
        shown.append(live.html)
    assert len(set(shown)) < 6 and live.is_behind
    while live.is_behind:
        live.update("word" * 99)
    assert live.html == f'<p dir="auto">{"word" * 99}</p>\n', "although nothing follows"
    live.update("the end", is_done=True)
    assert live.html == '<p dir="auto">the end</p>\n'


def test_text_that_does_not_go_on_begins_anew() -> None:
    live = at_once()
    live.update("a\n\nb\n\nc\n\nd")
    live.update("other")
    assert live.html == '<p dir="auto">other</p>\n'


def test_a_thought_stays_open_while_it_is_written_and_is_folded_then() -> None:
    live = LiveReplyText()
    live.update("<think>\nLet me")
    assert '<details class="thought" open><summary>Thinking…</summary>' in live.html
    live.update("<think>\nLet me see</think>\n\nYes", 3.21)
    assert live.html.startswith('<details class="thought"><summary>Thought for 3.2 s</summary>')
    assert live.html.endswith('<p dir="auto">Yes</p>\n')
