"""The sidebar: order, titles, folders, deleting with undo, presets."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from app.chats.chat_table import NEAREST_PARENTS
from app.chats.chats import Chats
from app.database.database import Database
from app.errors import ChatNotFound
from app.values.chat import ChatPreset, ChatSettings
from app.values.messages import Sampling
from tests.chats.samples import answer, texts


def titles(chats: Chats) -> list[str]:
    return [line.title for line in chats.summaries()]


def test_pinned_chats_come_first_and_then_the_last_used(chats: Chats) -> None:
    places = {name: chats.create(title=name) for name in ("a", "b", "c", "d")}
    chats.pin(places["a"].chat, True)
    chats.ask(places["b"], "used")
    assert titles(chats) == ["a", "b", "d", "c"]
    chats.pin(places["a"].chat, False)
    assert titles(chats) == ["b", "d", "c", "a"]


def test_parents_that_form_a_circle_are_mended(chats: Chats, database: Database) -> None:
    place, first = answer(chats, chats.create(), "q", "a")
    _, second = answer(chats, place, "r", "b")
    with database.writing() as connection:
        connection.execute("UPDATE message SET parent = ? WHERE id = ?", (second, first))
        connection.execute(NEAREST_PARENTS)
        parents = connection.execute("SELECT id, parent FROM message WHERE parent IS NOT NULL").fetchall()
    assert parents and all(parent < message for message, parent in parents)


def test_looking_at_another_version_is_no_use(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(title="old"), "q", "a")
    chats.create(title="new")
    chats.show(place, reply)
    assert titles(chats) == ["new", "old"]


def test_a_chat_is_called_by_its_first_question_until_the_person_says_otherwise(chats: Chats) -> None:
    place, _ = answer(chats, chats.create(), "What is **it**?", "This.")
    place, _ = answer(chats, place, "And what else?", "That.")
    assert titles(chats) == ["What is it?"]
    place, _ = answer(chats, place, "What was it?", "Those.", parent=0)
    assert titles(chats) == ["What was it?"]
    chats.rename(place.chat, "  My\nchat ")
    place, _ = answer(chats, place, "What will it be?", "These.", parent=0)
    assert titles(chats) == ["My chat"]
    chats.rename(place.chat, " ")
    assert titles(chats) == ["What will it be?"]


def test_a_folder_is_made_with_its_first_chat_or_by_hand_and_stays_until_it_is_removed(chats: Chats) -> None:
    first, second = chats.create(folder="Work").chat, chats.create(folder="art").chat
    chats.make_folder("  Garden\nplans ")
    chats.make_folder("art")
    chats.make_folder(" ")
    assert chats.folders() == ("art", "Garden plans", "Work")
    chats.move(first, "")
    chats.delete(second)
    assert chats.folders() == ("art", "Garden plans", "Work"), "an empty folder stays"
    assert (chats.remove_folder("art"), chats.remove_folder("Work")) == ((), ())
    assert chats.folders() == ("Garden plans",)
    chats.restore(second)
    assert [line.folder for line in chats.summaries()] == ["", ""]


def test_a_folder_is_renamed_into_another_one_and_removed_without_its_chats(chats: Chats) -> None:
    first, second = chats.create(folder="Work").chat, chats.create(folder="art").chat
    chats.rename_folder("Work", "Play")
    chats.rename_folder("art", "Play")
    assert chats.folders() == ("Play",)
    assert chats.in_folder("Play") == (first, second)
    assert chats.remove_folder("Play") == (first, second)
    assert chats.folders() == ()
    assert [line.folder for line in chats.summaries()] == ["", ""]


def test_a_folder_goes_with_all_chats(chats: Chats) -> None:
    chats.create(folder="Work")
    chats.make_folder("Garden")
    chats.delete_all()
    assert chats.folders() == ()


def test_a_deleted_chat_comes_back_as_it_was(chats: Chats) -> None:
    place, _ = answer(chats, chats.create(title="kept"), "q", "a findable answer")
    chats.delete(place.chat)
    assert (chats.summaries(), chats.search("findable"), chats.search("kept")) == ((), (), ())
    with pytest.raises(ChatNotFound):
        chats.thread(place.chat)
    with pytest.raises(ChatNotFound):
        chats.ask(place, "more")
    chats.restore(place.chat)
    assert (titles(chats), texts(chats, place.chat)) == (["kept"], ["q", "a findable answer"])
    assert len(chats.search("findable")) == 1


def test_a_forgotten_chat_leaves_nothing_behind(chats: Chats, database: Database) -> None:
    gone, _ = answer(chats, chats.create(), "secretquestion", "secretanswer")
    kept, _ = answer(chats, chats.create(), "q", "a")
    chats.delete(gone.chat)
    chats.purge()
    with pytest.raises(ChatNotFound):
        chats.restore(gone.chat)
    assert (texts(chats, kept.chat), database.damage()) == (["q", "a"], "")
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM message").fetchone()[0] == 2
        assert connection.execute("SELECT count(*) FROM message_words").fetchone()[0] == 2


def test_deleting_all_leaves_no_word_of_it_in_the_file(chats: Chats, database: Database) -> None:
    chats.save_preset(ChatPreset("p", ChatSettings("system")))
    answer(chats, chats.create(title="secrettitle"), "secretquestion", "secretanswer " * 100)
    chats.delete_all()
    assert (chats.summaries(), len(chats.presets()), database.damage()) == ((), 1, "")
    database.close()
    assert b"secret" not in database.path.read_bytes()


def test_a_new_chat_never_takes_the_number_of_one_that_is_gone(chats: Chats) -> None:
    first = chats.create()
    chats.delete(first.chat)
    chats.purge()
    assert chats.create().chat > first.chat


def test_what_is_not_there_cannot_be_changed(chats: Chats) -> None:
    for action in (
        lambda: chats.rename(9, "x"),
        lambda: chats.pin(9, True),
        lambda: chats.move(9, "x"),
        lambda: chats.delete(9),
        lambda: chats.restore(9),
        lambda: chats.change_settings(9, lambda _: ChatSettings()),
        lambda: chats.thread(9),
        lambda: chats.message(9),
        lambda: chats.export_markdown(9),
    ):
        with pytest.raises(ChatNotFound, match="no longer there"):
            action()


def test_two_changes_of_a_chats_settings_at_once_are_both_kept(chats: Chats) -> None:
    chat = chats.create().chat
    with ThreadPoolExecutor() as pool:

        def change(now: ChatSettings) -> ChatSettings:
            pool.submit(chats.change_settings, chat, lambda now: replace(now, tools=(*now.tools, "Mail")))
            return replace(now, system="Be brief.", tools=("Weather",))

        chats.change_settings(chat, change)
    assert chats.settings(chat) == ChatSettings("Be brief.", tools=("Weather", "Mail"))


def test_the_manner_of_a_chat_is_its_own(chats: Chats) -> None:
    place = chats.create(ChatSettings("Be brief."))
    chat_settings = ChatSettings("Be long.", Sampling(1.0, 5, 0.5, 0.1, 1.2, 3))
    chats.change_settings(place.chat, lambda _: chat_settings)
    assert chats.thread(place.chat).settings == chat_settings
    chats.change_settings(place.chat, lambda _: ChatSettings())
    assert chats.thread(place.chat).settings == ChatSettings()


def test_presets_are_kept_by_name(chats: Chats) -> None:
    first, second = (
        ChatPreset("terse", ChatSettings("Be terse.")),
        ChatPreset("Art", ChatSettings("", Sampling(1.0))),
    )
    chats.save_preset(first)
    chats.save_preset(second)
    assert chats.presets() == (second, first)
    changed = ChatPreset("terse", ChatSettings("Be very terse."))
    chats.save_preset(changed)
    chats.delete_preset("Art")
    chats.delete_preset("never was")
    assert chats.presets() == (changed,)


@pytest.mark.parametrize("jump", [-3600.0, -40 * 365 * 86400.0])
def test_a_clock_that_is_set_back_reorders_and_loses_nothing(database: Database, jump: float) -> None:
    now = [1_763_700_000.0]
    chats = Chats(database, lambda: now[0])
    first, _ = answer(chats, chats.create(title="first"), "q", "a")
    answer(chats, chats.create(title="second"), "q", "a")
    now[0] += jump
    answer(chats, chats.create(title="third"), "q", "a")
    assert titles(chats) == ["third", "second", "first"]
    answer(chats, first, "more", "said")
    assert titles(chats) == ["first", "third", "second"]
    assert texts(chats, first.chat) == ["q", "a", "more", "said"]
    chats.delete(first.chat)
    chats.restore(first.chat)
    assert titles(chats) == ["first", "third", "second"]
