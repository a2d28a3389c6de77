"""The values about documents refuse the impossible and say what they were given."""

from collections.abc import Callable
from typing import Any

import pytest

from app.values.document import Citation, Collection, Document, Passage


@pytest.mark.parametrize(
    ("make", "arguments", "sentence"),
    [
        (Collection, {"id": 1, "name": "  "}, "a collection must have a name; it is “  ”"),
        (Passage, {"id": 1, "document": 1, "title": "", "start": 5, "end": 5, "text": ""}, r"it is 5, 5"),
        (
            Citation,
            {"number": 0, "document": 1, "title": "", "start": 0, "end": 1},
            "numbered from 1; it is 0",
        ),
        (Document, {"id": 1, "collection": 1, "title": "", "state": "lost"}, "it is “lost”"),
    ],
)
def test_the_impossible_is_refused_in_words(
    make: Callable[..., Any], arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        make(**arguments)
