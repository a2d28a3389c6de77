"""Reads a Jupyter notebook as Markdown: its texts, its code, and what the code printed; no pictures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.documents.reading.process import ReadMessage, TextPiece


def read_notebook(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """Yields the cells of a notebook in order."""
    notebook = json.loads(path.read_bytes())
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "")
    for cell in notebook["cells"]:
        text = "".join(cell["source"]).strip("\n")
        if text:
            yield TextPiece((_fenced(text, language) if cell["cell_type"] == "code" else text) + "\n\n")
        for output in cell.get("outputs", ()):
            if printed := _printed(output):
                yield TextPiece(_fenced(printed) + "\n\n")


def _printed(output: dict[str, Any]) -> str:
    return "".join(output.get("text") or output.get("data", {}).get("text/plain", "")).strip("\n")


def _fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"
