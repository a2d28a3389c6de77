"""Reads HTML strictly: what may be on the page, and that every element ends where it should."""

from html.parser import HTMLParser

from app.ui.chat.formulas import ATTRIBUTES, TAGS

TEXT_TAGS = set(
    """p h1 h2 h3 h4 h5 h6 strong em s code pre ul ol li blockquote hr br a span div button table thead tbody tr
    th td details summary""".split()  # noqa: SIM905
)
VOID = {"hr", "br"}
TEXT_ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "target", "rel"},
    "ol": {"start"},
    "th": {"class"},
    "td": {"class"},
    "code": {"class"},
    "span": {"class", "title"},
    "div": {"class", "tabindex", "role", "aria-label"},
    "pre": {"tabindex"},
    "button": {"type", "class", "data-copy", "aria-label"},
    "p": {"class"},
    "details": {"class", "open"},
}


class StrictHtml(HTMLParser):
    """Complains about all that a message's text must never become; collects its text."""

    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in TEXT_TAGS | TAGS:
            self.complaints.append(f"<{tag}>")
        allowed = ATTRIBUTES if tag in TAGS else TEXT_ATTRIBUTES.get(tag, set()) | {"dir"}
        self.complaints += [f"<{tag} {name}={value}>" for name, value in attrs if name not in allowed]
        for name, value in attrs:
            if name == "href" and not (value or "").lower().startswith(("http://", "https://", "mailto:")):
                self.complaints.append(f"link to {value}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.complaints.append(f"</{tag}> out of order")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.complaints.append(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        self.complaints.append(f"declaration {decl}")

    def handle_pi(self, data: str) -> None:
        self.complaints.append(f"instruction {data}")


def read(html: str) -> StrictHtml:
    """The HTML, read; `complaints` has what is wrong with it."""
    reader = StrictHtml()
    reader.feed(html)
    reader.close()
    reader.complaints += [f"<{tag}> is not closed" for tag in reader.open]
    return reader
