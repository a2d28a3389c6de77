"""Measures the chat store with a large library: 1,000 chats of 200 messages, and one of 2,000.

    python -m labs.chats_speed [FOLDER]

Texts are drawn from 30,000 made-up words by Zipf's law. Half of the chats have a Chinese sentence in each message,
and every reply has the sources of its tokens and the settings that it was made with. Prints medians in
milliseconds: this thread's processor time, and the time by the clock, which includes the disk and other programs.
The library is made if FOLDER has fewer than 1,000 chats.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, thread_time

from app.chats.chats import Chats
from app.chats.exporting import ChatRecord, MessageRecord
from app.chats.importing import add_chats
from app.commands.console import print_text
from app.database.database import Database
from app.values.chat import ChatSummary, MessageContent, Provenance, TokenMark
from app.values.messages import ModelInfo, Options, Statistics
from labs.made_up_words import made_up_word

CHATS, MESSAGES, LONG = 1_000, 200, 2_000
WORDS_A_MESSAGE, TOKENS_A_REPLY = 60, 90
REPEATS = 21
SEARCHES = ("b", "ba", "bebo", "rare word", "everywhere", "nowhere at all", "bebo baca", "全", "全文搜索")
PROVENANCE = Provenance(
    ModelInfo("org/model", "", "0" * 40, "LlamaForCausalLM", 1_000_000, 8192, "bfloat16", "cuda"),
    Options(),
    "auto",
    "eos",
    Statistics(),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the library is, or is made")
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp())
    database = Database(folder / "foresight.sqlite")
    chats = Chats(database)
    if len(chats.summaries()) < CHATS:
        begin = perf_counter()
        add_chats(database, _library(Random(0)), float(CHATS), lambda _done: None)
        print_text(f"made in {perf_counter() - begin:.0f} s")
    print_text(f"{chats.database.size() / 2**20:.0f} MiB, {len(chats.summaries()):,} chats")
    for name, action in _actions(chats, chats.summaries()):
        own, clock = _milliseconds(action)
        print_text(f"| {name} | {own:.2f} | {clock:.2f} |")
    database.close()


def _actions(chats: Chats, lines: tuple[ChatSummary, ...]) -> Iterator[tuple[str, Callable[[], object]]]:
    long = next(line.id for line in lines if line.title.endswith(f" {CHATS}"))
    yield "summaries()", chats.summaries
    yield f"thread() of {MESSAGES} messages", lambda: chats.thread(lines[-1].id)
    yield f"thread() of {LONG:,} messages", lambda: chats.thread(long)
    yield f"all {LONG:,} messages", lambda: chats.thread(long, LONG)
    yield f"path_texts() of {LONG:,} messages", lambda: chats.path_texts(long)
    for words in SEARCHES:
        yield f"search({words!r}): {len(chats.search(words))} found", partial(chats.search, words)
    place = chats.create(title="new")
    place, reply = chats.ask(place, "What is new?")
    text = _text(Random(1), 0)
    yield "write() a partial reply", lambda: chats.write(reply, MessageContent(text, marks=_marks(text)))
    yield (
        "write() a final reply",
        lambda: chats.write(reply, MessageContent(text, "done", marks=_marks(text))),
    )
    yield "create() and ask()", lambda: chats.ask(chats.create(), "What is this?")


def _library(source: Random) -> Iterator[ChatRecord]:
    for number in range(CHATS):
        yield _chat(source, number, MESSAGES)
    yield _chat(source, CHATS, LONG)


def _chat(source: Random, number: int, count: int) -> ChatRecord:
    messages = [_message(source, number, at) for at in range(1, count + 1)]
    title = f"{made_up_word(source)} {made_up_word(source)} {number}"
    return ChatRecord(title, created=number, updated=number, shown=count, messages=tuple(messages))


def _message(source: Random, number: int, at: int) -> MessageRecord:
    text = _text(source, number)
    if at % 2:
        return MessageRecord("user", at, at - 1, text)
    return MessageRecord("assistant", at, at - 1, text, marks=_marks(text), provenance=PROVENANCE)


def _text(source: Random, number: int) -> str:
    words = " ".join(made_up_word(source) for _ in range(WORDS_A_MESSAGE))
    rare = " rare word" if source.random() < 1e-4 else ""
    return f"Everywhere {words}{rare}{'用于全文搜索的句子。' if number % 2 else ''}"


def _marks(text: str) -> tuple[TokenMark, ...]:
    ends = [len(text) * at // TOKENS_A_REPLY for at in range(1, TOKENS_A_REPLY + 1)]
    return tuple(TokenMark(end, "window" if at % 3 else "model", at // 3) for at, end in enumerate(ends))


def _milliseconds(action: Callable[[], object]) -> tuple[float, float]:
    own, clock = [], []
    for _ in range(REPEATS):
        begin, started = thread_time(), perf_counter()
        action()
        own.append((thread_time() - begin) * 1_000)
        clock.append((perf_counter() - started) * 1_000)
    return median(own), median(clock)


if __name__ == "__main__":
    main()
