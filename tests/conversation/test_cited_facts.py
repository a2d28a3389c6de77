"""Numbers, dates and names are found however they are written, and missed where they are other ones."""

import pytest

from app.conversation.citation_check import missing_facts

SOURCE = "On 5 May 2024 the gate of Berlin-Mitte opened at 07.30. Anna Berg paid 1,200 euros for three cats."


@pytest.mark.parametrize(
    ("sentence", "missing"),
    [
        ("It opened at 7:30", ()),
        ("It opened at 7:15", ("7:15",)),
        ("She paid 1200 euros", ()),
        ("She paid 1\u2019200 euros", ()),
        ("She paid 12,00 euros", ("12,00",)),
        ("3 cats came on 2024-05-05", ()),
        ("4 cats came on 05.06.2024", ("4", "05.06.2024")),
        ("It is said that Anna paid", ()),
        ("It is said that Berta paid in Hamburg", ("Berta", "Hamburg")),
        ("The Berliner gate is in Mitte", ()),
        ("2. It opened", ()),
        ("Die Kosten der Katzen im Garten waren 1200 und 7", ("7",)),
    ],
)
def test_what_a_source_does_not_have_is_named(sentence: str, missing: tuple[str, ...]) -> None:
    assert missing_facts(sentence, SOURCE) == missing
