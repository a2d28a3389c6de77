"""What a page shows of a passage that was found: the sentence that is asked for, the question's words marked."""

from collections.abc import Iterator

from app.document_messages import Passage
from app.documents.search.snippets import highlighted, snippet


def excerpt(passage: Passage, question: str, most: int) -> Iterator[tuple[str, bool]]:
    """At most about this many characters in parts, each with whether it is a word of the question."""
    shown = snippet(passage, question, most)
    if shown.start > passage.start:
        yield "…", False
    yield from highlighted(shown.text, question)
    if shown.end < passage.end:
        yield "…", False
