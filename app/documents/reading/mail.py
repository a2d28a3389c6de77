"""Reads a mail (.eml) as Markdown: its subject, its HEADERS and its text. A note names its attachments."""

from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from pathlib import Path

from app.documents.reading.html import encoding_as_declared, markdown_of
from app.documents.reading.process import ReadMessage, ReadNote, TextPiece

HEADERS = ("From", "To", "Cc", "Date")


def read_mail(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields the text of a mail, and a note that names its attachments, if any."""
    with path.open("rb") as file:
        mail = BytesParser(EmailMessage, policy=policy.default).parse(file)
    headers = (f"{header}: {mail[header]}\n" for header in HEADERS if mail[header])
    yield TextPiece(f"# {mail['Subject'] or name}\n\n{''.join(headers)}\n")
    body = mail.get_body(("plain", "html"))
    if body is not None:
        yield TextPiece(_text(body) + "\n")
    attached = [part.get_filename() or part.get_content_type() for part in mail.iter_attachments()]
    if attached:
        yield ReadNote(f"Attachments were left out: {', '.join(attached)}.")


def _text(part: MIMEPart) -> str:
    data = part.get_payload(decode=True)
    assert isinstance(data, bytes)
    text = data.decode(encoding_as_declared(data, part.get_content_charset("")), "replace")
    return markdown_of(text) if part.get_content_type() == "text/html" else text
