"""A text as it can be stored: without NULs and halves of characters, with one kind of line end.

What was left out is told. Works piece by piece: a line end of two characters may be cut in two.

    "one\\r" "\\ntwo\\0"  ->  "one" "\\ntwo"
"""


class Cleaner:
    """Cleans one text."""

    def __init__(self) -> None:
        self._is_first = True
        self._held = ""
        self._nuls = 0

    def clean(self, piece: str) -> str:
        """The next piece, as far as it is certain."""
        text = self._held + piece
        if self._is_first and text:
            text, self._is_first = text.removeprefix("\ufeff"), False
        self._held = "\r" if text.endswith("\r") else ""
        lines = text.removesuffix(self._held).replace("\r\n", "\n").replace("\r", "\n")
        kept = lines.replace("\0", "")
        self._nuls += len(lines) - len(kept)
        return kept.encode("utf-8", "replace").decode("utf-8")

    def rest(self) -> str:
        """What was held back at the end."""
        held, self._held = self._held, ""
        return held.replace("\r", "\n")

    def notes(self) -> list[str]:
        """Sentences about what was left out."""
        return [f"{self._nuls:,} NUL characters were left out."] if self._nuls else []


def cleaned(text: str) -> tuple[str, str]:
    """A whole text cleaned, and what is to be told of that."""
    cleaner = Cleaner()
    kept = cleaner.clean(text) + cleaner.rest()
    return kept, " ".join(cleaner.notes())
