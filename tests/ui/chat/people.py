"""Somebody at a page of the services, without the page: their seat, what they do, and what they are told."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import gradio as gr

from app.chat_messages import StoredMessage, Thread
from app.conversation import Conversations
from app.errors import StoreNotUsable
from app.messages import Options
from app.ui import Services
from app.ui.chat.actions import ChatActions
from app.ui.chat.screen import Screen
from app.ui.chat.seat import Seat
from app.ui.chat.watching import Watcher
from app.ui.controls import OptionControls, show_options

SKIPPED = gr.skip()
SECONDS = 10


def pressed(do: str, name: object = "", value: str = "") -> gr.EventData:
    """A button with this deed was pressed."""
    return gr.EventData(None, {"do": do, "name": str(name), "value": value})


class Visitor:
    """One page's person. `controls` are what the option controls hold."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.seat = Seat()
        self.heard: list[str] = []
        self.actions = ChatActions(services, self.heard.append)
        self.watcher = Watcher(services, self.seat, count_seconds=0)
        self.controls: OptionControls = show_options(Options())

    def ask(self, text: str) -> tuple[Any, str]:
        """Send a message: what becomes of the box, and the question to be answered first."""
        return self.actions.ask(self.seat, text, *self.controls)

    def get(self, text: str) -> None:
        """Send a message and have it answered."""
        assert self.ask(text) == ("", "")
        self.wait()

    def press(self, do: str, name: object = "", value: str = "") -> tuple[Any, str]:
        """Press a button in the thread or in a question."""
        return self.actions.act(self.seat, "", pressed(do, name, value), *self.controls)

    def wait(self) -> None:
        """Until the chat's reply is stored, and seen."""
        until(lambda: not self.services.conversations.is_writing(self.seat.place.chat))
        self.look()

    def look(self) -> Screen:
        """The page as it is now."""
        return self.watcher.look()

    def look_until_done(self) -> list[Screen]:
        """The different screens until the reply is complete, the last one with it."""
        seen = [self.look()]

        def is_done() -> bool:
            if (screen := self.look()) is not seen[-1]:
                seen.append(screen)
            return not screen.is_busy

        until(is_done)
        return seen

    @property
    def messages(self) -> tuple[StoredMessage, ...]:
        """The chat as it is stored."""
        return self.services.conversations.thread(self.seat.place.chat, 1000).messages

    @property
    def texts(self) -> list[str]:
        """What its messages say."""
        return [message.text for message in self.messages]


def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = monotonic() + SECONDS
    while not is_so():
        assert monotonic() < deadline
        sleep(0.002)


class UnsteadyConversations(Conversations):
    """Cannot read a chat while `is_held`."""

    is_held = True
    refused = 0

    def thread(self, chat: int, newest: int) -> Thread:
        if self.is_held:
            self.refused += 1
            raise StoreNotUsable("Another program holds the file.")
        return super().thread(chat, newest)
