"""Links in the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

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
