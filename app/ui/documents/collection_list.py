"""The collections as a list, with a menu for each."""

from collections.abc import Sequence
from html import escape

from app.display_text import counted
from app.document_messages import Collection
from app.ui.pieces import button

NEW = (
    '<button type="button" class="act" data-ask="Name of the collection" data-do="create" data-name=""'
    ' data-value="" aria-label="New collection">New</button>'
)
"""Asks for the name in place: see `askInPlace` in assets/ui/foresight.js."""


def collections_html(collections: Sequence[Collection], chosen: int, asked: int = 0) -> str:
    """All of them; below the one that is `asked` about stands the question whether to delete it."""
    rows = "".join(_row(one, one.id == chosen, one.id == asked) for one in collections)
    listed = f"<ul>{rows}</ul>" if rows else ""
    over = f'<div class="over"><h3>Collections</h3>{NEW}</div>'
    return f'<nav class="collections" aria-label="Collections">{over}{listed}</nav>'


def _row(collection: Collection, is_chosen: bool, is_asked: bool) -> str:
    name, count = escape(collection.name), counted(collection.documents, "document")
    current = ' aria-current="true"' if is_chosen else ""
    delete = button("Delete", "delete", str(collection.id), about=collection.name, kind="danger")
    question = sure_html(_sentence(collection), delete) if is_asked else ""
    return (
        f'<li{current}><button type="button" class="open" data-do="choose" data-name="{collection.id}"'
        f' title="{name}"><span>{name}</span><small>{count}</small></button>{_menu(collection)}{question}</li>'
    )


def _menu(collection: Collection) -> str:
    name = escape(collection.name)
    return (
        f'<details class="menu"><summary aria-label="More about {name}">⋯</summary><div>'
        f'<button type="button" data-ask="Name of the collection" data-do="rename" data-name="{collection.id}"'
        f' data-value="{name}">Rename…</button>'
        f'<button type="button" data-do="ask-delete" data-name="{collection.id}">Delete…</button></div></details>'
    )


def _sentence(collection: Collection) -> str:
    if not collection.documents:
        return f"Delete “{collection.name}”?"
    return f"Delete “{collection.name}” with its {counted(collection.documents, 'document')}?"


def sure_html(sentence: str, yes: str) -> str:
    """What is asked in place before something is lost. It gets the focus, on the answer that changes nothing."""
    return (
        f'<div class="question sure" role="group" aria-label="{escape(sentence)}"><p>{escape(sentence)}</p>'
        f'<div class="actions">{yes}{button("Keep", "keep", about="it")}</div></div>'
    )
