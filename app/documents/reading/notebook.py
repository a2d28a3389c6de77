"""Reads a Jupyter notebook as Markdown: its texts, its code, and what the code printed. Pictures are left out."""

import json
from collections.abc import Iterator
from pathlib import Path

from app.documents.reading.process import ReadMessage, TextPiece


def read_notebook(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    notebook = json.loads(path.read_bytes())
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "")
    for cell in notebook["cells"]:
        text = "".join(cell["source"]).strip("\n")
        if text:
            yield TextPiece((_fenced(text, language) if cell["cell_type"] == "code" else text) + "\n\n")
        for output in cell.get("outputs", ()):
            printed = output.get("text") or output.get("data", {}).get("text/plain", "")
            if text := "".join(printed).strip("\n"):
                yield TextPiece(_fenced(text) + "\n\n")


def _fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"
