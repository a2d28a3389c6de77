"""Prepares passages for display: finds the best sentences and the question's words, and removes Markdown."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, groupby, pairwise
from pathlib import PurePath

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.documents.search.languages import language_of
from app.documents.search.terms import PIECE, RUN, indexed, terms
from app.values.document import Passage

MAX_ABBREVIATION = 20
"""Maximum number of characters before a full stop that are compared with ABBREVIATIONS."""
PARAGRAPH = re.compile(r"\n\s*\n")
Span = tuple[int, int]
END = re.compile(
    "(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019\u00bb)\\]]*+\\s+|[\u3002\uff01\uff1f\uff61]+[\u300d\u300f\u201d\u2019\uff09]*\\s*"
)
ABBREVIATIONS = frozenset(
    ("mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "e.g", "i.e", "cf", "al", "approx", "no",
     "nos", "art", "sec", "fig", "vol", "ch", "pp", "inc", "ltd", "co", "corp", "bzw", "usw", "nr", "abs", "ca",
     "z.b", "d.h")
)  # fmt: skip
"""Words that are written with a full stop, in addition to single letters."""
SUFFIXES = (
    "", ".md", ".markdown", ".txt", ".html", ".htm", ".xhtml", ".docx", ".docm", ".odt", ".fodt", ".pptx", ".epub",
    ".xlsx", ".ods", ".fods"
)  # fmt: skip
"""Texts with these suffixes in their titles are shown without Markdown's marks, which mean other things in code."""
CELLS = " \u00b7 "
BULLET = "\u2022 "
BETWEEN = "\n\n"
ENDS = {
    **dict.fromkeys(("heading_close", "paragraph_close", "table_close", "fence", "code_block"), BETWEEN),
    **dict.fromkeys(("bullet_list_close", "ordered_list_close"), BETWEEN),
    **dict.fromkeys(("th_close", "td_close"), CELLS),
    **dict.fromkeys(("tr_close", "softbreak", "hardbreak"), "\n"),
}
"""The text that is written after each kind of Markdown token."""


def sentences(line: str) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each sentence; together they cover the whole line."""
    begin = 0
    for found in END.finditer(line):
        end = found.end()
        if end < len(line) and _is_end(line, begin, found):
            yield begin, end
            begin = end
    yield begin, len(line)


def _is_end(line: str, begin: int, found: re.Match[str]) -> bool:
    """Returns whether a sentence ends here.

    A full stop does not end a sentence before a small letter, or after an abbreviation or a single letter."""
    stop = found.start()
    if line[stop] != ".":
        return True
    word = line[max(line.rfind(" ", begin, stop) + 1, stop - MAX_ABBREVIATION) : stop].lstrip("(\"'")
    return not (
        line[found.end()].islower() or (len(word) == 1 and word.isalpha()) or word.lower() in ABBREVIATIONS
    )


def snippet(passage: Passage, question: str, most: int) -> Passage:
    """Narrows a passage to at most `most` characters: the sentence that suits the question best, and neighbours.

    A word of the question counts less if more sentences have it. Neighbours of the best sentence are added as long
    as they fit, following sentences first:

    question What is the rent?      room for 50 characters
    text     A lease has two sides. The rent is 740 euros. It is due in May. Cats may stay.
    snippet                         The rent is 740 euros. It is due in May."""
    spans = _spans(passage.text)
    if len(passage.text) <= most or not spans:
        return passage
    first = last = _best(passage.text, spans, question, passage.language)
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= most:
        last += 1
    while first and spans[last][1] - spans[first - 1][0] <= most:
        first -= 1
    begin = next(at for at in range(*spans[first]) if not passage.text[at].isspace())
    end = min(spans[last][1], begin + most)
    text = passage.text[begin:end].rstrip()
    return replace(passage, start=passage.start + begin, end=passage.start + begin + len(text), text=text)


def best_sentence(text: str, question: str, language: str = "") -> Span:
    """Returns the start and end of the sentence that matches a question best, without spaces around it.

    Returns (0, 0) for a blank text. If `language` is "", identifies the text's language."""
    spans = _spans(text)
    if not spans:
        return 0, 0
    begin, end = spans[_best(text, spans, question, language)]
    found = text[begin:end]
    return end - len(found.lstrip()), begin + len(found.rstrip())


