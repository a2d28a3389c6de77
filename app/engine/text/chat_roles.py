"""Fits the messages of a chat to the roles that a model's chat template takes.

The app adds messages of its own (what to do with documents, instructions, explained tools), and other programs send
chats in any order, but many templates refuse some of that. So for Gemma 2:

    system: Be brief.  user: Hi  user: Who are you?    ->    user: Be brief.\\n\\nHi\\n\\nWho are you?
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from app.values.chat_format import ChatFormat
from app.values.messages import Message

NO_ANSWER = "…"
"""The text in place of a missing answer, because some templates refuse an empty one."""


def fitted(chat: Sequence[Message], chat_format: ChatFormat) -> list[Message]:
    """Return the messages for the template, which takes them in this order and in these roles.

    System messages are joined into one at the beginning. If there is no other message, it becomes the user's for a
    template that takes no system message."""
    system = "\n\n".join(one.content for one in chat if one.role == "system" and one.content)
    found = [one for one in chat if one.role != "system"]
    if not found:
        return [Message("system" if chat_format.takes_system else "user", system)]
    if found[0].role != "user" and not chat_format.takes_assistant_first:
        found = [Message("user", ""), *found]
    if system and chat_format.takes_system:
        found = [Message("system", system), *found]
    elif system and found[0].role == "user":
        found[0] = replace(found[0], content=f"{system}\n\n{found[0].content}".strip())
    elif system:
        found = [Message("user", system), *found]
    return found if chat_format.takes_user_runs else _alternating(found)


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """Join adjacent messages of the user, and adjacent messages of the assistant without tool calls.

    Between a tool's result and a question, the answer NO_ANSWER is inserted."""
    found = list[Message]()
    for (role, has_calls), group in groupby(messages, lambda one: (one.role, bool(one.calls))):
        together = list(group)
        if role in ("user", "assistant") and not has_calls:
            text = "\n\n".join(one.content for one in together if one.content)
            together = [replace(together[0], content=text)]
        if role == "user" and found and found[-1].role == "tool":
            found.append(Message("assistant", NO_ANSWER))
        found += together
    return found
