"""A training conversation, and functions that clean and arrange the messages of all sources."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.values.messages import Message, Role

PLAIN = str.maketrans(
    {
        "\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2014": " - ", "\u2013": "-",
        "\u2026": "...",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages to learn from, and the data set that they come from."""

    source: str
    messages: tuple[Message, ...]

    def as_json(self) -> dict[str, object]:
        """Return the conversation as a dictionary for a line of the training text."""
        messages = [{"role": one.role, "content": one.content} for one in self.messages]
        return {"source": self.source, "messages": messages}


def clean(text: str) -> str:
    """Return the text with plain quotes and dashes, and with single spaces between words."""
    return re.sub(r"[ \t]+", " ", text.translate(PLAIN)).strip()


def pair(source: str, question: str, answer: str) -> Conversation:
    return Conversation(source, (Message("user", question), Message("assistant", answer)))


def alternating(lines: Iterable[tuple[Role, str]]) -> list[Message]:
    """Return messages that alternate between the roles, by joining consecutive lines of one role."""
    messages: list[Message] = []
    for role, text in lines:
        if messages and messages[-1].role == role:
            messages[-1] = replace(messages[-1], content=messages[-1].content + " " + clean(text))
        else:
            messages.append(Message(role, clean(text)))
    return messages


def from_the_user_on(messages: list[Message]) -> list[Message]:
    """Return the messages, without the first one if it is the assistant's."""
    return messages[1:] if messages and messages[0].role == "assistant" else messages
