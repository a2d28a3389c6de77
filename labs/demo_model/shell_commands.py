"""Questions about shell commands, made from the pages of tldr-pages."""

import random
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labs.demo_model.archives import texts_in
from labs.demo_model.conversations import Conversation, clean, pair

WHAT = ("What does the command `{0}` do?", "What is {0}?", "Explain the command {0}.")
HOW = ("How do I {1} with {0}?", "Using {0}: {1}")
EXAMPLES_PER_PAGE = 2
NOT_DESCRIPTIONS = ("More information", "See also")


@dataclass(frozen=True, slots=True)
class Page:
    """A command with its description, and its examples as (purpose, command line)."""

    name: str
    description: str
    examples: tuple[tuple[str, str], ...]


def read_pages(data: Path) -> list[Page]:
    """Read all pages that have a name and a description."""
    with tarfile.open(data / "tldr" / "tldr-pages-en.tar.gz") as archive:
        return [page for _, text in texts_in(archive, (".md",)) for page in parse_page(text)]


def parse_page(text: str) -> list[Page]:
    """Parse a page in Markdown: `# tar`, `> Archives.`, `- Extract:` above `tar xf {{file}}`.

    Returns [] for a page without a name or a description."""
    name = re.search(r"^# (.+)$", text, re.M)
    remarks = re.findall(r"^> (.+)$", text, re.M)
    described = [clean(line) for line in remarks if not any(mark in line for mark in NOT_DESCRIPTIONS)]
    if not name or not described:
        return []
    examples = re.findall(r"^- (.+?):?\n\n`(.+?)`", text, re.M)
    filled = tuple((purpose, re.sub(r"\{\{(.*?)\}\}", r"\1", command)) for purpose, command in examples)
    return [Page(name[1], " ".join(described), filled)]


def command_questions(pages: list[Page], rng: random.Random) -> Iterator[Conversation]:
    """Yield, for each page, a question about the command and about up to EXAMPLES_PER_PAGE examples."""
    for page in pages:
        yield pair("tldr", rng.choice(WHAT).format(page.name), _explanation(page))
        for purpose, command in rng.sample(page.examples, min(EXAMPLES_PER_PAGE, len(page.examples))):
            question = rng.choice(HOW).format(page.name, _lower_first(purpose))
            yield pair("tldr", question, f"`{command}`")


def _explanation(page: Page) -> str:
    if not page.examples:
        return page.description
    purpose, command = page.examples[0]
    return f"{page.description} For example, to {_lower_first(purpose)}: `{command}`"


def _lower_first(text: str) -> str:
    return text[0].lower() + text[1:]
