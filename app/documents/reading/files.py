"""Reads text files, whose encoding it detects or guesses."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chardet import detect_all

from app.documents.reading.process import ReadMessage, ReadNote, ReadProgress, TextPiece
from app.errors import DocumentUnreadable
from app.values.text_normalisation import UNSPACED

PIECE = 2**20
REPLACED = "\ufffd"
FORMATS = (
    "text, Markdown, code, PDF, DOCX, ODT, RTF, EPUB, PPTX, ODP, XLSX, ODS, CSV, HTML, mail and notebooks"
)
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose byte order mark is the beginning of UTF-32's
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
FEW = 0.2
"""Maximum ratio of damaged characters to bytes that are not ASCII, in a text that counts as UTF-8."""
GUESSED = 20_000
"""Maximum number of a text's bytes that are used to guess its encoding."""
COMMONEST = "cp1252"
USUAL_LIST = """
    cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp850 cp852 cp866 cp874 cp932 cp949 iso8859-2
    iso8859-5 iso8859-7 iso8859-8 iso8859-9 iso8859-15 koi8-r koi8-u mac-roman big5hkscs euc_jis_2004 euc_kr gb18030
    utf-16-le utf-16-be
"""
USUAL = USUAL_LIST.split()
"""Encodings that may be guessed. Rare encodings would be confused with them, and are not guessed."""
NEAR = 0.5
"""Among encodings with at least this part of chardet's greatest confidence, the one with the fewest GLUED signs is
chosen."""
UNSURE = 0.06
"""If the greatest confidence is smaller, as with a few short words, COMMONEST is chosen unless it has more GLUED
signs."""
GLUED = re.compile(
    r"[^\W\d_][\xa2-\xa9\xac-\xb1\xb4-\xb8\xbc-\xbe\xd7\xf7]"
    r"|[\xa2-\xa9\xac-\xaf\xb1-\xb4\xb6-\xb9\xbc-\xbe\xd7\xf7][^\W\d_]"
    r"|[^\W\d_][\xa1\xab\xbb\xbf][^\W\d_]|[A-Za-z][\u0370-\u06ff]|[\u0370-\u06ff][A-Za-z]"
)
"""A sign, or a Greek, Cyrillic, Hebrew or Arabic letter, beside a Latin letter, as a wrong encoding yields it.
Signs that belong there are allowed: 20 \xb0C, m\xb2, \xb5m."""
CONTROLS = bytes(set(range(1, 32)) - set(b"\b\t\n\v\f\r\x1b"))
MANY_CONTROLS = 0.02
MOSTLY = 0.8
"""Minimum share of UNSPACED characters in a text that is taken for UTF-16 because of them."""


