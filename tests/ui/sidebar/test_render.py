"""The list of chats as HTML: headings, order, what is found, and that no title is ever markup."""

import re
from datetime import date, datetime

import pytest

from app.chats.chats import FIRST_PRIVATE
from app.ui.sidebar.render import ChatList, chat_list_html, excerpt_html, group_of
from app.values.chat import ChatSearchResult, ChatSummary

TODAY = date(2026, 11, 21)


def line(chat: int, title: str = "", *, days: int = 0, folder: str = "", pinned: bool = False) -> ChatSummary:
    noon = datetime(2026, 11, 21 - days, 12).timestamp()
    return ChatSummary(chat, title or f"chat {chat}", folder, pinned, noon)


def headings(html: str) -> list[str]:
    return [re.sub(r"<.*?>", "", heading) for heading in re.findall(r"<h3>(.*?)</h3>", html)]


def titles(html: str) -> list[str]:
    return re.findall(r'data-do="open".*?<span dir="auto">(.*?)</span>', html)


def test_chats_stand_below_the_day_of_their_newest_message() -> None:
    ages = {0: "Today", 1: "Yesterday", 5: "Last 7 days", 20: "Last 30 days"}
    assert {days: group_of(line(1, days=days), TODAY) for days in ages} == ages
    assert group_of(ChatSummary(1, "old", updated=0.0), TODAY) == "Older"


@pytest.mark.parametrize("moment", [1_763_700_000_000.0, -1e18, 1e300, float("nan"), float("inf")])
def test_a_date_that_is_none_spoils_no_list(moment: float) -> None:
    odd = ChatSummary(1, "odd", updated=moment)
    assert group_of(odd, TODAY) == "Older"
    assert titles(chat_list_html(ChatList((line(2, "new"), odd)), TODAY)) == ["new", "odd"]


def test_private_and_pinned_chats_come_first_and_folders_before_days() -> None:
    lines = (
        line(FIRST_PRIVATE, "secret"), line(1, "top", pinned=True, folder="Work"), line(2, "new"),
        line(3, "b", folder="Work"),
        line(4, "a", folder="Garden"), line(5, "old", days=5),
    )  # fmt: skip
    html = chat_list_html(ChatList(lines, expanded={"Work": True, "Garden": True}), TODAY)
    assert headings(html) == ["Private", "Pinned", "Folders", "Garden1", "Work1", "Today", "Last 7 days"]
    assert titles(html) == ["secret", "top", "a", "b", "new", "old"]


def test_a_long_list_is_shown_as_far_as_asked_and_offers_the_rest() -> None:
    lines = tuple(line(chat) for chat in range(1, 151))
    html = chat_list_html(ChatList(lines, limit=100), TODAY)
    assert len(titles(html)) == 100
    assert "Show 50 more" in html


def test_every_folder_is_listed_with_its_count_however_old_its_chats_are() -> None:
    new = tuple(line(chat) for chat in range(1, 101))
    old = tuple(line(chat, days=20, folder="Archive") for chat in range(101, 251))
    html = chat_list_html(ChatList((*new, *old)), TODAY)
    assert headings(html) == ["Folders", "Archive150", "Today"]
    assert (len(titles(html)), "more</button>" in html) == (100, False)
    expanded = chat_list_html(ChatList((*new, *old), expanded={"Archive": True}), TODAY)
    assert len(titles(expanded)) == 200 and "Show 50 more" in expanded


def test_the_folder_of_the_chat_that_is_looked_at_is_expanded_until_it_is_collapsed() -> None:
    lines = (line(1, folder="Work"), line(2, folder="Garden"))
    assert titles(chat_list_html(ChatList(lines, current=1), TODAY)) == ["chat 1"]
    assert titles(chat_list_html(ChatList(lines, current=1, expanded={"Work": False}), TODAY)) == []


def test_the_number_of_a_title_is_seen_however_long_the_title_is() -> None:
    html = chat_list_html(ChatList((line(1, "Tell me what a lighthouse is (2)"), line(2, "(2)"))), TODAY)
    assert '<span dir="auto">Tell me what a lighthouse is</span> <em>(2)</em>' in html
    assert '<span dir="auto">(2)</span></button>' in html


def test_no_title_is_markup() -> None:
    html = chat_list_html(ChatList((line(1, '<img src=x onerror="a()">', folder="<b>"),)), TODAY)
    assert "<img" not in html
    assert "<b>" not in html


def test_what_is_found_shows_the_words_around_it() -> None:
    found = (ChatSearchResult(line(7, "Tulips"), "when do \x02tulips\x03 <i>flower"),)
    html = chat_list_html(ChatList((line(1),), search="tulips", found=found), TODAY)
    assert titles(html) == ["Tulips"]
    assert "<mark>tulips</mark> &lt;i&gt;flower" in html
    assert excerpt_html("a \x02b\x03") == '<small dir="auto">a <mark>b</mark></small>'


def test_all_that_is_found_is_counted_and_listed_as_far_as_asked() -> None:
    found = tuple(ChatSearchResult(line(chat), "") for chat in range(1, 151))
    html = chat_list_html(ChatList((line(1),), search="chat", found=found, limit=100), TODAY)
    assert "150 chats found" in html and "Show 50 more" in html
    assert len(titles(html)) == 100


def test_an_empty_folder_is_listed_and_can_only_be_removed_without_chats() -> None:
    html = chat_list_html(ChatList(folders=("Work",), expanded={"Work": True}), TODAY)
    assert headings(html) == ["Folders", "Work0"]
    assert "This folder is empty." in html
    assert re.findall(r'data-do="(\w+-folder)"', html) == ["make-folder", "rename-folder", "remove-folder"]
    full = chat_list_html(
        ChatList((line(1, folder="Work"), line(2, folder="Work")), folders=("Work",)), TODAY
    )
    assert "Delete with 2 chats" in full and "This folder is empty." not in full


def test_private_chats_are_neither_pinned_nor_moved() -> None:
    html = chat_list_html(ChatList((line(FIRST_PRIVATE),)), TODAY)
    assert 'data-do="pin"' not in html
    assert 'data-do="move"' not in html
    assert 'data-do="rename"' in html
