"""Reads the text of a PDF's pages with PDFium, with a page break between two pages.

The values of a page's form fields and its comments follow the page's text. If the extra `ocr` is installed, the
text of pages that are only pictures, or whose letters are unreadable, is recognised.
"""

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, PdfTextPage, raw

from app.documents.reading.ocr import LONGEST_SIDE, Recognised, can_recognise, recognised
from app.documents.reading.process import ReadMessage, ReadNote, ReadProgress, ReadTitle, TextPiece
from app.errors import DocumentUnreadable
from app.system.child_process import seconds_left
from app.values.display_text import counted

PAGE_BREAK = "\f"
HYPHEN = "\ufffe"
"""PDFium's sign for a hyphen at the end of a line."""
TYPED = (b"V", b"Contents")
"""The keys of texts that users type into a PDF: the values of form fields, and comments."""
BULLET = re.compile(r"^[\uf000-\uf0ff](?=\s)", re.MULTILINE)
"""A bullet of a list in a font of symbols."""
CONTROLS = re.compile(r"[\0-\x08\x0e-\x1f\x7f-\x9f]")
NOT_LETTERS = re.compile(
    r"[\ue000-\uf8ff\ufff0-\ufffd\U000f0000-\U0010ffff]|\(cid:\d+\)|/(?:g|gid|cid|glyph|uni|[A-Z])\d{1,5}\b"
)
MOST_CONTROLS, MOST_OTHERS = 0.04, 0.2
"""Largest shares of CONTROLS, and of NOT_LETTERS (private characters, names of glyphs), on a readable page."""
TRIED = 200
"""Maximum number of characters of a page for which the font's Unicode map is checked."""
LEAST_COMMON = 0.1
"""Minimum share of stop words in a readable text whose font has no Unicode map. Half is usual."""
SECONDS_OF_A_PAGE = 60
"""Seconds of processor time that must be left before a page is recognised, which takes about 7 seconds."""
LISTED = 20
EMPTY = "without text (perhaps only pictures)."
BROKEN = "that could not be read."
GARBLED = "without readable letters: have the text recognised (OCR)."


def read_pdf(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields a PDF's text. Raises DocumentUnreadable (locked, or without text) or PdfiumError (damaged)."""
    with _opened(path, name) as document:
        yield ReadTitle(document.get_metadata_value("Title"))
        total = len(document)
        left_out: dict[str, list[int]] = {EMPTY: [], BROKEN: [], GARBLED: []}
        drawn: dict[int, Recognised] = {}
        for number in range(1, total + 1):
            text, reason = _page_text(document, number - 1)
            if reason in (EMPTY, GARBLED) and can_recognise() and seconds_left() > SECONDS_OF_A_PAGE:
                found = _recognised(document[number - 1])
                if found.text:
                    text, reason, drawn[number] = "\n".join(filter(None, (found.text, text))), "", found
            if reason:
                left_out[reason].append(number)
            yield TextPiece((PAGE_BREAK if number > 1 else "") + _tidied(text) + "\n\n")
            yield ReadProgress(number, total)
        if document.get_formtype() in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND):
            yield ReadNote("It has an XFA form, whose values may be missing.")
    if sum(map(len, left_out.values())) == total:
        if len(left_out[BROKEN]) == total:
            raise DocumentUnreadable(
                f"None of the {counted(total, 'page')} of {name} could be read: save it anew with another program, "
                "and add that file."
            )
        raise _without_text(name, total, is_garbled=bool(left_out[GARBLED]))
    if drawn:
        yield ReadNote(_recognition(drawn, total))
    yield from (
        ReadNote(f"Left out: {_listed(some)} of {total:,} {reason}")
        for reason, some in left_out.items()
        if some
    )


def _without_text(name: str, total: int, is_garbled: bool) -> DocumentUnreadable:
    missing, others = ("readable letters", " or unknown letters") if is_garbled else ("text", "")
    remedy = (
        "" if can_recognise() else "; or run pip install rapidocr onnxruntime, then Foresight recognises it"
    )
    return DocumentUnreadable(
        f"{name} has no {missing} in its {counted(total, 'page')}, perhaps only pictures{others}: have the text "
        f"recognised (OCR) first, and add what comes out{remedy}."
    )


