"""Reads a Jupyter notebook as Markdown: its texts, its code, what the code printed, and its errors. Counts results
without text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from app.documents.reading.process import ReadMessage, ReadNote, TextPiece
from app.values.display_text import counted

COLOUR = re.compile(r"\x1b\[[\d;]*m")


def read_notebook(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    notebook = json.loads(path.read_bytes())
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "")
    left_out = 0
    sheets = notebook.get("worksheets", [notebook])  # before version 4
    for cell in (cell for sheet in sheets for cell in sheet["cells"]):
        text = "".join(cell.get("source") or cell.get("input", "")).strip("\n")
        if text:
            yield TextPiece((_fenced(text, language) if cell["cell_type"] == "code" else text) + "\n\n")
        for output in cell.get("outputs", ()):
            failed = COLOUR.sub("", "\n".join(output.get("traceback", ())))
            printed = output.get("text") or output.get("data", {}).get("text/plain", "") or failed
            if text := "".join(printed).strip("\n"):
                yield TextPiece(_fenced(text) + "\n\n")
            elif output.get("data"):
                left_out += 1
    if left_out:
        yield ReadNote(f"Left out: {counted(left_out, 'result')} without text, such as pictures.")


def _fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"
