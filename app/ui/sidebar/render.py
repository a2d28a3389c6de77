"""Renders the list of chats: pinned ones, folders, and the others by the day of their newest message.

A folder is one line with a count until it is expanded. The folder of the current chat is expanded unless it was
collapsed. Of a long list the newest chats are listed, and more on request.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from html import escape

from markupsafe import Markup

from app.conversation import is_private
from app.ui.chat.state import CHAT_LIMIT, ChatState
from app.ui.frame.services import Services
from app.ui.frame.templates import render
from app.values.chat import ChatSearchResult, ChatSummary

FIRST = ("Private", "Pinned")
DAYS = ((0, "Today"), (1, "Yesterday"), (7, "Last 7 days"), (30, "Last 30 days"))
LATER = (*(title for _, title in DAYS), "Older")
NUMBER = re.compile(r" (\(\d+\))$")


@dataclass(frozen=True, slots=True)
class ChatList:
    """What the sidebar shows. While something is searched for, `found` are the results."""

    chats: tuple[ChatSummary, ...] = ()
    current: int = 0
    writing: frozenset[int] = frozenset()
    folders: tuple[str, ...] = ()
    search: str = ""
    found: tuple[ChatSearchResult, ...] = ()
    limit: int = CHAT_LIMIT
    expanded: Mapping[str, bool] = field(default_factory=dict)

    def is_expanded(self, folder: str, chats: Sequence[ChatSummary]) -> bool:
        """Whether a folder with these chats is expanded."""
        return self.expanded.get(folder, any(chat.id == self.current for chat in chats))


@dataclass(frozen=True, slots=True)
class Group:
    """Chats under a heading; `is_expanded` is None for a heading that is no folder."""

    title: str
    chats: Sequence[ChatSummary]
    is_expanded: bool | None = None


def chat_list(services: Services, state: ChatState) -> ChatList:
    """Return the list as this page shows it now."""
    conversations = services.conversations
    stores, search = conversations.stores, state.search.strip()
    chats = stores.summaries()
    return ChatList(
        chats, state.version.chat, frozenset(chat.id for chat in chats if conversations.is_writing(chat.id)),
        stores.stored.folders(), search, stores.stored.search(state.search, state.chat_limit) if search else (),
        state.chat_limit, state.expanded,
    )  # fmt: skip


def chat_list_html(chats: ChatList, today: date) -> Markup:
    """Return the whole list."""
    first, folders, later, hidden = ([], [], [], 0) if chats.search else _groups(chats, today)
    found = [(result.summary, excerpt_html(result.excerpt)) for result in chats.found[: chats.limit]]
    return render(
        "chat_list.html",
        first=first,
        folders=folders,
        later=later,
        hidden=hidden + max(0, len(chats.found) - chats.limit),
        list=chats,
        found=found,
        is_private=is_private,
        without_number=without_number,
    )


def without_number(title: str) -> tuple[str, str]:
    """Return a title and the number behind it, "" for none: "Dinner (2)" is "Dinner" and "(2)"."""
    number = NUMBER.search(title)
    return (title[: number.start()], number[1]) if number else (title, "")


def _groups(chats: ChatList, today: date) -> tuple[list[Group], list[Group], list[Group], int]:
    """The groups above the folders, the folders, those below them, and how many chats of all are not listed."""
    folders, loose = _by_folder(chats)
    by_title: dict[str, list[ChatSummary]] = {title: [] for title in (*FIRST, *LATER)}
    for chat in loose[: chats.limit]:
        by_title[group_of(chat, today)].append(chat)
    listed = [
        Group(name, folders[name], chats.is_expanded(name, folders[name]))
        for name in sorted(folders, key=str.casefold)
    ]
    expanded = [group.chats for group in listed if group.is_expanded]
    hidden = sum(max(0, len(members) - chats.limit) for members in (loose, *expanded))
    return list(_headings(FIRST, by_title)), listed, list(_headings(LATER, by_title)), hidden


def _headings(titles: Iterable[str], by_title: Mapping[str, Sequence[ChatSummary]]) -> Iterator[Group]:
    return (Group(title, by_title[title]) for title in titles if by_title[title])


def _by_folder(listed: ChatList) -> tuple[dict[str, list[ChatSummary]], list[ChatSummary]]:
    """The chats by folder, and those in none; pinned ones stand above all folders."""
    folders: dict[str, list[ChatSummary]] = {name: [] for name in listed.folders}
    loose: list[ChatSummary] = []
    for chat in listed.chats:
        members = folders.setdefault(chat.folder, []) if chat.folder and not chat.is_pinned else loose
        members.append(chat)
    return folders, loose


def group_of(chat: ChatSummary, today: date) -> str:
    """Return the heading under which a chat is listed."""
    if is_private(chat.id):
        return "Private"
    if chat.is_pinned:
        return "Pinned"
    age = today - _day(chat.updated)
    return next((title for days, title in DAYS if age <= timedelta(days)), "Older")


def _day(moment: float) -> date:
    """The day of a moment. An impossible moment gets the first of all days: a list must not fail over one chat."""
    try:
        return datetime.fromtimestamp(moment).date()
    except (ValueError, OverflowError, OSError):
        return date.min


def excerpt_html(excerpt: str) -> Markup:
    """Return the words around a search result, which is marked."""
    marked = escape(excerpt).replace("\x02", "<mark>").replace("\x03", "</mark>")
    return Markup(f"<small>{marked}</small>")
