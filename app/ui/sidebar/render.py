"""Renders Undo and the list of chats: pinned chats, folders, and all other chats by the day of their last use.

A folder is one line with a count until it is expanded. The folder of the current chat is expanded unless the user
collapsed it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from html import escape
from time import time
from types import MappingProxyType

from markupsafe import Markup

from app.conversation import is_private
from app.documents.documents import Documents
from app.ui.chat.state import CHAT_LIMIT, ChatState
from app.ui.frame.page_updates import CachedRenderer, Parts
from app.ui.frame.services import Services
from app.ui.frame.templates import render, without_number
from app.ui.frame.undo import UNDO_SECONDS, Deletions, Offer
from app.values.chat import ChatSearchResult, ChatSummary

FIRST = ("Private", "Pinned")
DAYS = ((0, "Today"), (1, "Yesterday"), (7, "Last 7 days"), (30, "Last 30 days"))
LATER = (*(title for _, title in DAYS), "Older")


@dataclass(frozen=True, slots=True)
class ChatList:
    """What the sidebar shows. During a search, `found` has the results."""

    chats: tuple[ChatSummary, ...] = ()
    current: int = 0
    writing: frozenset[int] = frozenset()
    folders: tuple[str, ...] = ()
    search: str = ""
    found: tuple[ChatSearchResult, ...] = ()
    limit: int = CHAT_LIMIT
    expanded: Mapping[str, bool] = field(default_factory=dict)

    def is_expanded(self, folder: str, chats: Sequence[ChatSummary]) -> bool:
        """Return whether a folder with these chats is expanded."""
        return self.expanded.get(folder, any(chat.id == self.current for chat in chats))


@dataclass(frozen=True, slots=True)
class Group:
    """Chats under a heading; `is_expanded` is None if the heading is not a folder."""

    title: str
    chats: Sequence[ChatSummary]
    is_expanded: bool | None = None


class ChatListRenderer(CachedRenderer):
    def __init__(self, services: Services, state: ChatState) -> None:
        self._services = services
        self._state = state

    def draw(self, _inputs: object) -> Parts:
        return {"chats": chat_list_html(chat_list(self._services, self._state), date.today())}

    def is_slow(self) -> bool:
        return self.inputs() != self._inputs

    def inputs(self) -> tuple[object, ...]:
        state, conversations = self._state, self._services.conversations
        chat = state.version.chat
        return (
            conversations.is_writing(chat), conversations.stores.changes, chat, state.opened, state.search,
            state.chat_limit, state.expanded,
        )  # fmt: skip


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
    """Return the sidebar's chats as HTML: pinned, by folder and by day; during a search, its results."""
    first, folders, later, hidden = ([], [], [], 0) if chats.search else _groups(chats, today)
    found = [(one.summary, excerpt_html(one.excerpt), one.message) for one in chats.found[: chats.limit]]
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


def _groups(chats: ChatList, today: date) -> tuple[list[Group], list[Group], list[Group], int]:
    """Return the groups above the folders, the folders, the groups below, and the number of hidden chats."""
    folders: dict[str, list[ChatSummary]] = {name: [] for name in chats.folders}
    loose: list[ChatSummary] = []  # chats in no folder, and pinned chats
    for chat in chats.chats:
        members = folders.setdefault(chat.folder, []) if chat.folder and not chat.is_pinned else loose
        members.append(chat)
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


def group_of(chat: ChatSummary, today: date) -> str:
    """Return the heading under which a chat is listed."""
    if is_private(chat.id):
        return "Private"
    if chat.is_pinned:
        return "Pinned"
    age = today - _day(chat.updated)
    return next((title for days, title in DAYS if age <= timedelta(days)), "Older")


def _day(moment: float) -> date:
    """Return the day of a time stamp; `date.min` if it is invalid, so that the list can be drawn."""
    try:
        return datetime.fromtimestamp(moment).date()
    except (ValueError, OverflowError, OSError):
        return date.min


def excerpt_html(excerpt: str) -> Markup:
    marked = escape(excerpt).replace("\x02", "<mark>").replace("\x03", "</mark>")
    return Markup(f'<small dir="auto">{marked}</small>')


class UndoRenderer(CachedRenderer):
    """Renders the offer to undo the newest event of the last UNDO_SECONDS: a deletion, or a replaced document."""

    _parts: Parts = MappingProxyType({"undo": ""})

    def __init__(self, deletions: Deletions, documents: Documents) -> None:
        self._deletions = deletions
        self._documents = documents

    def inputs(self) -> Offer | None:
        return min(self._offers(), key=lambda offer: offer[1], default=(None, 0.0))[0]

    def draw(self, inputs: Offer | None) -> Parts:
        return {"undo": render("undo.html", offer=inputs) if inputs else ""}

    def _offers(self) -> Iterator[tuple[Offer, float]]:
        """Yield the newest offer of each kind, with its age in seconds."""
        if deletion := self._deletions.newest():
            yield deletion, self._deletions.now() - deletion.at
        clock = time()  # in seconds since 1970, like the documents' `replaced`
        for document in self._documents.replaced_since(clock - UNDO_SECONDS)[-1:]:
            message = f"\u201c{document.title}\u201d was replaced by a newer version. Undo keeps both."
            yield Offer(message, document.replaced, document=document.id), clock - document.replaced
