"""Files that the page gives to the person: text in a place of its own, which assets/ui/saving.js downloads."""

import re
from html import escape
from time import time_ns

import gradio as gr

LONGEST = 80
"""Characters of a file's name before its ending."""


def build_file_place(elem_id: str) -> gr.HTML:
    """The place that a file is put into, inside the current Blocks; never in sight."""
    return gr.HTML(elem_id=elem_id, elem_classes="file-place", js_on_load=None)


def file_html(name: str, text: str, kind: str = "text/plain") -> str:
    """A file to be saved under this name; `kind` is its media type."""
    # The same file once more must differ, or the page would not hear of it.
    return (
        f'<data hidden data-file="{escape(file_name(name))}" data-kind="{escape(kind)}" data-made="{time_ns()}" '
        f'data-text="{escape(text)}"></data>'
    )


def file_name(name: str) -> str:
    """A name that every system takes, with the ending of the one that was wished for."""
    stem, dot, ending = re.sub(r"[^\w .()-]+", " ", name).rpartition(".")
    return f"{stem[:LONGEST].strip(' .') or 'foresight'}{dot}{ending[:LONGEST].strip()}"
