"""A training conversation, and the cleaning that all sources share."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.values.messages import Message, Role

PLAIN = str.maketrans(
    {
        "\u2019": "'",
        "\u2018": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2014": " - ",
        "\u2013": "-",
        "\u2026": "...",
    }
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages to learn from, and the data set that they come from."""

    source: str
    messages: tuple[Message, ...]

    def as_json(self) -> dict[str, object]:
        """The form of one line of the training text."""
        messages = [{"role": one.role, "content": one.content} for one in self.messages]
        return {"source": self.source, "messages": messages}


def clean(text: str) -> str:
    """Text with plain quotes and dashes and single spaces."""
    return re.sub(r"[ \t]+", " ", text.translate(PLAIN)).strip()


def pair(source: str, question: str, answer: str) -> Conversation:
    """A conversation of one question and its answer."""
    return Conversation(source, (Message("user", question), Message("assistant", answer)))


def alternating(lines: Iterable[tuple[Role, str]]) -> list[Message]:
    """Messages that take turns: what one side says twice in a row becomes one message."""
    messages: list[Message] = []
    for role, text in lines:
        if messages and messages[-1].role == role:
            messages[-1] = replace(messages[-1], content=messages[-1].content + " " + clean(text))
        else:
            messages.append(Message(role, clean(text)))
    return messages


def from_the_user_on(messages: list[Message]) -> list[Message]:
    """The messages without an assistant's opening line."""
    return messages[1:] if messages and messages[0].role == "assistant" else messages