class TextFileReader:
    """Reads a text file, whose encoding it detects or guesses."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._is_over = False

    def messages(self) -> Iterator[ReadMessage]:
        """Yields the text in pieces with the progress, then notes about a guessed encoding and damaged characters.

        Raises DocumentUnreadable."""
        try:
            with self._path.open("rb") as file:
                yield from self._pieces(iter(lambda: file.read(PIECE), b""), self._path.stat().st_size)
        except OSError as error:
            raise DocumentUnreadable(
                f"{self._name} cannot be read ({error.strerror}): add it again."
            ) from error

    def kill(self) -> None:
        """Stops reading after the current piece."""
        self._is_over = True

    def _pieces(self, pieces: Iterator[bytes], total: int) -> Iterator[ReadMessage]:
        encoding, is_ascii, replaced, done = Encoding("utf-8"), True, 0, 0
        for piece in pieces:
            if is_ascii:  # an ASCII piece does not show the encoding
                encoding = encoding_of(piece)
                decoder = codecs.getincrementaldecoder(encoding.name)("replace")
                is_ascii = encoding.name == "utf-8" and piece.isascii()
            if not done and not encoding.name.startswith(("utf-16", "utf-32")) and is_binary(piece):
                raise DocumentUnreadable(
                    f"{self._name} is not a text. Save it in another format, and add that file. Foresight can read "
                    f"{FORMATS}."
                )
            done += len(piece)
            text = decoder.decode(piece, final=done >= total)
            replaced += text.count(REPLACED) - piece.count(REPLACED.encode())
            yield TextPiece(text)
            yield ReadProgress(done, total)
            if self._is_over:
                return
        if encoding.is_guess:
            yield ReadNote(f"Its encoding was guessed: {encoding.name}.")
        if replaced > 0:
            count = f"{replaced:,} characters" if replaced > 1 else "1 character"
            yield ReadNote(
                f"{count} could not be read and {'are' if replaced > 1 else 'is'} shown as {REPLACED}."
            )


@dataclass(frozen=True, slots=True)
class Encoding:
    name: str
    is_guess: bool = False


def is_binary(sample: bytes) -> bool:
    """Returns whether all bytes are zeros, or more than the share MANY_CONTROLS of the other bytes are CONTROLS."""
    bare = sample.replace(b"\0", b"")
    if sample and not bare:
        return True
    return len(bare) - len(bare.translate(None, CONTROLS)) > MANY_CONTROLS * len(bare)


def encoding_of(sample: bytes) -> Encoding:
    """Detects an encoding by the byte order mark, the zeros of UTF-16 or valid UTF-8; else guesses it."""
    marked = next((name for mark, name in MARKS if sample.startswith(mark)), "")
    name = marked or _wide(sample)
    if name or _is_utf8(sample):
        return Encoding(name or "utf-8")
    return Encoding(_guessed(sample), is_guess=True)


def text_of(data: bytes) -> str | None:
    """Decodes a whole text by `encoding_of`, replacing damaged characters; returns None for binary data."""
    encoding = encoding_of(data).name
    is_wide = encoding.startswith(("utf-16", "utf-32"))
    return None if is_binary(data) and not is_wide else data.decode(encoding, "replace")


def _guessed(sample: bytes) -> str:
    """Returns the likeliest encoding; COMMONEST if chardet finds none."""
    sample = _accented(sample)
    ranked = detect_all(sample, ignore_threshold=True, compat_names=False, include_encodings=USUAL)
    sure = {one["encoding"]: one["confidence"] for one in ranked if one["encoding"]}
    if not sure:
        return COMMONEST
    best = max(sure.values())
    near = [COMMONEST] if best < UNSURE else []
    near += (one for one, confidence in sure.items() if confidence >= NEAR * best)
    return min(near, key=lambda one: len(GLUED.findall(sample.decode(one, "replace"))))


def _wide(sample: bytes) -> str:
    """Recognises UTF-16 without a byte order mark by the zeros of Western texts, or by the characters of a
    Chinese or Japanese text, which seems binary in other encodings. Else returns ""."""
    pairs = len(sample) // 2
    low, high = sample[1::2].count(0), sample[0::2].count(0)
    if low > 0.4 * pairs and high < 0.1 * pairs:
        return "utf-16-le"
    if high > 0.4 * pairs and low < 0.1 * pairs:
        return "utf-16-be"
    if not is_binary(sample):
        return ""
    texts = {name: sample.decode(name, "replace") for name in ("utf-16-le", "utf-16-be")}
    return next(
        (name for name, text in texts.items() if len(UNSPACED.findall(text)) > MOSTLY * len(text)), ""
    )


def _is_utf8(sample: bytes) -> bool:
    # The incremental decoder does not count a character that is cut off at the sample's end as damaged.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(sample)
    others = len(sample.translate(None, bytes(range(128))))
    return text.count("\ufffd") <= FEW * others


def _accented(sample: bytes) -> bytes:
    """Returns at most GUESSED bytes of the lines that are not ASCII, beginning before the first byte above 127.

    ASCII lines are left out, because they do not depend on the encoding."""
    sample = b"".join(line for line in sample.splitlines(keepends=True) if not line.isascii())
    first = next((at for at, byte in enumerate(sample) if byte > 127), 0)
    begin = max(0, first - GUESSED // 4)
    return sample[begin : begin + GUESSED]
