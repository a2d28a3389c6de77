"""Finds how a model talks, by rendering its chat template with probe messages.

It runs where templates run: in the sandbox's process, or in this one for a trusted model.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app.engine.text.call_format import find_reply
from app.engine.text.prompt_probes import find_prompt_format
from app.engine.text.thought_format import Render
from app.values.chat_format import ChatFormat


def find_chat_format(render: Render, controls: Collection[str] = ()) -> ChatFormat:
    """Return the format of a chat template, given a function that raises an exception for refused messages.

    `controls` are the model's control tokens."""

    def rendered(messages: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
        try:
            return render(messages, values)
        except MemoryError:
            raise
        except Exception:  # templates raise anything
            return ""

    return find_prompt_format(rendered, find_reply(rendered), controls)