def highlighted(text: str, question: str, language: str = "") -> Iterator[tuple[str, bool]]:
    """Yields the text in parts, each with whether it matches a word of the question (compared as in the index)."""
    language = language or language_of(text)
    found = terms(question, language)
    words = {term for term in found if " " not in term}
    pairs = [term.replace(" ", "") for term in found if RUN.fullmatch(term.replace(" ", ""))]
    is_hit = bytearray(len(text))
    for one in chain(PIECE.finditer(text), *(re.finditer(re.escape(pair), text) for pair in pairs)):
        if one[0] in pairs or not words.isdisjoint(indexed(one[0], language).split()):
            is_hit[one.start() : one.end()] = b"\1" * len(one[0])
    end = 0
    for hit, run in groupby(is_hit):
        begin, end = end, end + sum(1 for _ in run)
        yield text[begin:end], bool(hit)


def _spans(text: str) -> list[Span]:
    """Returns the start and end of each sentence that is not blank. An empty line ends a sentence, too."""
    borders = [0, *(found.end() for found in PARAGRAPH.finditer(text)), len(text)]
    spans = [
        (begin + start, begin + end)
        for begin, stop in pairwise(borders)
        for start, end in sentences(text[begin:stop])
    ]
    return [(begin, end) for begin, end in spans if text[begin:end].strip()]


def _best(text: str, spans: Sequence[Span], question: str, language: str) -> int:
    """Returns the index of the sentence whose words of the question weigh most; the first if there are several.

    A word that n sentences have weighs 1 / n."""
    language = language or language_of(text)
    asked = terms(question, language)
    sentences_words = [f" {indexed(text[begin:end], language)} " for begin, end in spans]
    has = [[term for term in asked if f" {term} " in words] for words in sentences_words]
    seen = Counter(term for found in has for term in found)
    weights = [sum(1 / seen[term] for term in found) for found in has]
    return weights.index(max(weights))


def plain_passage(passage: Passage) -> Passage:
    """Returns the passage without Markdown's marks if its title has one of SUFFIXES; otherwise unchanged.

    ## Rent            Rent
    **740** euros      740 euros
    | May | 2 |        May · 2

    Only the shown text changes: passages are stored, searched and quoted with their marks."""
    if PurePath(passage.title).suffix.lower() not in SUFFIXES:
        return passage
    text = plain_text(passage.text)
    return replace(passage, text=text) if text else passage


def plain_text(markdown: str) -> str:
    """Returns the words of a Markdown text: a line for each item and row, an empty line between other blocks."""
    text = "".join(map(_words_of_token, _tokens(markdown))).replace(f"{CELLS}\n", "\n")
    return BETWEEN.join(block.strip("\n") for block in text.split(BETWEEN) if block.strip())


def _tokens(markdown: str) -> list[Token]:
    """Parses a Markdown text, which may begin with rows of a table whose head is in the passage before."""
    text = markdown.lstrip()
    if text.startswith("|"):
        first, end, others = text.partition("\n")
        delimiters = "|---" * (first.count("|") - 1)
        tokens = _parser().parse(f"{first}\n{delimiters}|{end}{others}")
        if tokens[0].type == "table_open":
            return tokens
    return _parser().parse(markdown)


@cache
def _parser() -> MarkdownIt:
    # Definitions such as "[1]: there", and HTML tags, are treated as text.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.disable(["html_block", "html_inline", "reference"])


def _words_of_token(token: Token) -> str:
    """Returns the text of a token, which is a block or a part of a block."""
    if token.type in ("inline", "image"):
        return "".join(map(_words_of_token, token.children or ()))
    if token.type == "list_item_open":
        return f"{token.info}{token.markup} " if token.info else BULLET
    if token.type == "paragraph_close" and token.hidden:  # a paragraph in a list item
        return "\n"
    return token.content + ENDS.get(token.type, "")
