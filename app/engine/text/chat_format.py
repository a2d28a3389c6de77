"""Finds how a model talks, by rendering its chat template with probe messages.

It runs where templates run: in the sandbox's process, or in this one for a trusted model.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.values.chat_format import ChatFormat

Render = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any]], str]
"""(messages, variables of the template) -> the prompt. Raises an exception if the template refuses the messages."""


def find_chat_format(_render: Render) -> ChatFormat:
    """Return the format of a chat template."""
    return ChatFormat()
