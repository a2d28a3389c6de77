"""Turns as gr.Chatbot takes them. Every text goes as a content block.

A bare string would pass through `inspect.cleandoc`: indentation and tabs of code would be lost. Nothing
is ever read back from the Chatbot; the conversation is the truth.
"""

import re
from collections.abc import Iterable
from typing import Any

from app.conversation import ReplyState

ChatbotMessage = dict[str, Any]
AnsweredTurn = tuple[str, ReplyState]
"""A question, and its answer as far as it is written."""

# Fenced blocks (an open one runs to the end), code spans and indented lines: shown as they are anyway.
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`|^(?: {4}|\t)[^\n]*)", re.DOTALL | re.MULTILINE)
_FETCHES = re.compile(r"!(?=\[)|<(?=[a-zA-Z/!?])")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#|~!])")


def chatbot_messages(turns: Iterable[AnsweredTurn]) -> list[ChatbotMessage]:
    """Questions with their finished answers; an answer still being written is shown elsewhere."""
    messages: list[ChatbotMessage] = []
    for question, answer in turns:
        messages.append(_message("user", safe_markdown(question)))
        if answer.is_done:
            messages.append(_message("assistant", answer_text(answer)))
    return messages


def answer_text(answer: ReplyState) -> str:
    """The answer as Markdown. One that failed keeps what was written and ends with the reason."""
    text = safe_markdown(answer.text)
    if answer.phase != "failed":
        return text or "*The model ended its reply without a word.*"
    reason = f"> {escape_markdown(answer.note)}"
    # A failure may come inside an open code fence; the reason must stand outside it.
    fence = "\n```" if text.count("```") % 2 else ""
    return f"{text}{fence}\n\n{reason}" if text else reason


def safe_markdown(text: str) -> str:
    """Markdown without images and HTML tags: they show as written, and nothing is fetched for them.

    The page's Content-Security-Policy would block the fetch; this keeps broken images out of sight."""
    parts = _CODE.split(text)
    # With one group, `split` puts what lies between code at even places and code at odd ones.
    parts[::2] = [_FETCHES.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is written."""
    return _MARKDOWN.sub(r"\\\1", text)


def _message(role: str, text: str) -> ChatbotMessage:
    return {"role": role, "content": [{"type": "text", "text": text}]}