def _recognition(drawn: Mapping[int, Recognised], total: int) -> str:
    """Returns a note about the pages whose text was recognised; the keys of `drawn` are their numbers."""
    confidence = fmean(one.confidence for one in drawn.values())
    unread = sum(one.unread for one in drawn.values())
    missing = f", and {counted(unread, 'line')} could not be read" if unread else ""
    return (
        f"Recognised in pictures (OCR): {_listed(list(drawn))} of {total:,}. The confidence is {confidence:.0%}"
        f"{missing}: check the numbers and names."
    )


def _listed(pages: Sequence[int]) -> str:
    """Lists the numbers of pages: "pages 2, 5-7"."""
    known = frozenset(pages)
    begins = [one for one in pages if one - 1 not in known]
    ends = [one for one in pages if one + 1 not in known]
    runs = [str(begin) if begin == end else f"{begin}-{end}" for begin, end in zip(begins, ends, strict=True)]
    more = f" and {len(runs) - LISTED} more ranges" if len(runs) > LISTED else ""
    return f"page{'s' if len(pages) > 1 else ''} {', '.join(runs[:LISTED])}{more}"


def _opened(path: Path, name: str) -> PdfDocument:
    try:
        return PdfDocument(path)
    except PdfiumError as error:
        if error.err_code != raw.FPDF_ERR_PASSWORD:
            raise
        raise DocumentUnreadable(
            f"{name} is encrypted: open it with its password, save it without one, and add that file."
        ) from error


def _page_text(document: PdfDocument, number: int) -> tuple[str, str]:
    """Returns a page's text with its form values and comments, and the reason why its text is left out, or ""."""
    try:
        page = document[number]
        written = page.get_textpage()
        text = BULLET.sub("\u2022", written.get_text_range().strip())
        typed = "\n".join(_typed(page))
        if _is_garbled(text.replace(HYPHEN, "")) or (_is_unnamed(written) and not _has_stop_words(text)):
            return typed, GARBLED
        return "\n".join(filter(None, (text, typed))), "" if text or typed else EMPTY
    except PdfiumError:
        return "", BROKEN


def _recognised(page: PdfPage) -> Recognised:
    if not raw.FPDFPage_CountObjects(page):
        return Recognised()
    found = recognised(page.render(scale=LONGEST_SIDE / max(page.get_size())).to_numpy())
    return Recognised() if _is_garbled(found.text) else found


def _is_garbled(text: str) -> bool:
    """Returns whether a text has many unreadable characters (control, private or replacement), names of glyphs, or
    words with each letter twice: "DDeeppoossiitt"."""
    size = len(text)
    words = re.findall(r"\w{4,}", text)
    doubled = sum(len(word) % 2 == 0 and word[::2] == word[1::2] for word in words)
    return (
        len(CONTROLS.findall(text.replace("\x02", ""))) > MOST_CONTROLS * size
        or sum(map(len, NOT_LETTERS.findall(text))) > MOST_OTHERS * size
        or doubled > max(1, len(words) / 2)
    )


def _is_unnamed(page: PdfTextPage) -> bool:
    """Returns whether the fonts of most of the checked characters on a page have no Unicode map."""
    size: int = page.count_chars()
    tried = range(0, size, size // TRIED + 1)
    unnamed = [one for one in tried if raw.FPDFText_HasUnicodeMapError(page, one) == 1]
    return len(unnamed) > len(tried) / 2


def _has_stop_words(text: str) -> bool:
    """Returns whether a text has enough stop words to be readable, although its font has no Unicode map."""
    from app.documents.search.languages import language_of  # takes a second, and few files need it
    from app.documents.search.terms import asked

    words = asked(text, [language_of(text)])
    return sum(word.is_common for word in words) > LEAST_COMMON * len(words)


def _typed(page: PdfPage) -> Iterator[str]:
    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        yield from (text for key in TYPED if (text := _string(annotation, key).strip()))
        raw.FPDFPage_CloseAnnot(annotation)


def _string(annotation: object, key: bytes) -> str:
    size = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAnnot_GetStringValue(annotation, key, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[:-2].decode("utf-16-le", "replace")


def _tidied(text: str) -> str:
    plain = text.replace(HYPHEN, "").replace(PAGE_BREAK, "\n")
    return "\n".join(line.rstrip() for line in plain.splitlines())
