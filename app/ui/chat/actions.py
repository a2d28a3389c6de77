"""What events of the chat do. They translate between the page and the services, and nothing else."""

from typing import Any

import gradio as gr

from app.chat_messages import ChatVersion
from app.conversation import ChatTooLong, Overflow
from app.errors import AppError
from app.messages import Options
from app.ui.chat.meter import Pending, overflow_html, pending_in
from app.ui.chat.seat import Seat
from app.ui.chat.thread import NEWEST
from app.ui.controls import OptionControls, read_options
from app.ui.error_handling import Notify
from app.ui.services import Services

NOTHING = ""


class ChatActions:
    """The events of the app's chats. Each page has a seat, which its events get and change."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._notify = notify

    def open(self, seat: Seat) -> None:
        """A page that is opened shows the chat that was looked at last."""
        if self._services.chat:
            seat.sit_at(ChatVersion(self._services.chat))

    def ask(self, seat: Seat, message: str, *controls: Any) -> tuple[Any, str]:
        """Send the message; the box is emptied only once it is on its way."""
        if not message.strip():
            return gr.skip(), NOTHING
        question = self._try(seat, Pending("ask", "", message.strip()), controls)
        return (gr.skip() if question is None or question else ""), question or NOTHING

    def ask_example(self, text: str, seat: Seat, *controls: Any) -> tuple[Any, str]:
        """Send one of the examples."""
        return self.ask(seat, text, *controls)

    def act(self, seat: Seat, _message: str, event: gr.EventData, *controls: Any) -> tuple[Any, str]:
        """Do what a button in the thread or in a question says."""
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        overflow = _OVERFLOWS.get(do)
        if overflow:
            pending = pending_in(value)
            question = self._try(seat, pending, tuple(controls), overflow)
            is_sent = question == NOTHING and pending.deed == "ask"
            return ("" if is_sent else gr.skip()), question or NOTHING
        if do == "new":
            self.begin(seat)
        elif do == "earlier":
            seat.newest += NEWEST
        elif do == "colours":
            seat.coloured |= {int(name)}
        elif do in _DEEDS:
            return gr.skip(), self._try(seat, Pending(do, name, value), tuple(controls)) or NOTHING
        return gr.skip(), NOTHING

    def type(self, seat: Seat, message: str) -> None:
        """Have what is being typed counted."""
        seat.draft = message

    def stop(self, seat: Seat) -> None:
        """Stop the reply under way in this chat; what was written stays."""
        self._services.conversations.stop(seat.place.chat)

    def begin(self, seat: Seat) -> None:
        """An empty page for a new chat; a reply under way in another goes on."""
        seat.begin()
        self._services.chat = 0

    def begin_private(self, seat: Seat) -> None:
        """The same for a chat that is never stored."""
        seat.begin(is_private=True)
        self._services.chat = 0

    def _try(
        self, seat: Seat, pending: Pending, controls: tuple[Any, ...], overflow: Overflow = "ask"
    ) -> str | None:
        """Do it. "" once it is done, the question that must be answered first, or None where it was refused."""
        try:
            self._do(seat, pending, controls, overflow)
        except ChatTooLong as error:
            return overflow_html(error.fit, pending)
        except AppError as error:
            self._notify(str(error))
            return None
        return NOTHING

    def _do(self, seat: Seat, pending: Pending, controls: tuple[Any, ...], overflow: Overflow) -> None:
        place, sitting = seat.place, seat.sitting
        if pending.deed == "version":
            place = self._services.conversations.stores.of(place.chat).show(place, int(pending.name))
        else:
            options = read_options(OptionControls(*controls), self._services.settings.options)
            place = self._have_written(seat, pending, options, overflow)
        if seat.go_on(place, sitting):  # a deed may take seconds, and the person need not wait for it
            self._services.chat = place.chat

    def _have_written(
        self, seat: Seat, pending: Pending, options: Options, overflow: Overflow
    ) -> ChatVersion:
        conversations, place = self._services.conversations, seat.place
        asked = self._services.asked(options, overflow)
        match pending.deed:
            case "edit":
                return conversations.edit(place, int(pending.name), pending.value, asked)
            case "continue":
                return conversations.continue_reply(place, int(pending.name), asked)
            case "regenerate":
                answer = int(pending.name)
                anew = self._services.asked_anew(place.chat, answer, options, overflow)
                return conversations.regenerate(place, answer, anew)
        if place.chat:
            return conversations.send(place, pending.value, asked)
        return conversations.begin(seat.manner, seat.is_private, pending.value, asked)


_OVERFLOWS: dict[str, Overflow] = {"oldest": "oldest", "shorter": "shorter"}
_DEEDS = ("regenerate", "continue", "edit", "version")
