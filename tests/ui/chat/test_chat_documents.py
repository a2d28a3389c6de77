"""Which collections a chat asks: chosen in the picker, kept with the chat, told with every answer."""

from pathlib import Path

import pytest

from app.errors import ToolFailed
from app.ui import Services
from app.ui.chat.chat_documents import PRIVATE, ChatDocuments, chosen_collections_html, collection_picker_html
from app.ui.chat.chat_settings import ChatSettingsActions, settings_of
from app.ui.documents.document_panel import WHOLE, DocumentPanelActions, DocumentPanelState
from app.ui.documents.view import listed_collections
from app.values.document import LITTLE_IN_COMMON, Collection
from app.values.tools import ServerText
from tests.fake_documents import ScriptedDocuments
from tests.fakes import FakeToolServers, ScriptedEngine
from tests.ui.chat.people import Visitor, pressed


def attach(person: Visitor, *files: Path) -> None:
    ChatDocuments(person.services, person.heard.append).attach_files(
        person.state, [str(file) for file in files]
    )


def written(folder: Path, name: str) -> Path:
    file = folder / name
    file.write_text(f"What {name} says.")
    return file


def test_files_are_searched_by_their_chat_alone(
    person: Visitor, other: Visitor, documents: ScriptedDocuments, uploads: Path
) -> None:
    person.get("One")
    file = written(uploads, "rules.txt")
    attach(person, file)
    attach(person, written(uploads, "more.txt"))
    assert ">Attached: rules and 1 more</button>" in person.look().picker
    assert "choose-collection" not in person.look().picker, (
        "turned off, its files would be deleted with the app"
    )
    assert not file.exists(), "the upload"
    assert [name for name, _ in documents.uploads] == ["rules.txt", "more.txt"]
    assert list(documents.names.values()) == ["Attached: rules.txt"], "a chat has one collection of its own"
    chosen = settings_of(person.services, person.state).collections
    assert chosen_collections_html(documents, chosen) and not chosen_collections_html(documents, ())
    assert "rules" not in other.look().picker
    other.get("Two")
    attach(other, written(uploads, "rules.txt"))
    assert list(documents.names.values()) == ["Attached: rules.txt", "Attached: rules.txt (2)"]


def test_a_file_that_cannot_be_read_is_told_beside_the_message_box_and_removed_there(
    person: Visitor, documents: ScriptedDocuments, uploads: Path
) -> None:
    person.get("One")
    attach(person, written(uploads, "rules.txt"))
    documents.state, documents.note = "failed", "song.bin is a program, which cannot be read."
    attach(person, written(uploads, "song.bin"))
    assert documents.note in person.look().picker
    assert ">Attached: rules</button>" in person.look().picker
    [unread] = [one for one in documents.kept.values() if one.state == "failed"]
    person.actions.documents.choose_collection(person.state, pressed("remove-attached", unread.id))
    assert documents.note not in person.look().picker
    [rest] = documents.kept
    person.actions.documents.choose_collection(person.state, pressed("remove-attached", rest))
    assert settings_of(person.services, person.state).collections == (), "nothing is left to be asked"


def test_each_attached_file_is_removed_in_the_picker_and_comes_back_with_undo(
    person: Visitor, documents: ScriptedDocuments, uploads: Path
) -> None:
    person.get("One")
    attach(person, written(uploads, "rules.txt"), written(uploads, "more.txt"))
    first, second = documents.kept
    picker = person.look().picker
    assert all(f'data-do="remove-attached" data-name="{one}"' in picker for one in (first, second))
    person.actions.documents.choose_collection(person.state, pressed("remove-attached", first))
    assert ">Attached: more</button>" in person.look().picker
    person.services.deletions.undo()
    assert "and 1 more</button>" in person.look().picker


