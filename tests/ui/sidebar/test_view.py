"""The list's events: open, rename, pin, move, delete and bring back, search, save and take in."""

import json
import re
from html import unescape
from time import time

import pytest

from app.ui import Services
from app.ui.sidebar.render import UndoRenderer
from app.ui.sidebar.view import SidebarActions
from tests.fake_documents import ScriptedDocuments
from tests.fakes import ScriptedEngine
from tests.support.waiting import until
from tests.ui.chat.people import Visitor, pressed

LONG = "word after word " * 100


class Librarian(Visitor):
    """A person who uses the list of chats."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.list = SidebarActions(services, self.heard.append)

    def do(self, action: str, chat: int | str = "", value: str = "") -> str:
        """Press a button in the list: the file that it gives, or nothing."""
        return self.list.act(self.state, pressed(action, chat, value))

    def begin(self, question: str) -> int:
        self.actions.new_chat(self.state)
        self.get(question)
        return self.state.version.chat

    @property
    def sidebar(self) -> str:
        return self.look().sidebar

    @property
    def toast(self) -> str:
        return str(UndoRenderer(self.services.deletions, self.services.documents).render()["undo"])


@pytest.fixture
def person(services: Services) -> Librarian:
    return Librarian(services)


def text_of(file: str) -> str:
    [carried] = re.findall(r'data-text="([^"]*)"', file)
    return unescape(carried)


def test_a_chat_is_opened(person: Librarian) -> None:
    first = person.begin("The first one?")
    second = person.begin("The second one?")
    person.do("open", first)
    assert "The first one?" in person.look().thread
    assert (person.state.version.chat, person.services.chat) == (first, first)
    person.get("And on.")
    person.do("open", second)
    assert "The second one?" in person.look().thread


def test_an_opened_chat_shows_its_newest_messages_without_colours(person: Librarian) -> None:
    chat = person.begin("One?")
    person.press("colours", person.messages[-1].id)
    person.press("earlier")
    person.do("open", chat)
    assert (person.state.message_limit, person.state.coloured) == (50, frozenset())


def test_a_chat_that_is_gone_is_told_when_it_is_opened_and_an_empty_page_shown(person: Librarian) -> None:
    chat = person.begin("One?")
    person.services.conversations.stores.stored.delete(chat)
    person.do("open", chat)
    assert person.look().is_empty
    person.do("rename", chat, "Anything")
    assert "no longer there" in person.heard[0]


def test_a_chat_is_renamed_and_named_by_its_question_again(person: Librarian) -> None:
    chat = person.begin("What is this?")
    person.do("rename", chat, "Plans & <ideas>")
    assert "Plans &amp; &lt;ideas&gt;" in person.sidebar
    person.do("rename", chat, "")
    assert "What is this?" in person.sidebar


def test_a_chat_is_pinned_and_let_go(person: Librarian) -> None:
    chat = person.begin("One?")
    person.do("pin", chat)
    assert "<h3>Pinned</h3>" in person.sidebar
    person.do("unpin", chat)
    assert "<h3>Pinned</h3>" not in person.sidebar


def test_a_chat_is_put_into_a_folder_and_out_of_it(person: Librarian) -> None:
    chat = person.begin("One?")
    person.actions.new_chat(person.state)
    person.do("move", chat, " Work ")
    assert f'data-do="open" data-name="{chat}"' in person.sidebar.partition('<span dir="auto">Work</span>')[2]
    person.do("move", chat, "")
    inside, _, outside = person.sidebar.partition('<span dir="auto">Work</span>')[2].partition("Today")
    assert "This folder is empty." in inside and f'data-name="{chat}"' in outside


def test_a_folder_is_collapsed_and_expanded(person: Librarian) -> None:
    store = person.services.conversations.stores.stored
    chat = store.create(folder="Work").chat
    assert f'data-name="{chat}"' not in person.sidebar
    person.do("expand", "Work")
    assert f'data-name="{chat}"' in person.sidebar
    person.do("collapse", "Work")
    assert f'data-name="{chat}"' not in person.sidebar


def test_a_folder_is_renamed_and_stays_expanded(person: Librarian) -> None:
    store = person.services.conversations.stores.stored
    chat = store.create(folder="Work").chat
    person.do("expand", "Work")
    person.do("rename-folder", "Work", "Plans")
    assert f'data-name="{chat}"' in person.sidebar.partition('<span dir="auto">Plans</span>')[2]
    assert '<span dir="auto">Work</span>' not in person.sidebar
    person.do("rename-folder", "Plans", "")
    assert '<span dir="auto">Plans</span>' not in person.sidebar and f'data-name="{chat}"' in person.sidebar


def test_a_folder_that_gets_the_name_of_another_one_can_be_taken_apart_again(person: Librarian) -> None:
    store = person.services.conversations.stores.stored
    chat, other = store.create(folder="Work").chat, store.create(folder="Plans").chat
    person.do("rename-folder", "Work", " Plans ")
    assert store.in_folder("Plans") == (chat, other)
    assert "The chats of \u201cWork\u201d are in the folder \u201cPlans\u201d now." in person.toast
    person.do("undo")
    assert (store.in_folder("Work"), store.in_folder("Plans")) == ((chat,), (other,))
    person.do("rename-folder", "Work", " ")
    assert "The folder \u201cWork\u201d was removed." in person.toast


def test_a_deleted_chat_can_be_brought_back(person: Librarian) -> None:
    kept, chat = person.begin("Stay?"), person.begin("Go?")
    person.do("open", kept)
    person.do("delete", chat)
    assert "“Go?” was deleted" in person.toast
    assert f'data-do="open" data-name="{chat}"' not in person.sidebar
    assert "Stay?" in person.look().thread
    person.do("undo")
    assert f'data-do="open" data-name="{chat}"' in person.sidebar
    assert person.toast == ""


def test_deleting_the_chat_that_is_shown_leaves_an_empty_page_and_undo_shows_it_again(
    person: Librarian,
) -> None:
    chat = person.begin("One?")
    person.do("delete", chat)
    assert person.look().is_empty
    assert (person.state.version.chat, person.services.chat) == (0, 0)
    person.do("undo")
    assert "One?" in person.look().thread
    assert (person.state.version.chat, person.services.chat) == (chat, chat)


def test_undo_leaves_the_chat_that_was_opened_since(person: Librarian) -> None:
    other, chat = person.begin("Other?"), person.begin("One?")
    person.do("delete", chat)
    person.do("open", other)
    person.do("undo")
    assert person.state.version.chat == other


def test_an_empty_folder_is_made_and_removed_and_comes_back(person: Librarian) -> None:
    store = person.services.conversations.stores.stored
    person.do("make-folder", "", " Garden  plans ")
    assert store.folders() == ("Garden plans",) and "This folder is empty." in person.sidebar
    person.do("remove-folder", "Garden plans")
    assert (store.folders(), person.toast.count("The folder “Garden plans” was removed.")) == ((), 1)
    person.do("undo")
    assert (store.folders(), person.toast, person.heard) == (("Garden plans",), "", [])


def test_a_folder_is_removed_without_its_chats_and_comes_back_around_them(person: Librarian) -> None:
    store = person.services.conversations.stores.stored
    chats = [store.create(folder="Work").chat for _ in range(2)]
    person.do("remove-folder", "Work")
    assert "Its 2 chats are still there." in person.toast
    assert [line.folder for line in store.summaries()] == ["", ""]
    person.do("undo")
    assert store.in_folder("Work") == tuple(chats)


def test_a_folder_is_deleted_with_its_chats_and_comes_back_with_them(person: Librarian) -> None:
    store = person.services.conversations.stores.stored
    chat = person.begin("One?")
    person.do("move", chat, "Work")
    other = store.create(folder="Work").chat
    person.do("delete-folder", "Work")
    assert (store.folders(), store.summaries(), person.look().is_empty) == ((), (), True)
    assert "The folder “Work” and 2 chats were deleted." in person.toast
    person.do("undo")
    assert store.in_folder("Work") == (chat, other)
    assert "One?" in person.look().thread


def test_undo_is_offered_for_a_minute(person: Librarian) -> None:
    person.do("delete", person.begin("One?"))
    deletions = person.services.deletions
    newest = deletions.newest()
    assert newest
    moments = iter((newest.at + 1, newest.at + 1, newest.at + 59, newest.at + 59, newest.at + 61))
    deletions.now = lambda: next(moments)
    toast = UndoRenderer(deletions, person.services.documents)
    first = toast.render()
    assert "One?" in str(first["undo"])
    assert toast.render() is first, "nothing is sent again"
    assert toast.render()["undo"] == ""


def test_no_title_is_markup_in_the_toast(person: Librarian) -> None:
    chat = person.begin("One?")
    person.do("rename", chat, "<img src=x>")
    person.do("delete", chat)
    assert "<img" not in person.toast


def test_deleting_a_chat_that_is_being_written_stops_its_reply_and_undo_brings_what_came(
    person: Librarian, engine: ScriptedEngine
) -> None:
    engine.step_limit, engine.text = 8, LONG
    person.ask("One?")
    chat = person.state.version.chat
    until(lambda: person.look().live)
    person.do("delete", chat)
    assert person.look().is_empty
    until(lambda: not person.services.conversations.is_busy)
    person.do("undo")
    person.do("open", chat)
    assert "word after" in person.look().thread
    assert person.messages[-1].content.state == "stopped"


def test_deleting_twice_is_told_and_the_first_can_still_be_undone(person: Librarian) -> None:
    chat = person.begin("One?")
    person.do("delete", chat)
    person.do("delete", chat)
    assert "no longer there" in person.heard[0]
    person.do("undo")
    assert "One?" in person.sidebar


def test_deletions_are_undone_one_after_the_other_the_last_one_first(person: Librarian) -> None:
    first, second = person.begin("First?"), person.begin("Second?")
    person.do("delete", first)
    person.do("delete", second)
    assert "“Second?” was deleted." in person.toast
    person.do("undo")
    assert "“First?” was deleted." in person.toast
    person.do("undo")
    assert {line.id for line in person.services.conversations.stores.summaries()} == {first, second}
    assert person.toast == "" and person.heard == []


def test_a_deletion_that_cannot_be_undone_is_told_and_offered_no_more(person: Librarian) -> None:
    person.do("delete", person.begin("Go?"))
    person.services.conversations.delete_all()
    person.do("undo")
    assert "no longer there" in person.heard[0]
    assert person.toast == ""


def test_a_document_that_was_replaced_can_be_undone_like_a_deletion(
    person: Librarian, documents: ScriptedDocuments
) -> None:
    chat = person.begin("One?")
    person.do("delete", chat)
    assert "One?" in person.toast
    replaced = documents.paste(documents.create("Notes"), "Eggs boil.", "Eggs")
    documents.become(replaced, replaced=time())
    assert "\u201cEggs\u201d was replaced by a newer version. Undo keeps both." in person.toast
    person.do("undo", replaced)
    assert documents.calls[-1] == ("undo_replacement", replaced)
    assert "One?" in person.toast
    documents.become(replaced, replaced=time() - 61)
    assert "One?" in person.toast


def test_undoing_nothing_is_told(person: Librarian) -> None:
    person.do("undo")
    assert len(person.heard) == 1


def test_chats_are_found_by_their_words(person: Librarian) -> None:
    person.begin("About elephants?")
    person.begin("About cheese?")
    person.list.search(person.state, "eleph")
    assert "About <mark>eleph" in person.sidebar or "elephants" in person.sidebar
    assert "cheese" not in person.sidebar
    person.list.search(person.state, "")
    assert "cheese" in person.sidebar


def test_more_chats_are_listed_when_asked(person: Librarian) -> None:
    for _ in range(102):
        person.services.conversations.stores.stored.create()
    assert "Show 2 more" in person.sidebar
    person.do("more")
    assert "more</button>" not in person.sidebar


def test_a_chat_is_saved_to_read(person: Librarian) -> None:
    file = person.do("markdown", person.begin("What is v1.2?"))
    assert 'data-file="What is v1.2.md" data-kind="text/markdown"' in file
    assert "Hello there, friend." in text_of(file)


def test_a_private_chat_can_be_saved_and_is_not_among_all_chats(person: Librarian) -> None:
    person.actions.new_private_chat(person.state)
    person.get("Secret?")
    assert "Secret?" in text_of(person.do("json", person.state.version.chat))
    assert json.loads("".join(person.services.conversations.stores.stored.export_parts()))["chats"] == []


def test_what_no_button_says_does_no_harm(person: Librarian) -> None:
    assert person.do("explode", "x") == ""
    assert person.do("open", "x") == ""
    assert person.look().is_empty


def test_a_chat_that_was_found_opens_at_the_message(person: Librarian) -> None:
    chat = person.begin("The pomegranate?")
    first = person.messages[0].id
    for number in range(30):
        person.get(f"Question {number}")
    person.do("open", chat)
    assert "pomegranate" not in person.look().thread
    person.list.search(person.state, "pomegran")
    assert f'data-name="{chat}" data-value="{first}"' in person.sidebar
    person.do("open", chat, str(first))
    assert "pomegranate" in person.look().thread


def test_a_version_that_was_found_is_shown(person: Librarian) -> None:
    chat = person.begin("One")
    person.press("edit", person.messages[0].id, "Pomegranate")
    person.wait()
    found, shown = person.messages[0].id, person.messages[0].versions[0]
    person.press("version", shown)
    assert person.texts[0] == "One"
    person.do("open", chat, str(found))
    assert person.texts[0] == "Pomegranate" and "Pomegranate" in person.look().thread


def test_a_chat_is_drawn_whole_to_find_in_it_and_to_print_it(person: Librarian) -> None:
    chat = person.begin("The first")
    for number in range(30):
        person.get(f"Question {number}")
    person.do("open", chat)
    person.press("earlier", 1, "all")
    assert "The first" in person.look().thread
    person.do("open", chat)
    person.do("print", chat)
    assert "The first" in person.look().thread
