"""Pages see the conversation from wherever it stands."""

from time import monotonic, sleep

from app.messages import EngineStatus, ModelChoice, Options
from app.ui import Desk
from app.ui.view import Screen
from app.ui.watcher import Watcher
from tests.fakes import ScriptedEngine

LONG = "word " * 200


def until_done(watcher: Watcher) -> list[Screen]:
    """The different screens until the reply is complete."""
    screens: list[Screen] = []
    deadline = monotonic() + 10
    while not screens or screens[-1].is_busy:
        assert monotonic() < deadline
        if (screen := watcher.look()) not in screens:
            screens.append(screen)
        sleep(0.005)
    return screens


def test_nothing_new_is_the_very_same_screen(desk: Desk) -> None:
    watcher = Watcher(desk)
    assert watcher.look() is watcher.look()


def test_the_text_grows_and_ends_in_the_chat(desk: Desk, engine: ScriptedEngine) -> None:
    engine.pause, engine.text = 0.01, "word after word after word, and so on until the end"
    watcher = Watcher(desk)
    desk.ask("hi", Options())
    screens = until_done(watcher)
    lengths = [len(screen.live) for screen in screens[:-1]]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) >= 3
    assert screens[-1].chat[-1]["content"][0]["text"] == engine.text


def test_a_page_opened_in_mid_reply_sees_all_of_it(desk: Desk, engine: ScriptedEngine) -> None:
    engine.pause, engine.text = 0.005, LONG
    desk.ask("hi", Options())
    first = Watcher(desk)
    while len(first.look().live) < 20:
        sleep(0.005)
    late = Watcher(desk)
    assert late.look().live.startswith(first.look().live[:20])
    assert late.look().is_busy
    desk.conversation.stop()
    assert until_done(late)[-1].chat == until_done(first)[-1].chat


def test_a_page_that_looks_away_stops_nothing(desk: Desk, engine: ScriptedEngine) -> None:
    engine.pause = 0.005
    desk.ask("hi", Options())
    Watcher(desk).look()
    assert until_done(Watcher(desk))[-1].chat[-1]["content"][0]["text"] == engine.text


def test_a_new_chat_empties_every_page(desk: Desk) -> None:
    watcher = Watcher(desk)
    desk.ask("hi", Options())
    assert not watcher.look().is_empty
    desk.conversation.clear()
    assert watcher.look().is_empty


def test_earlier_turns_stay_in_the_chat(desk: Desk) -> None:
    desk.ask("one", Options())
    desk.ask("two", Options())
    assert len(Watcher(desk).look().chat) == 4


def test_what_the_engine_does_is_seen_at_once(desk: Desk, engine: ScriptedEngine) -> None:
    watcher = Watcher(desk)
    watcher.look()
    desk.choose_model(ModelChoice("org/model"))
    assert "Loading org/model" in watcher.look().status
    engine.now = EngineStatus("failed", "No such model.")
    assert "No such model." in watcher.look().status