def test_undo_attaches_a_file_again_to_its_own_chat_and_changes_nothing_else(
    person: Visitor, documents: ScriptedDocuments, uploads: Path
) -> None:
    settings = person.services.conversations.stores.stored.settings
    person.get("One")
    attach(person, written(uploads, "rules.txt"))
    chat, [collection], [rules] = person.state.version.chat, person.settings.collections, documents.kept
    person.actions.documents.remove(person.state, rules)
    ChatSettingsActions(person.services).change_system_prompt(person.state, "Be kind.")
    person.actions.new_chat(person.state)
    person.get("Two")
    person.services.deletions.undo()
    assert person.settings.collections == ()
    assert (settings(chat).collections, settings(chat).system) == ((collection,), "Be kind.")


def test_what_is_attached_before_the_first_message_is_the_new_chats(
    person: Visitor, documents: ScriptedDocuments, uploads: Path
) -> None:
    attach(person, written(uploads, "rules.txt"))
    person.get("What do the rules say?")
    assert settings_of(person.services, person.state).collections == tuple(documents.names)


def test_what_is_attached_goes_with_its_chat_and_comes_back_with_undo(
    person: Visitor, other: Visitor, documents: ScriptedDocuments, uploads: Path
) -> None:
    used = person.services.conversations.stores.stored.used_collections
    documents.create("Texts")

    def names() -> list[str]:
        return [one.name for one in listed_collections(person.services)]

    person.get("One")
    attach(person, written(uploads, "rules.txt"))
    other.get("Two")
    attach(other, written(uploads, "menu.txt"))
    assert names() == ["Texts", "Attached: rules.txt", "Attached: menu.txt"]
    chats = person.services.conversations.stores.stored
    chats.delete(person.state.version.chat)
    assert names() == ["Texts", "Attached: menu.txt"]
    chats.restore(person.state.version.chat)
    assert names() == ["Texts", "Attached: rules.txt", "Attached: menu.txt"]
    chats.delete(person.state.version.chat)
    documents.delete_attached(used())  # as the end of the app does
    assert list(documents.names.values()) == ["Texts", "Attached: menu.txt"]


def test_nothing_is_attached_to_a_private_chat(
    person: Visitor, documents: ScriptedDocuments, uploads: Path
) -> None:
    person.actions.new_private_chat(person.state)
    file = written(uploads, "rules.txt")
    attach(person, file)
    assert person.heard == [PRIVATE] and not documents.names and not file.exists()


def test_a_long_text_is_attached_as_a_document(person: Visitor, documents: ScriptedDocuments) -> None:
    attaching = ChatDocuments(person.services, person.heard.append)
    assert attaching.attach_text(person.state, "A long story\n\nIt goes on.")
    assert list(documents.names.values()) == ["Attached: A long story"]
    documents.refuses = "The disk is full."
    assert not attaching.attach_text(person.state, "Another")
    assert person.heard == ["The disk is full."]


def test_a_tool_servers_resources_are_attached_and_its_prompts_inserted(
    person: Visitor, documents: ScriptedDocuments
) -> None:
    servers: FakeToolServers = person.services.conversations.tools.servers  # type: ignore[assignment]
    servers.texts = (ServerText("Notes", "today", "For today", "notes://today"), ServerText("Notes", "greet"))
    person.actions.choose_source(person.state, pressed("choose-tools", "Notes"))
    picker = person.look().picker
    assert 'title="For today">today' in picker and "Attach today" in picker and "Insert greet" in picker
    person.actions.choose_source(person.state, pressed("use-text", "Notes", "greet"))
    assert person.state.box_changes[-1].given == "The text of greet."
    person.actions.choose_source(person.state, pressed("use-text", "Notes", "notes://today"))
    assert (
        list(documents.names.values()) == ["Attached: today"]
        and "The text of today." in documents.texts.values()
    )
    servers.answer = ToolFailed("Notes has ended.")
    person.actions.choose_source(person.state, pressed("use-text", "Notes", "greet"))
    servers.texts = ()
    person.actions.choose_source(person.state, pressed("use-text", "Notes", "greet"))
    gone = "Notes does not offer greet any more: restart it under Settings → Tools."
    assert person.heard == ["Notes has ended.", gone]


