"""A page follows its chat: what is drawn again, and when."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from app.chat_messages import ChatManner
from app.messages import Message
from app.ui import Desk
from app.ui.chat.actions import updates
from app.ui.chat.manner import MannerActions
from tests.fakes import ScriptedEngine, WordReader
from tests.ui.chat.people import SKIPPED, UnsteadyConversations, Visitor

LONG = "word after word " * 100


def test_only_what_changed_is_drawn_again(person: Visitor) -> None:
    empty = person.look()
    assert SKIPPED not in updates(None, empty)
    assert all(update == SKIPPED for update in updates(empty, empty))


def test_the_thread_is_not_drawn_again_while_a_reply_comes(person: Visitor, engine: ScriptedEngine) -> None:
    engine.pause, engine.text = 0.01, "word " * 60
    person.ask("hello")
    before, *screens = person.look_until_done()
    drawn = [updates(then, now) for then, now in zip([before, *screens], screens, strict=False)]
    assert len(drawn) > 6
    threads = [update[1] for update in drawn if update[1] != SKIPPED]
    assert len(threads) == 1, "at its end"
    assert all(update[-1] == SKIPPED for update in drawn), "somebody may be typing instructions"


def test_another_chat_brings_its_own_instructions_and_a_new_one_none(person: Visitor) -> None:
    person.seat.manner = ChatManner("Be brief.")
    before = person.look()
    person.actions.begin(person.seat)
    assert updates(before, person.look())[-1] == ""
    person.seat.manner = ChatManner("Be kind.")
    person.get("One")
    before, chat = person.look(), person.seat.place
    person.actions.begin(person.seat)
    empty = person.look()
    assert updates(before, empty)[-1] == ""
    person.seat.sit_at(chat)
    assert updates(empty, person.look())[-1] == "Be kind."


def test_instructions_that_another_page_wrote_are_drawn_and_ones_own_are_not(
    person: Visitor, other: Visitor
) -> None:
    person.get("One")
    other.seat.sit_at(person.seat.place)
    mine, theirs = person.look(), other.look()
    MannerActions(person.desk, person.heard.append).choose_system(person.seat, "Be brief.")
    assert updates(mine, person.look())[-1] == SKIPPED, "somebody may be typing on"
    assert updates(theirs, other.look())[-1] == "Be brief."
    theirs = other.look()
    MannerActions(person.desk, person.heard.append).choose_system(person.seat, "")
    assert updates(theirs, other.look())[-1] == ""


def follow(person: Visitor, times: int) -> list[tuple[Any, ...]]:
    """What the page is given while it follows."""

    async def read() -> list[tuple[Any, ...]]:
        following = person.actions.follow(person.seat)
        drawn = [await anext(following) for _ in range(times)]
        await following.aclose()  # type: ignore[attr-defined]
        return drawn

    return asyncio.run(read())


def streamed(person: Visitor, times: int) -> list[tuple[Any, ...]]:
    """What its stream brings meanwhile."""

    async def read() -> list[tuple[Any, ...]]:
        async def look() -> None:
            async for _ in person.actions.follow(person.seat):
                pass

        looking, stream = asyncio.ensure_future(look()), person.actions.stream(person.seat)
        drawn = [await anext(stream) for _ in range(times)]
        looking.cancel()
        await stream.aclose()  # type: ignore[attr-defined]
        return drawn

    return asyncio.run(read())


def test_a_page_that_is_opened_shows_the_chat_that_was_looked_at_last(
    person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    person.get("One")
    other.seat.is_taken = False
    [drawn] = follow(other, times=1)
    assert "One" in drawn[1]
    assert other.seat.is_taken
    assert other.ask("Two") == ("", "")
    assert len(engine.requests) == 2


def test_a_page_is_drawn_again_as_the_reply_comes(person: Visitor, engine: ScriptedEngine) -> None:
    engine.pause, engine.text = 0.02, LONG
    person.ask("One")
    drawn = [live for live, _note, _panel in streamed(person, times=4)]
    lengths = [len("".join(live)) for live in drawn]
    assert lengths == sorted(set(lengths))
    assert drawn[-1][0] == str(person.messages[-1].id), "by which the page knows what was opened in it"
    person.desk.stop()


class NotingReader(WordReader):
    """Notes the threads on which it counts."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def count(self, prompt: Sequence[Message]) -> int:
        self.threads.append(threading.get_ident())
        return super().count(prompt)


def test_what_is_typed_is_counted_beside_the_event_loop(person: Visitor, engine: ScriptedEngine) -> None:
    reader = engine.words = NotingReader()

    async def typing() -> str:
        following = person.actions.follow(person.seat)
        await anext(following)
        person.actions.type(person.seat, "one two three")
        drawn = await anext(following)
        await following.aclose()  # type: ignore[attr-defined]
        return str(drawn[3])

    assert "5 of 1,024 tokens" in asyncio.run(typing())
    assert threading.get_ident() not in reader.threads


def test_a_page_that_cannot_be_read_says_so_once_and_looks_on(
    person: Visitor, engine: ScriptedEngine, unsteady: Desk
) -> None:
    engine.pause, engine.text = 0.02, LONG
    person.ask("One")
    conversations = unsteady.conversations
    assert isinstance(conversations, UnsteadyConversations)
    late = Visitor(unsteady)
    late.seat.sit_at(person.seat.place)

    async def wait_for_a_screen() -> tuple[Any, ...]:
        following = late.actions.follow(late.seat)
        drawing = asyncio.ensure_future(anext(following))
        while conversations.refused < 3:
            await asyncio.sleep(0.01)
        conversations.is_held = False
        drawn = await drawing
        await following.aclose()  # type: ignore[attr-defined]
        return drawn

    assert "One" in asyncio.run(wait_for_a_screen())[1]
    assert late.heard == ["Another program holds the file."]
    person.desk.stop()
