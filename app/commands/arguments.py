"""Words given on the command line, as text that can be stored, read and printed."""

import re

_HALVES = re.compile("[\ud800-\udfff]")


def whole_characters(text: str) -> str:
    """An argument without the halves of characters that bytes of another encoding become."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)
