"""Which encoding a text is in, from its beginning: marks, UTF-8, UTF-16 by its zeros, then what looks likeliest."""

import codecs
from dataclasses import dataclass

from charset_normalizer import from_bytes

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
FEW = 0.2
"""Damaged characters of all that are not ASCII, up to which a text counts as UTF-8 that was damaged."""
GUESSED = 20_000
"""Bytes that the guess looks at."""
COMMONEST = "cp1252"
WIDE = ["utf_16", "utf_16_be", "utf_16_le", "utf_32", "utf_32_be", "utf_32_le", "utf_7"]
"""Never guessed: any bytes look like some text in these. A mark or the zeros tell them."""
CONTROLS = bytes(set(range(1, 32)) - set(b"\b\t\n\v\f\r\x1b"))
MANY_CONTROLS = 0.02


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding, and whether that was a guess."""

    name: str
    is_guess: bool = False


def is_binary(sample: bytes) -> bool:
    """Whether this is no text: it has many bytes that mean nothing in a text."""
    bare = sample.replace(b"\0", b"")
    if sample and not bare:
        return True
    return len(bare) - len(bare.translate(None, CONTROLS)) > MANY_CONTROLS * len(bare)


def encoding_of(sample: bytes) -> Encoding:
    """The encoding of a text that begins like this."""
    marked = next((name for mark, name in MARKS if sample.startswith(mark)), "")
    name = marked or _wide(sample)
    if name or _is_utf8(sample):
        return Encoding(name or "utf-8")
    return Encoding(_guessed(sample), is_guess=True)


def text_of(data: bytes) -> str | None:
    """A whole text in whichever encoding, damaged characters replaced; None for what is no text."""
    encoding = encoding_of(data).name
    is_wide = encoding.startswith(("utf-16", "utf-32"))
    return None if is_binary(data) and not is_wide else data.decode(encoding, "replace")


def _guessed(sample: bytes) -> str:
    """The likeliest encoding; among those that are as likely the commonest."""
    matches = from_bytes(_accented(sample), cp_exclusion=WIDE)
    best = matches.best()
    if best is None:
        return COMMONEST
    as_good = (one for one in matches if one.chaos <= best.chaos and one.coherence >= best.coherence)
    return COMMONEST if any(COMMONEST in one.could_be_from_charset for one in as_good) else best.encoding


def _wide(sample: bytes) -> str:
    """UTF-16 without a mark: every other byte of a Western text is zero."""
    pairs = len(sample) // 2
    low, high = sample[1::2].count(0), sample[0::2].count(0)
    if low > 0.4 * pairs and high < 0.1 * pairs:
        return "utf-16-le"
    return "utf-16-be" if high > 0.4 * pairs and low < 0.1 * pairs else ""


def _is_utf8(sample: bytes) -> bool:
    # A character cut by the sample's end is no damage.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(sample)
    others = len(sample) - sum(map(sample.count, (bytes([one]) for one in range(128))))
    return text.count("\ufffd") <= FEW * others


def _accented(sample: bytes) -> bytes:
    """The part of a sample where it stops being ASCII: before that there is nothing to guess from."""
    first = next((at for at, byte in enumerate(sample) if byte > 127), 0)
    begin = max(0, first - GUESSED // 4)
    return sample[begin : begin + GUESSED]
