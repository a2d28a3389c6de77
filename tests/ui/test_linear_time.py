"""What renders text on the page takes linear time."""

from collections.abc import Callable

from app.ui.chat.code import TIME_LIMIT, code_html
from app.ui.chat.formulas import formula_html
from app.ui.chat.live_markdown import LiveMarkdown
from app.ui.chat.markdown import render
from app.ui.chat.plain_text import typed_html
from app.ui.chat.provenance import coloured_html
from app.ui.chat.reply_text import LiveReplyText, cited_html, reply_html
from app.ui.frame.file_export import file_html, file_name
from app.ui.live.tokens import visible
from app.values.chat import TokenMark
from app.values.document import Citation, Sources
from tests.linear_time import Read, linear_time_tests


def in_steps(text: str, take: Callable[[str, bool], object]) -> None:
    """Show a text as it grows, in two halves, and then as done."""
    half = len(text) // 2
    take(text[:half], False)
    take(text, False)
    take(text, True)


def stopped() -> float:
    """A clock by which rendering takes no time, so that nothing is put off."""
    return 0.0


def live_markdown(text: str) -> None:
    in_steps(text, LiveMarkdown(stopped).update)


def live_reply(text: str) -> None:
    reply = LiveReplyText(stopped)
    in_steps(text, lambda part, is_done: reply.update(part, is_done=is_done))


def live_code(text: str) -> None:
    in_steps("```python\n" + text, LiveMarkdown(stopped).update)


def code(language: str) -> Read:
    return lambda text: code_html(text, language)


def cited(text: str) -> None:
    sources = Sources((Citation(1, 1, "Title", 0, 1),))
    cited_html(render(text), 1, sources)


def coloured(text: str) -> None:
    coloured_html(text, [TokenMark(end, "model", end) for end in range(4, len(text), 4)])


READERS: dict[str, Read] = {
    "reply": reply_html, "question": typed_html, "live markdown": live_markdown, "live reply": live_reply,
    "live code": live_code,
    "formula": lambda text: formula_html(text, text, True),
    "code": code("python"),
    "code in C": code("c"),
    "code in C#": code("csharp"),
    "code in HTML": code("html"),
    "code of an unknown language": lambda text: code_html(text, text),
    "citations": cited, "token colours": coloured, "file name": file_name,
    "file": lambda text: file_html(text, text),
    "visible tokens": visible,
}  # fmt: skip


test_it_takes_linear_time, test_it_takes_linear_time_for_a_megabyte = linear_time_tests(READERS, TIME_LIMIT)
