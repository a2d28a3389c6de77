"""Files are attached to one chat."""

from pathlib import Path

from app.ui.chat.chat_documents import PRIVATE, ChatDocuments, chosen_collections_html
from app.ui.chat.chat_settings import settings_of
from app.ui.documents.view import listed_collections
from tests.fake_documents import ScriptedDocuments
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
    assert not file.exists(), "the upload"
    assert [name for name, _ in documents.uploads] == ["rules.txt", "more.txt"]
    assert list(documents.names.values()) == ["Attached: rules.txt"], "a chat has one collection of its own"
    chosen = settings_of(person.services, person.state).collections
    assert chosen_collections_html(documents, chosen) and not chosen_collections_html(documents, ())
    assert "Attached: rules.txt" in person.look().picker
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
    assert ">Attached: rules.txt</button>" in person.look().picker
    [unread] = [one for one in documents.kept.values() if one.state == "failed"]
    person.actions.documents.choose_collection(person.state, pressed("remove-attached", unread.id))
    assert documents.note not in person.look().picker
    [rest] = documents.kept
    person.actions.documents.choose_collection(person.state, pressed("remove-attached", rest))
    assert settings_of(person.services, person.state).collections == (), "nothing is left to be asked"


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
        return [one.name for one in listed_collections(documents, used)]

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
