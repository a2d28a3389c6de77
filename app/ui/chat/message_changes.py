"""What is changed of a chat's stored messages without the model, and what is asked first."""

import json
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from app.conversation import ChatStores
from app.ui.chat.chat_settings import settings_of
from app.ui.chat.context_meter import PendingAction
from app.ui.chat.state import ChatState
from app.ui.frame.option_controls import OptionValues, to_options
from app.ui.frame.services import Services
from app.ui.frame.templates import render
from app.values.chat import ChatVersion
from app.values.display_text import counted

Change = Callable[[ChatStores, ChatVersion, int, str], ChatVersion]
CHANGES: dict[str, Change] = {
    "version": lambda stores, version, message, _: stores.of(version.chat).show(version, message),
    "edit-reply": lambda stores, version, message, text: stores.of(version.chat).edit_reply(
        version, message, text
    ),
    "delete": lambda stores, version, message, _: stores.of(version.chat).remove(version, message),
    "fork": lambda stores, version, message, _: stores.of(version.chat).fork(version.chat, message),
}
"""By the button's name: each returns the chat to show then."""
WARMER = 0.7
"""The temperature that is offered for another answer where 0 would repeat the text."""


def delete_question(services: Services, state: ChatState, message: int) -> str:
    """Return the question before a message is deleted: what follows it goes, too."""
    thread = services.conversations.thread(state.version.chat, state.message_limit)
    ids = [each.id for each in thread.messages]
    following = len(ids) - ids.index(message) - 1 if message in ids else 0
    rest = (
        f" and the {counted(following, 'message')} that follow{'s' if following == 1 else ''} it"
        if following
        else ""
    )
    return render("delete_question.html", rest=rest, message=message)


def same_text_question_html(pending: PendingAction) -> str:
    """Return the question before an answer is written again at temperature 0."""
    return render("same_text_question.html", warmer=WARMER, pending=json.dumps(astuple(pending)))


def writes_the_same(
    services: Services, state: ChatState, pending: PendingAction, controls: tuple[Any, ...]
) -> bool:
    """Whether an answer written anew would have the text of one that is there: at temperature 0, by this model."""
    if pending.do != "regenerate" or settings_of(services, state).collections:
        return False  # documents may have changed since
    options = to_options(OptionValues(*controls), services.settings.options)
    model, chat = services.engine.status().model, state.version.chat
    is_greedy = options.sampling.temperature == 0 and not (model and model.server)
    return is_greedy and services.conversations.has_written(chat, int(pending.name), options, model)
