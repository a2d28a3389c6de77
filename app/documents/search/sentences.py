"""Where sentences end in a line, in scripts with spaces and without.

"See Mr. Hill, p. 3. He knows."  ->  "See Mr. Hill, p. 3. " "He knows."
"""

import re
from collections.abc import Iterator

END = re.compile(
    "(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019\u00bb)\\]]*+\\s+|[\u3002\uff01\uff1f\uff61]+[\u300d\u300f\u201d\u2019\uff09]*\\s*"
)
ABBREVIATIONS = frozenset(
    ("mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "e.g", "i.e", "cf", "al", "approx", "no",
     "nos", "art", "sec", "fig", "vol", "ch", "pp", "inc", "ltd", "co", "corp", "bzw", "usw", "nr", "abs", "ca",
     "z.b", "d.h")
)  # fmt: skip
"""Words that are written with a full stop, besides single letters."""
LONGEST = 20
"""Characters before a full stop that are looked at: more than any of these words has."""


def sentences(line: str) -> Iterator[tuple[int, int]]:
    """The sentences of a line from one end to the other, as places."""
    begin = 0
    for found in END.finditer(line):
        end = found.end()
        if end < len(line) and _is_end(line, begin, found):
            yield begin, end
            begin = end
    yield begin, len(line)


def _is_end(line: str, begin: int, found: re.Match[str]) -> bool:
    """Whether what looks like an end is one: no small letter goes on behind a full stop, no word is shortened."""
    stop = found.start()
    if line[stop] != ".":
        return True
    word = line[max(line.rfind(" ", begin, stop) + 1, stop - LONGEST) : stop].lstrip("(\"'")
    return not (
        line[found.end()].islower() or (len(word) == 1 and word.isalpha()) or word.lower() in ABBREVIATIONS
    )