TEXT = "About a flat.\n\nThe tenant pays 1,200 euros.\n\nThe end."


@pytest.fixture
def lease(documents: ScriptedDocuments) -> int:
    return documents.paste(documents.create("Contracts"), TEXT, "Lease")


def turn(visitor: Visitor, collection: int) -> None:
    visitor.actions.documents.choose_collection(visitor.state, pressed("choose-collection", collection))


def act(
    visitor: Visitor,
    do: str,
    value: object = "",
    reading: DocumentPanelState = DocumentPanelState(),  # noqa: B008
) -> tuple[DocumentPanelState, str]:
    """Press a button that opens a source of the last answer, or one in the panel."""
    name = visitor.messages[-1].id if do.endswith("source") else ""
    actions = DocumentPanelActions(visitor.services)
    return actions.click(visitor.state, reading, pressed(do, name, str(value)))


@pytest.fixture
def visitor(services: Services) -> Visitor:
    return Visitor(services)


def test_the_picker_names_what_is_asked() -> None:
    offered = (Collection(1, "Contracts", 1), Collection(2, "Manu<b>als", 1))
    assert ">Documents: off</button>" in collection_picker_html(offered, ())
    html = collection_picker_html(offered, (2,))
    assert (">Documents: Manu&lt;b&gt;als</button>" in html, html.count('aria-checked="true"')) == (True, 1)


def test_what_is_attached_to_the_chat_is_named_alone() -> None:
    offered = (Collection(1, "Attached: notes.md", 1),)
    assert ">Attached: notes.md</button>" in collection_picker_html(offered, (1,))


def test_an_empty_collection_is_offered_only_to_be_left() -> None:
    empty = (Collection(1, "Contracts"),)
    assert collection_picker_html(empty, ()) == ""
    assert ">Documents: Contracts</button>" in collection_picker_html(empty, (1,))


def test_a_collection_that_was_deleted_can_still_be_left(
    visitor: Visitor, documents: ScriptedDocuments, lease: int
) -> None:
    collection = documents.kept[lease].collection
    turn(visitor, collection)
    documents.delete(collection)
    assert "Documents: A deleted collection" in visitor.look().picker
    turn(visitor, collection)
    assert visitor.look().picker == ""


def test_what_is_chosen_before_a_chat_begins_holds_for_it_alone(
    visitor: Visitor, documents: ScriptedDocuments, lease: int
) -> None:
    turn(visitor, documents.kept[lease].collection)
    visitor.get("tenant pays what?")
    assert documents.searched == [((documents.kept[lease].collection,), "tenant pays what?")]
    assert "Documents: Contracts" in visitor.look().picker
    visitor.actions.new_chat(visitor.state)
    assert "Documents: off" in visitor.look().picker


def test_a_chat_is_turned_on_and_off_between_questions(
    visitor: Visitor, documents: ScriptedDocuments, lease: int
) -> None:
    visitor.get("tenant?")
    turn(visitor, documents.kept[lease].collection)
    visitor.get("tenant pays what?")
    turn(visitor, documents.kept[lease].collection)
    visitor.get("tenant again?")
    assert [message.content.sources is not None for message in visitor.messages[1::2]] == [False, True, False]


def test_private_chats_may_ask_documents_too(
    visitor: Visitor, documents: ScriptedDocuments, lease: int
) -> None:
    visitor.actions.new_private_chat(visitor.state)
    turn(visitor, documents.kept[lease].collection)
    visitor.get("tenant pays what?")
    assert visitor.messages[-1].content.sources is not None


