"""The chip above the message box: which collections the chat asks, and behind it those to choose from."""

from collections.abc import Sequence
from html import escape

from app.document_messages import Collection

GONE = "A deleted collection"


def chip_html(collections: Sequence[Collection], chosen: Sequence[int]) -> str:
    """The chip with its choices; nothing where there is nothing to ask. assets/ui/documents.js opens it."""
    known = {collection.id: collection.name for collection in collections}
    offered = (*known, *(one for one in chosen if one not in known))
    if not offered:
        return ""
    names = ", ".join(known.get(one, GONE) for one in chosen)
    choices = "".join(_choice(one, known.get(one, GONE), one in chosen) for one in offered)
    state = "on" if chosen else "off"
    return (
        f'<div class="chip {state}"><button type="button" class="open" aria-haspopup="true" aria-expanded="false"'
        f' title="Documents that this chat asks">Documents: {escape(names) or "off"}</button>'
        f'<div class="choices" role="group" aria-label="Collections that this chat asks">{choices}</div></div>'
    )


def _choice(collection: int, name: str, is_chosen: bool) -> str:
    return (
        f'<button type="button" role="checkbox" aria-checked="{str(is_chosen).lower()}" data-do="consult"'
        f' data-name="{collection}"><i aria-hidden="true"></i><span>{escape(name)}</span></button>'
    )
