"""What else reads a person's or a model's text takes linear time."""

import json

from app.chats import search as chat_search
from app.chats.archive_reading import open_archive
from app.commands.console import printable
from app.conversation.citation_check import unsupported
from app.conversation.prompt_sources import quoted
from app.conversation.thought_parsing import split_thought
from app.engine.text.stopping_criteria import StopFilter
from app.errors import ImportBroken
from app.models_registry.hub.hub_id import parse_hub_id
from app.models_registry.locate import PATH_LIKE
from app.values.display_text import title_of
from app.values.text_normalisation import spaced, without_surrogates
from tests.linear_time import Read, linear_time_tests, read_all


def stops(text: str) -> None:
    held = StopFilter(["END", text[:20]])
    for at in range(0, len(text), 4):
        held.push(text[at : at + 4])


def library(text: str) -> None:
    for file in (text, f'{{"chats": {text}', json.dumps({"chats": [{"messages": [{"text": text}]}]})):
        try:
            read_all(open_archive(file).chats())
        except ImportBroken:
            continue


def hub_id(text: str) -> None:
    for name in (text, f"org/{text}", f"org/name@{text}", f"https://huggingface.co/org/name/tree/{text}"):
        try:
            parse_hub_id(name)
        except ValueError:  # an address of brackets is no address
            continue
        PATH_LIKE.match(name)


READERS: dict[str, Read] = {
    "title": title_of, "thought": split_thought,
    "opened thought": lambda text: split_thought(f"<think>{text}"),
    "quoted passage": quoted,
    "citations": lambda text: unsupported(f"{text} [1]", [text], lambda _claims, _sources: ()),
    "search": lambda text: (chat_search.fts_query(text), chat_search.excerpt("some words", text)),
    "excerpt": lambda text: chat_search.excerpt(text, "word"),
    "excerpt by itself": lambda text: chat_search.excerpt(text, text),
    "index of chats": spaced, "imported file": library, "stop strings": stops, "hub id": hub_id,
    "printed": printable, "argument": without_surrogates,
}  # fmt: skip


test_it_takes_linear_time, test_it_takes_linear_time_for_a_megabyte = linear_time_tests(READERS)
