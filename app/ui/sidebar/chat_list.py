"""The list of chats as HTML: pinned ones, all folders, and the others by the day of their newest message.

A folder is one line with a count until it is unfolded; the one that has the chat which is looked at is, unless it
was folded. Of a long list the newest chats are listed, and more when asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from html import escape

from app.chat_messages import ChatSearchResult, ChatSummary
from app.conversation import is_private

FOLDERS = "chat-folders"
"""The id of the names that are suggested where a folder is asked for."""
FIRST = ("Private", "Pinned")
DAYS = ((0, "Today"), (1, "Yesterday"), (7, "Last 7 days"), (30, "Last 30 days"))
LATER = (*(title for _, title in DAYS), "Older")


@dataclass(frozen=True, slots=True)
class ChatList:
    """What the sidebar shows. With words, `found` is what they were found in."""

    lines: tuple[ChatSummary, ...] = ()
    current: int = 0
    writing: frozenset[int] = frozenset()
    folders: tuple[str, ...] = ()
    words: str = ""
    found: tuple[ChatSearchResult, ...] = ()
    deleted: tuple[str, ...] = ()
    listed: int = 100
    unfolded: Mapping[str, bool] = field(default_factory=dict)


def chat_list_html(chats: ChatList, today: date) -> str:
    """The whole list; a deleted chat can be brought back from the line at its end."""
    body = _found(chats) if chats.words else _groups(chats, today)
    names = "".join(f"<option>{escape(folder)}</option>" for folder in chats.folders)
    return (
        f'<nav class="chats" aria-label="Chats">{body}{_deleted(chats.deleted)}'
        f'<datalist id="{FOLDERS}">{names}</datalist></nav>'
    )


def _groups(chats: ChatList, today: date) -> str:
    if not chats.lines:
        return '<p class="hint">Your chats will be listed here. They stay on this computer.</p>'
    folders, loose = _apart(chats.lines)
    groups: dict[str, list[ChatSummary]] = {title: [] for title in (*FIRST, *LATER)}
    for line in loose[: chats.listed]:
        groups[group_of(line, today)].append(line)
    parts = (
        *(_group(title, groups[title], chats) for title in FIRST),
        *(_folder(name, folders[name], chats) for name in sorted(folders, key=str.casefold)),
        *(_group(title, groups[title], chats) for title in LATER),
    )
    unfolded = [lines for name, lines in folders.items() if _is_unfolded(name, lines, chats)]
    return "".join(parts) + _more(chats, loose, *unfolded)


def _apart(lines: Iterable[ChatSummary]) -> tuple[dict[str, list[ChatSummary]], list[ChatSummary]]:
    """Chats by folder, and those that stand in none; pinned ones stand above all folders."""
    folders: dict[str, list[ChatSummary]] = {}
    loose: list[ChatSummary] = []
    for line in lines:
        place = folders.setdefault(line.folder, []) if line.folder and not line.is_pinned else loose
        place.append(line)
    return folders, loose


def _more(chats: ChatList, *groups: Sequence[ChatSummary]) -> str:
    """The way to chats of these groups that are not listed."""
    left = sum(max(0, len(lines) - chats.listed) for lines in groups)
    return f'<button class="quiet" data-do="more" data-name="">Show {left:,} more</button>' if left else ""


def group_of(line: ChatSummary, today: date) -> str:
    """The heading under which a chat is listed."""
    if is_private(line.id):
        return "Private"
    if line.is_pinned:
        return "Pinned"
    age = today - _day(line.updated)
    return next((title for days, title in DAYS if age <= timedelta(days)), "Older")


def _day(moment: float) -> date:
    """The day of a moment; the first of all days for what is none, since a list must not fail over one line."""
    try:
        return datetime.fromtimestamp(moment).date()
    except (ValueError, OverflowError, OSError):
        return date.min


def _group(title: str, lines: Sequence[ChatSummary], chats: ChatList) -> str:
    return f"<h3>{escape(title)}</h3>{_items(lines, chats)}" if lines else ""


def _folder(name: str, lines: Sequence[ChatSummary], chats: ChatList) -> str:
    """A folder as a line that unfolds it, and its chats below it once it is."""
    is_unfolded, shown = _is_unfolded(name, lines, chats), escape(name)
    turn = (
        f'<button class="fold" data-do="{"fold" if is_unfolded else "unfold"}" data-name="{shown}" '
        f'aria-expanded="{str(is_unfolded).lower()}"><span>{shown}</span><small>{len(lines):,}</small></button>'
    )
    rename = (
        f'<button data-ask="Folder, or nothing for none" data-list="{FOLDERS}" data-do="rename-folder" '
        f'data-name="{shown}" data-value="{shown}">Rename…</button>'
    )
    menu = (
        f'<details class="menu"><summary aria-label="More about the folder {shown}">⋯</summary>'
        f"<div>{rename}</div></details>"
    )
    head = f'<div class="folder"><h3>{turn}</h3>{menu}</div>'
    return head + (_items(lines[: chats.listed], chats) if is_unfolded else "")


def _is_unfolded(name: str, lines: Sequence[ChatSummary], chats: ChatList) -> bool:
    """As it was turned; else where the chat that is looked at is in it."""
    return chats.unfolded.get(name, any(line.id == chats.current for line in lines))


def _items(lines: Iterable[ChatSummary], chats: ChatList) -> str:
    return f"<ul>{''.join(_item(line, chats) for line in lines)}</ul>"


def _item(line: ChatSummary, chats: ChatList, excerpt: str = "") -> str:
    is_current = line.id == chats.current
    current = ' aria-current="page"' if is_current else ""
    writing = '<i class="writing" title="A reply is being written"></i>' if line.id in chats.writing else ""
    title = escape(line.title or "New chat")
    return (
        f'<li class="chat-line"{current}><button class="open" data-do="open" data-name="{line.id}" title="{title}">'
        f"{writing}<span>{title}</span>{excerpt}</button>{_menu(line)}</li>"
    )


def _menu(line: ChatSummary) -> str:
    """What can be done with a chat; renaming and moving ask for words in place (assets/ui/sidebar.js)."""
    title = escape(line.title)
    private = is_private(line.id)
    keeping = (
        ""
        if private
        else (
            _button("pin" if not line.is_pinned else "unpin", line.id, "Unpin" if line.is_pinned else "Pin")
            + f'<button data-ask="Folder, or nothing for none" data-list="{FOLDERS}" data-do="move" '
            f'data-name="{line.id}" data-value="{escape(line.folder)}">Move to folder…</button>'
        )
    )
    return (
        f'<details class="menu"><summary aria-label="More about {title}">⋯</summary><div>'
        f'<button data-ask="Title" data-do="rename" data-name="{line.id}" data-value="{title}">Rename…</button>'
        f"{keeping}{_button('markdown', line.id, 'Save as Markdown')}{_button('json', line.id, 'Save as JSON')}"
        f"{_button('delete', line.id, 'Delete')}</div></details>"
    )


def _button(do: str, name: int, words: str) -> str:
    return f'<button data-do="{do}" data-name="{name}">{words}</button>'


def _found(chats: ChatList) -> str:
    if not chats.found:
        return f'<p class="hint">No chat has “{escape(chats.words)}”.</p>'
    items = "".join(_item(found.summary, chats, excerpt_html(found.excerpt)) for found in chats.found)
    return f"<h3>Found</h3><ul>{items}</ul>"


def excerpt_html(excerpt: str) -> str:
    """Words around what was found, which is marked."""
    marked = escape(excerpt).replace("\x02", "<mark>").replace("\x03", "</mark>")
    return f"<small>{marked}</small>"


def _deleted(titles: Sequence[str]) -> str:
    if not titles:
        return ""
    before = f", after {len(titles) - 1:,} more" if len(titles) > 1 else ""
    return (
        f'<p class="undo" role="status">“{escape(titles[-1])}” was deleted{before}. '
        '<button data-do="undo" data-name="">Undo</button></p>'
    )