def test_a_source_opens_where_it_stands_with_how_it_was_found_and_the_exact_prompt(
    visitor: Visitor, documents: ScriptedDocuments, engine: ScriptedEngine, lease: int
) -> None:
    engine.text = "It is 1,200 [1]."
    turn(visitor, documents.kept[lease].collection)
    visitor.get("tenant pays what?")
    assert 'data-value="1"' in visitor.look().thread
    reading, html = act(visitor, "source", 1)
    assert "<mark>The tenant pays 1,200 euros.</mark>" in html
    assert ("Part one" in html, "Found by its words and its meaning" in html) == (True, True)
    _, prompt = act(visitor, "prompt", reading=reading)
    assert "[1] The tenant pays 1,200 euros." in prompt
    assert "<mark>" in act(visitor, "passage", reading=reading)[1]


def test_a_citation_that_its_source_does_not_support_is_marked_and_says_so_where_it_opens(
    visitor: Visitor, documents: ScriptedDocuments, engine: ScriptedEngine, lease: int
) -> None:
    engine.text = "Penguins swim in cold seas [1]. It is 1,200 euros [1]."
    turn(visitor, documents.kept[lease].collection)
    visitor.get("tenant pays what?")
    sources = visitor.messages[-1].content.sources
    assert sources is not None and sources.unsupported == (0,)
    assert visitor.look().thread.count("cite unsupported") == 1
    assert LITTLE_IN_COMMON in act(visitor, "source", "1.0")[1]
    opened = act(visitor, "source", "1.1")[1]
    assert LITTLE_IN_COMMON not in opened and "<mark>The tenant pays 1,200 euros.</mark>" in opened
    assert LITTLE_IN_COMMON not in act(visitor, "source", 1)[1]


def test_a_document_that_was_read_whole_opens_at_its_beginning(
    visitor: Visitor, documents: ScriptedDocuments, lease: int
) -> None:
    documents.is_given_whole = True
    turn(visitor, documents.kept[lease].collection)
    visitor.get("tenant pays what?")
    _, html = act(visitor, "source", 1)
    assert (WHOLE in html, "<mark>" in html) == (True, False)


def test_a_source_whose_document_was_removed_says_so(
    visitor: Visitor, documents: ScriptedDocuments, lease: int
) -> None:
    turn(visitor, documents.kept[lease].collection)
    visitor.get("tenant pays what?")
    documents.remove(lease)
    reading, html = act(visitor, "source", 1)
    assert "has been removed" in html
    assert "has been removed" in act(visitor, "prompt", reading=reading)[1]


def test_an_answer_in_vain_says_that_it_is_not_in_the_documents(
    visitor: Visitor, documents: ScriptedDocuments, engine: ScriptedEngine, lease: int
) -> None:
    turn(visitor, documents.kept[lease].collection)
    visitor.get("elephants?")
    thread = visitor.look().thread
    assert ("Not in your documents" in thread, 'data-do="source"' in thread) == (True, False)
    assert engine.requests == []


def test_what_is_not_in_the_documents_can_be_answered_anyway(
    visitor: Visitor, documents: ScriptedDocuments, engine: ScriptedEngine, lease: int
) -> None:
    turn(visitor, documents.kept[lease].collection)
    visitor.get("elephants?")
    answer = visitor.messages[-1].id
    assert "Answer anyway</button>" in visitor.look().thread
    visitor.press("answer-anyway", answer)
    visitor.wait()
    assert [request.prompt[-1].content for request in engine.requests] == ["elephants?"]  # type: ignore[union-attr]
    assert visitor.messages[-1].versions == (answer, visitor.messages[-1].id)
    assert visitor.messages[-1].content.sources is None
    assert "Answer anyway" not in visitor.look().thread


def test_markers_are_buttons_while_the_answer_is_written(
    visitor: Visitor, documents: ScriptedDocuments, engine: ScriptedEngine, lease: int
) -> None:
    engine.text, engine.step_limit = "It is 1,200 [1]. " + "And so on. " * 20, 4
    turn(visitor, documents.kept[lease].collection)
    visitor.ask("tenant pays what?")
    live = ["".join(screen.live) for screen in visitor.follow(engine)]
    assert any('class="cite"' in html for html in live)
