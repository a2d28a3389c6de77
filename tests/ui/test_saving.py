"""Files for the person: names that every system takes, and text that arrives as it was."""

import re
from html import unescape

import pytest

from app.ui.saving import LONGEST, file_html, file_name

TEXT = "a <b> & \"c\"\n  d\n</data><script>'${x}'"


def test_a_file_travels_as_text() -> None:
    html = file_html("A chat.json", TEXT, "application/json")
    assert html.startswith('<data hidden data-file="A chat.json" data-kind="application/json"')
    [carried] = re.findall(r'data-text="([^"]*)"', html)
    assert unescape(carried) == TEXT
    assert "<script" not in html and html.count("</data>") == 1


def test_the_same_file_once_more_is_another_one_to_the_page() -> None:
    assert file_html("a.md", "b") != file_html("a.md", "b")


@pytest.mark.parametrize(
    ("wished", "name"),
    [
        ("Plans.md", "Plans.md"),
        ("What is v1.2?.md", "What is v1.2.md"),
        ("../../etc/passwd.json", "etc passwd.json"),
        ('a/b\\c:d*e?"<f>|g.json', "a b c d e f g.json"),
        ("日本 été.md", "日本 été.md"),
        ("???.md", "foresight.md"),
        (".md", "foresight.md"),
        ("line\nbreak.md", "line break.md"),
    ],
)
def test_a_name_is_one_that_every_system_takes(wished: str, name: str) -> None:
    assert file_name(wished) == name


def test_a_long_name_keeps_its_ending() -> None:
    assert file_name(f"{'word ' * 100}.json").endswith("word.json")
    assert len(file_name(f"{'x' * 500}.json")) == LONGEST + len(".json")
