"""Somebody at a page of the services, without the page: their state, what they do, and what they are told."""

import json
from collections.abc import Callable
from itertools import zip_longest
from math import inf
from typing import Any

import gradio as gr

from app.conversation import Conversations
from app.errors import StoreNotUsable
from app.ui import Services
from app.ui.chat.chat_settings import settings_of
from app.ui.chat.render import ChatRenderer
from app.ui.chat.state import BoxChange, ChatState
from app.ui.chat.view import ChatActions
from app.ui.frame.option_controls import OptionValues, to_values
from app.ui.frame.page_updates import Parts, ReplyHtmlBlocks
from app.ui.sidebar.render import ChatListRenderer
from app.values.chat import ChatSettings, StoredMessage, Thread
from app.values.messages import Options
from tests.fakes import ScriptedEngine
from tests.support.waiting import until

SKIPPED = gr.skip()
SECONDS = 10


def pressed(do: str, name: object = "", value: str = "") -> gr.EventData:
    return gr.EventData(None, {"do": do, "name": str(name), "value": value})


class Screen:
    """The parts of a page by what they are."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def _text(self, name: str) -> str:
        text = self.parts[name]
        assert isinstance(text, str)
        return text

    thread = property(lambda self: self._text("messages"))
    note = property(lambda self: self._text("reply-note"))
    sidebar = property(lambda self: self._text("chats"))
    panel = property(lambda self: self._text("panel"))
    status = property(lambda self: self._text("status"))
    meter = property(lambda self: self._text("meter"))
    picker = property(lambda self: self._text("collection-picker"))
    system_prompt = property(lambda self: self._text("chat-settings-of"))
    is_busy = property(lambda self: self.parts["is-busy"])
    is_empty = property(lambda self: self.parts["is-empty"])
    is_private = property(lambda self: self.parts["is-private"])

    @property
    def live(self) -> tuple[str, ...]:
        """The blocks of the reply that is being written."""
        live = self.parts["live"]
        assert isinstance(live, ReplyHtmlBlocks)
        return live.blocks


class Visitor:
    """One page's person. `controls` are what the option controls hold."""

    def __init__(self, services: Services, state: ChatState | None = None) -> None:
        self.services = services
        self.state = state or ChatState()
        self.heard: list[str] = []
        self.actions = ChatActions(services, self.heard.append)
        self.renderer = ChatRenderer(services, self.state, count_seconds=0)
        self.chats = ChatListRenderer(services, self.state)
        self._parts: tuple[Parts, ...] = ()
        self._screen = Screen({})
        self.controls: OptionValues = to_values(Options())

    def ask(self, text: str) -> tuple[Any, str]:
        """Send a message: what becomes of the box, and the question to be answered first."""
        return self.press("ask", "", text)

    def get(self, text: str) -> None:
        assert self.ask(text) == ("", "")
        self.wait()

    def press(self, do: str, name: object = "", value: str = "") -> tuple[Any, str]:
        """Press a button in the thread or in a question: what becomes of the box, and the question."""
        before = self.state.box_changes
        question = self.actions.act(self.state, pressed(do, name, value), *self.controls)
        change = self.state.box_changes[-1] if self.state.box_changes != before else BoxChange(0)
        return (change.given if change.taken else SKIPPED), question

    def regenerate(self, message: int) -> None:
        """Have the answer written anew, even if it will be the same."""
        _, question = self.press("regenerate", message)
        if question:
            self.press("same", "", json.dumps(["regenerate", str(message), ""]))
        self.wait()

    def wait(self) -> None:
        """Until the chat's reply is stored, and seen."""
        until(lambda: not self.services.conversations.is_writing(self.state.version.chat))
        self.look()

    def look(self) -> Screen:
        parts = self.renderer.render(), self.chats.render()
        if any(now is not then for now, then in zip_longest(parts, self._parts)):
            self._parts, self._screen = parts, Screen({**parts[0], **parts[1]})
        return self._screen

    def follow(self, engine: ScriptedEngine) -> list[Screen]:
        """The different screens while a reply goes on that waits: each of eight steps, and the end."""
        seen = [self.look()]
        first = int(engine.step_limit)
        for engine.step_limit in range(first + 1, first + 9):
            before = seen[-1].live
            seen += self.look_until(lambda new, before=before: new[-1].live != before)
        engine.step_limit = inf
        return seen + self.look_until(lambda new: not new[-1].is_busy)

    def look_until(self, is_enough: Callable[[list[Screen]], bool]) -> list[Screen]:
        """The different screens until they are enough."""
        seen = [self.look()]

        def is_done() -> bool:
            if (screen := self.look()) is not seen[-1]:
                seen.append(screen)
            return is_enough(seen)

        until(is_done)
        return seen

    @property
    def draft(self) -> str:
        """What the page puts into the box of the chat that it shows."""
        draft = json.loads(str(self.look().parts["draft"]))[1]
        assert isinstance(draft, str)
        return draft

    @property
    def settings(self) -> ChatSettings:
        """The settings of the chat that is shown."""
        return settings_of(self.services, self.state)

    @property
    def messages(self) -> tuple[StoredMessage, ...]:
        return self.services.conversations.thread(self.state.version.chat, 1000).messages

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]


class UnsteadyConversations(Conversations):
    """Cannot read a chat while `is_held`."""

    is_held = True
    refused = 0

    def thread(self, chat: int, newest: int) -> Thread:
        if self.is_held:
            self.refused += 1
            raise StoreNotUsable("Another program holds the file.")
        return super().thread(chat, newest)
