"""A chat is opened by its address, with what was typed in it."""

from tests.ui.chat.people import SKIPPED, Visitor, pressed


def test_an_address_opens_its_chat_and_a_new_one(person: Visitor) -> None:
    person.get("One")
    chat = person.state.version.chat
    person.actions.open_chat(person.state, pressed("open", 0))
    assert (person.state.version.chat, person.services.chat) == (0, 0)
    person.actions.open_chat(person.state, pressed("open", chat))
    assert (person.state.version.chat, person.services.chat) == (chat, chat)
    assert person.heard == []


def test_an_address_of_a_chat_that_is_gone_says_so_and_shows_a_new_one(person: Visitor) -> None:
    person.get("One")
    person.actions.open_chat(person.state, pressed("open", 4711))
    assert (person.state.version.chat, person.services.chat) == (0, 0)
    assert len(person.heard) == 1
    person.actions.open_chat(person.state, pressed("open", "nonsense"))
    assert person.state.version.chat == 0


def test_each_chat_has_its_own_draft(person: Visitor) -> None:
    person.get("One")
    chat = person.state.version.chat
    person.actions.type(person.state, "For this")
    person.actions.new_chat(person.state)
    person.actions.type(person.state, "For this chat")  # its event comes late
    assert person.actions.fill_draft(person.state, str(chat), "For this chat") == ""
    person.actions.type(person.state, "For a new one")
    person.actions.open_chat(person.state, pressed("open", chat))
    assert (
        person.actions.fill_draft(person.state, "0", "For a new one") == "For this chat" == person.state.draft
    )
    person.actions.open_chat(person.state, pressed("open", 0))
    assert person.actions.fill_draft(person.state, str(chat), "For this chat") == "For a new one"


def test_what_is_typed_before_a_new_page_is_drawn_stays(person: Visitor) -> None:
    person.state.opened += 1  # as a new page opens the last chat
    assert person.actions.fill_draft(person.state, "", "Too early") == SKIPPED
    person.actions.type(person.state, "Too early?")
    assert person.services.conversations.drafts.of(0) == "Too early?"


def test_what_was_sent_is_no_draft_even_if_its_last_key_comes_late(person: Visitor) -> None:
    person.actions.type(person.state, "On")
    person.get("One")
    person.actions.type(person.state, "One")
    assert person.services.conversations.drafts.of(0) == ""
    assert person.services.conversations.drafts.of(person.state.version.chat) == ""


def test_a_private_chat_that_is_not_begun_keeps_no_draft(person: Visitor) -> None:
    person.actions.new_private_chat(person.state)
    person.actions.type(person.state, "A secret")
    assert person.actions.fill_draft(person.state, "0", "") == SKIPPED, "the box is empty already"
    person.actions.type(person.state, "A secret")
    assert person.services.conversations.drafts.of(0) == ""
    person.actions.new_chat(person.state)
    assert person.actions.fill_draft(person.state, "private", "A secret") == ""
