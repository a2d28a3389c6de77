"""Passages: all of a text, its exact places, short enough, and cut where the text itself makes a break."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.chunking import MAX_WEIGHT, OVERLAP, Chunk, chunks
from app.values.text_normalisation import weight_of

WORDS = st.sampled_from(
    ["Eggs", "boil.", "Why?", "e.g.", "蛋要煮", "六分钟。", "x" * 300, "a\u0301", "👩‍🍳", "# H", "## Sub", "- item",
     "1. one", "```", "~~~", "====", "def f():", "    x", "\n", "\n\n", "\f", "\t", " ", "\u3000", "CHAPTER I"]
)  # fmt: skip
TEXTS = st.lists(WORDS, max_size=120).map(" ".join) | st.text(max_size=400)
SOURCES = st.sampled_from(["pasted", "a.md", "a.py", "a.pdf"])


def passages(text: str, source: str = "pasted") -> list[Chunk]:
    return list(chunks([text], source))


@given(TEXTS, SOURCES)
def test_every_passage_is_where_it_says(text: str, source: str) -> None:
    for one in passages(text, source):
        assert text[one.start : one.end] == one.text == one.text.strip() != ""


@given(TEXTS, SOURCES)
def test_all_that_is_said_is_in_a_passage(text: str, source: str) -> None:
    covered = {at for one in passages(text, source) for at in range(one.start, one.end)}
    assert [text[at] for at in range(len(text)) if at not in covered and not text[at].isspace()] == []


@given(TEXTS, SOURCES)
def test_passages_are_short_enough_and_go_forward(text: str, source: str) -> None:
    found = passages(text, source)
    assert all(weight_of(one.text) <= MAX_WEIGHT for one in found)
    for one, following in pairwise(found):
        assert one.start < following.start and one.end < following.end
        assert weight_of(text[following.start : one.end]) <= OVERLAP


@given(TEXTS, SOURCES, st.data())
def test_it_does_not_matter_in_which_parts_a_text_comes(text: str, source: str, data: st.DataObject) -> None:
    ends = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=5)))
    parts = [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    assert list(chunks(parts, source)) == passages(text, source)


def test_a_section_begins_a_passage_below_its_headings() -> None:
    body = "It is said at length. " * 20
    text = f"# Kitchen\n\n## Eggs\n\n{body}\n\n## Milk *warm*\n\n{body}\n\n# Cellar\n\n{body}"
    assert [(one.text.splitlines()[0], one.heading) for one in passages(text)] == [
        ("# Kitchen", "Kitchen \u203a Eggs"),
        ("## Milk *warm*", "Kitchen \u203a Milk warm"),
        ("# Cellar", "Cellar"),
    ]


def test_headings_may_be_underlined_or_numbered() -> None:
    body = "It is said at length. " * 20
    text = f"Kitchen\n=======\n\n{body}\n\nEggs\n----\n\n{body}\n\nCHAPTER II. Of Milk\n\n{body}"
    assert [one.heading for one in passages(text)] == [
        "Kitchen",
        "Kitchen \u203a Eggs",
        "Kitchen \u203a CHAPTER II. Of Milk",
    ]


def test_short_sections_go_together() -> None:
    text = "\n\n".join(f"## Step {number}\n\nDo it." for number in range(5))
    (one,) = passages(text)
    assert one.text == text and one.heading == "Step 0"


def test_a_long_paragraph_is_cut_between_sentences_and_some_is_said_again() -> None:
    sentences = [
        f"This is sentence number {number} of a long paragraph, and it ends here." for number in range(60)
    ]
    found = passages(" ".join(sentences))
    assert len(found) > 2
    for one, following in pairwise(found):
        assert one.text.endswith("here.") and following.text.startswith("This is")
        again = one.end - following.start
        assert 0 < again <= OVERLAP
    assert all(any(sentence in one.text for one in found) for sentence in sentences)


def test_a_chinese_text_is_cut_between_sentences() -> None:
    text = "".join(f"这是第{number}句话\uff0c它说的是鸡蛋要煮六分钟。" for number in range(100))
    found = passages(text)
    assert all(one.text.endswith("。") for one in found)
    assert all(300 <= len(one.text) <= 550 for one in found[:-1])


def test_a_paragraph_is_rather_ended_than_a_sentence() -> None:
    first, second = "One sentence of many. " * 45, "Another sentence of many. " * 45
    assert passages(f"{first}\n\n{second}")[0].text == first.strip()


def test_a_block_of_code_is_kept_whole_where_it_fits() -> None:
    prose = "Words before the code. " * 40
    code = "```python\n" + "print('a line of code')\n\n" * 45 + "```"
    found = passages(f"{prose}\n\n{code}\n\nWords behind it.")
    assert [one for one in found if code in one.text]
    assert weight_of(code) > MAX_WEIGHT // 2


def test_source_code_is_cut_before_definitions_and_says_what_is_around() -> None:
    method = "    def grow{0}(self, rows):\n" + "        self.rows = rows  # and a long comment\n" * 12 + "\n"
    text = "class Pool:\n" + "".join(method.format(number) for number in range(9))
    found = passages(text, "pool.py")
    assert len(found) > 2
    assert all(one.text.startswith("def grow") for one in found[1:])
    assert {one.heading for one in found[1:]} == {"class Pool"}


def test_a_passage_across_pages_says_both() -> None:
    (one,) = passages("# Eggs\n\nBoil them.\n\n\f Peel them.\n\n\f", "manual.pdf")
    assert one.heading == "pages 1-2 \u203a Eggs"


@pytest.mark.parametrize("letter", ["x", "蛋", "👩‍🍳", "a\u0301"])
def test_a_line_without_end_is_cut_between_characters(letter: str) -> None:
    text = letter * 40_000
    found = passages(text)
    assert all(one.text.startswith(letter) and weight_of(one.text) <= MAX_WEIGHT for one in found)
