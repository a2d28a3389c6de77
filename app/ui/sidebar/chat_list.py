"""The list of chats as HTML: pinned ones, folders, and the others by the day of their newest message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from html import escape
from itertools import groupby

from app.chat_messages import ChatLine, FoundChat
from app.conversation import is_private

DAYS = ((0, "Today"), (1, "Yesterday"), (7, "Last 7 days"), (30, "Last 30 days"))


@dataclass(frozen=True, slots=True)
class ChatList:
    """What the sidebar shows. With words, `found` is what they were found in."""

    lines: tuple[ChatLine, ...] = ()
    current: int = 0
    writing: frozenset[int] = frozenset()
    folders: tuple[str, ...] = ()
    words: str = ""
    found: tuple[FoundChat, ...] = ()
    deleted: str = ""
    listed: int = 100


def chat_list_html(chats: ChatList, today: date) -> str:
    """The whole list; a deleted chat can be brought back from the line at its end."""
    body = _found(chats) if chats.words else _groups(chats, today)
    return f'<nav class="chats" aria-label="Chats">{body}{_deleted(chats.deleted)}</nav>'


def _groups(chats: ChatList, today: date) -> str:
    if not chats.lines:
        return '<p class="hint">Your chats will be listed here. They stay on this computer.</p>'
    shown = chats.lines[: chats.listed]
    groups = [
        _group(title, lines, chats)
        for title, lines in groupby(_sorted(shown, today), key=lambda line: group_of(line, today))
    ]
    left = len(chats.lines) - len(shown)
    more = (
        f'<button class="quiet" data-do="more" data-name="">Show {left:,} more</button>' if left > 0 else ""
    )
    return "".join(groups) + more


def _sorted(lines: Sequence[ChatLine], today: date) -> list[ChatLine]:
    """Private and pinned chats, then folders by name, then the others by day; each newest first."""
    order = {title: place for place, title in enumerate(("Private", "Pinned"))}
    days = {title: place for place, (_, title) in enumerate(DAYS, 3)}

    def place(line: ChatLine) -> tuple[int, str]:
        title = group_of(line, today)
        if line.folder and title == line.folder:
            return 2, title.casefold()
        return order.get(title, days.get(title, 9)), ""

    return sorted(lines, key=place)


def group_of(line: ChatLine, today: date) -> str:
    """The heading under which a chat is listed."""
    if is_private(line.id):
        return "Private"
    if line.is_pinned:
        return "Pinned"
    if line.folder:
        return line.folder
    age = today - _day(line.updated)
    return next((title for days, title in DAYS if age <= timedelta(days)), "Older")


def _day(moment: float) -> date:
    """The day of a moment; the first of all days for what is none, since a list must not fail over one line."""
    try:
        return datetime.fromtimestamp(moment).date()
    except (ValueError, OverflowError, OSError):
        return date.min


def _group(title: str, lines: Iterable[ChatLine], chats: ChatList) -> str:
    items = "".join(_item(line, chats) for line in lines)
    return f"<h3>{escape(title)}</h3><ul>{items}</ul>"


def _item(line: ChatLine, chats: ChatList, excerpt: str = "") -> str:
    is_current = line.id == chats.current
    current = ' aria-current="page"' if is_current else ""
    writing = '<i class="writing" title="A reply is being written"></i>' if line.id in chats.writing else ""
    title = escape(line.title or "New chat")
    return (
        f'<li class="chat-line"{current}><button class="open" data-do="open" data-name="{line.id}" title="{title}">'
        f"{writing}<span>{title}</span>{excerpt}</button>{_menu(line, chats.folders)}</li>"
    )


def _menu(line: ChatLine, folders: Sequence[str]) -> str:
    """What can be done with a chat; renaming and moving ask for words in place (assets/ui/sidebar.js)."""
    title = escape(line.title)
    choices = "".join(f"<option>{escape(folder)}</option>" for folder in folders)
    private = is_private(line.id)
    keeping = (
        ""
        if private
        else (
            _button("pin" if not line.is_pinned else "unpin", line.id, "Unpin" if line.is_pinned else "Pin")
            + f'<button data-ask="Folder, or nothing for none" data-do="move" data-name="{line.id}" '
            f'data-value="{escape(line.folder)}">Move to folder…</button>'
        )
    )
    return (
        f'<details class="menu"><summary aria-label="More about {title}">⋯</summary><div>'
        f'<button data-ask="Title" data-do="rename" data-name="{line.id}" data-value="{title}">Rename…</button>'
        f"{keeping}{_button('markdown', line.id, 'Save as Markdown')}{_button('json', line.id, 'Save as JSON')}"
        f"{_button('delete', line.id, 'Delete')}<datalist>{choices}</datalist></div></details>"
    )


def _button(do: str, name: int, words: str) -> str:
    return f'<button data-do="{do}" data-name="{name}">{words}</button>'


def _found(chats: ChatList) -> str:
    if not chats.found:
        return f'<p class="hint">No chat has “{escape(chats.words)}”.</p>'
    items = "".join(_item(found.line, chats, excerpt_html(found.excerpt)) for found in chats.found)
    return f"<h3>Found</h3><ul>{items}</ul>"


def excerpt_html(excerpt: str) -> str:
    """Words around what was found, which is marked."""
    marked = escape(excerpt).replace("\x02", "<mark>").replace("\x03", "</mark>")
    return f"<small>{marked}</small>"


def _deleted(title: str) -> str:
    if not title:
        return ""
    return (
        f'<p class="undo" role="status">“{escape(title)}” was deleted. '
        '<button data-do="undo" data-name="">Undo</button></p>'
    )
