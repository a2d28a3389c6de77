"""What the Settings view shows: renders the parts of settings.html and connect.html in assets/ui/templates."""

from collections.abc import Callable, Sequence
from pathlib import Path

from markupsafe import Markup

from app.settings import Theme
from app.ui.frame.page_stream import Parts
from app.ui.frame.templates import render_macro
from app.ui.settings.client_examples import Connection, client_examples
from app.ui.settings.data_folder import FolderPart
from app.values.display_text import counted
from app.values.messages import PRESETS, Decoding
from app.values.model import RowPrice, gigabytes
from app.values.step_rows import StepRows, step_rows

TEMPLATE = "settings.html"
THEMES: dict[Theme, str] = {"system": "System", "light": "Light", "dark": "Dark"}
FORMULAS = {
    "lookahead": "tree 1 + G·(N-1), window W·(N-1) - 1",
    "jacobi": "the current token and W guesses",
    "prompt-lookup": "the current token and up to 10 tokens copied from the text",
    "plain": "one token per step",
    "auto": "on average over a reply",
}


def cost_html(decoding: Decoding, price: RowPrice | None, model: str) -> Markup:
    """The rows of a step with these sizes, and their memory; `price` belongs to the loaded `model`."""
    rows = step_rows(decoding)
    return render_macro(
        TEMPLATE,
        "cost",
        decoder=decoding.decoder,
        total=counted(rows.total, "row") if rows else "",
        parts=_row_words(rows) if rows else "",
        rows=rows,
        tree_share=rows.tree / rows.total if rows else 0.0,
        formula=FORMULAS[decoding.decoder],
        memory=_memory_words(rows, price, model) if rows else "",
    )


def _row_words(rows: StepRows) -> str:
    parts = f"{rows.tree} tree + {rows.window} window, " if rows.window else ""
    return f"{parts}{counted(rows.read, 'row')} with logits"


def _memory_words(rows: StepRows, price: RowPrice | None, model: str) -> str:
    if price is None:
        return "Load a model to see the memory that these rows take."
    logits, cache = gigabytes(rows.read * price.logits), gigabytes(rows.total * price.cache)
    return f"With {model}, each step takes an estimated {logits} for logits and {cache} for keys and values."


def presets_html() -> Markup:
    """Buttons with the sizes that the authors of lookahead decoding recommend."""
    presets = {name: ", ".join(map(str, sizes)) for name, sizes in PRESETS.items()}
    return render_macro(TEMPLATE, "presets", presets=presets)


def connection_html(connection: Connection) -> Markup:
    """The address, the key, and examples for programs."""
    return render_macro(
        "connect.html",
        "connection",
        address=connection.address,
        key=connection.key,
        examples=client_examples(connection),
    )


def theme_html(chosen: Theme) -> Markup:
    """The appearance as radio buttons. assets/ui/settings.js applies a choice at once."""
    return render_macro(TEMPLATE, "theme", themes=THEMES, chosen=chosen)


def exports_html(address: str) -> Markup:
    """What the file of all chats is for, and its link."""
    return render_macro(TEMPLATE, "exports", address=address)


class ImportRenderer:
    """Renders how far an import of chats has come, for one page."""

    def __init__(self, progress: Callable[[], tuple[int, int]]) -> None:
        self._progress = progress
        self._shown = (0, 0)
        self._parts: Parts = {"import-progress": ""}

    def render(self) -> Parts:
        """The part; the same object while nothing changed."""
        progress = self._progress()
        if progress != self._shown:
            self._shown = done, total = progress
            html = render_macro(TEMPLATE, "import_progress", done=done, total=total) if total else ""
            self._parts = {"import-progress": html}
        return self._parts


def backups_html(address: str) -> Markup:
    """What a backup has, and its link."""
    return render_macro(TEMPLATE, "backups", address=address)


def delete_chats_html() -> Markup:
    """The question whether to delete all chats, closed."""
    return render_macro(TEMPLATE, "delete_chats")


def folder_html(folder: Path, parts: Sequence[FolderPart]) -> Markup:
    """The data folder's path and its parts."""
    total = sum(part.size for part in parts)
    return render_macro(TEMPLATE, "data_folder", folder=folder, parts=parts, total=total)


def restored_html() -> Markup:
    """What is shown after the defaults were restored."""
    return render_macro(TEMPLATE, "restored")
