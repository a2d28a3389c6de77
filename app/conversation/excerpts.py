"""What a page shows of a passage that was found: the sentence that is asked for, the question's words marked."""

from collections.abc import Iterator

from app.documents.search.snippets import best_start, highlighted, plain_passage
from app.values.document import Passage


def excerpt(passage: Passage, question: str, most: int) -> Iterator[tuple[str, bool]]:
    """The sentence and what follows, in at most this many characters: parts, each with whether it was asked for.

    Without the marks of Markdown, which the passage itself keeps."""
    passage = plain_passage(passage)
    begin = best_start(passage, question)
    shown = passage.text[begin : begin + most].rstrip()
    if begin:
        yield "…", False
    yield from highlighted(shown.replace("\n\n", "\n"), question)  # the page shows a few lines
    if begin + len(shown) < len(passage.text.rstrip()):
        yield "…", False
