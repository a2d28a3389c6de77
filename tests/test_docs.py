"""Links in the documentation lead somewhere, and its pages use the words of docs/contributing.md."""

import re
from pathlib import Path

import pytest

from tests.test_docstrings import NOT_IN_PAGES, unusual_words

CHECKOUT = Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(CHECKOUT)
    for pattern in ("*.md", "docs/**/*.md", "labs/*.md", "tools/*.md")
    for path in CHECKOUT.glob(pattern)
)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_to_files(page: Path) -> None:
    targets = LINK.findall((CHECKOUT / page).read_text(encoding="utf-8"))
    missing = [target for target in targets if not (CHECKOUT / page.parent / target).exists()]
    assert not missing, missing


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if "notes" not in page.parts and page.name not in ("CHANGELOG.md", "contributing.md")
    ],
    ids=str,
)
def test_pages_use_the_usual_words(page: Path) -> None:
    text = re.sub(r"```.*?```", "", (CHECKOUT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    wrong = [(line, fault) for line in text.splitlines() for fault in unusual_words(line, NOT_IN_PAGES)]
    assert not wrong, wrong
