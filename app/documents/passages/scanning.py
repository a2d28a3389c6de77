"""Which structure a text has: that of source code, or that of writing."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import PurePath

from app.documents.passages.lines import Line
from app.documents.passages.pieces import Piece
from app.documents.passages.source_code import scan_code
from app.documents.passages.writing import scan_writing

Scanner = Callable[[Iterable[Line]], Iterator[Piece]]
"""Makes pieces of lines."""

CODE = frozenset({
    ".bash", ".c", ".cc", ".clj", ".cmake", ".cpp", ".cs", ".css", ".cu", ".cuh", ".cxx", ".dart",
    ".ex", ".exs", ".go", ".gradle", ".groovy", ".h", ".hpp", ".hs", ".hxx", ".ini", ".java", ".jl",
    ".js", ".json", ".jsx", ".kt", ".kts", ".less", ".lua", ".m", ".mjs", ".ml", ".mm", ".nim",
    ".php", ".pl", ".pm", ".proto", ".ps1", ".py", ".pyi", ".pyx", ".r", ".rb", ".rs", ".sass",
    ".scala", ".scss", ".sh", ".sql", ".svelte", ".swift", ".tf", ".toml", ".ts", ".tsx", ".vb",
    ".vue", ".xml", ".yaml", ".yml", ".zig", ".zsh",
})  # fmt: skip
PAGED = ".pdf"


def scanner_of(source: str) -> Scanner:
    """How a text of this source is looked at, by the ending of its name."""
    ending = PurePath(source).suffix.lower()
    if ending in CODE:
        return scan_code
    return partial(scan_writing, first_page=1 if ending == PAGED else 0)
