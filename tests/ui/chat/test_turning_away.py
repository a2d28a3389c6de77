"""The person turns to another chat while something is still being sent, which may take seconds."""

from collections.abc import Callable

import pytest

from app.conversation import Reply
from app.values.messages import Request
from tests.fakes import ScriptedEngine
from tests.ui.chat.people import SKIPPED, Visitor


class BusyEngine(ScriptedEngine):
    """Something happens on the page just before it takes a request."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = lambda: None

    def submit(self, request: Request, reply: Reply) -> None:
        self.meanwhile()
        super().submit(request, reply)


@pytest.fixture
def engine() -> BusyEngine:
    return BusyEngine()


def test_a_message_that_is_sent_late_leaves_the_page_where_it_is(person: Visitor, engine: BusyEngine) -> None:
    engine.meanwhile = lambda: person.actions.new_private_chat(person.state)
    assert person.ask("One") == (SKIPPED, ""), "the box is another chat's"
    screen = person.look()
    assert screen.is_empty and screen.is_private
    assert person.services.chat == 0, "nor does a page that is opened now show it"
    assert "One" in screen.sidebar


def test_what_is_typed_meanwhile_stays(person: Visitor, engine: BusyEngine) -> None:
    def turn() -> None:
        person.actions.new_chat(person.state)
        person.actions.type(person.state, "Something else")

    engine.meanwhile = turn
    person.ask("One")
    assert person.state.draft == "Something else"


def test_a_private_chat_says_so_wherever_it_is_opened(person: Visitor, other: Visitor) -> None:
    person.actions.new_private_chat(person.state)
    person.get("Secret")
    assert person.look().is_private
    other.state.open_chat(person.state.version)
    assert other.look().is_private
    person.actions.new_chat(person.state)
    person.get("Known")
    assert not person.look().is_private
