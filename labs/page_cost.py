"""Measures how much of the engine's speed the page costs, and how fast long chats open: `python -m labs.page_cost`.

The same request runs with and without a page that shows it, in turn, in one process with the real engine and the
demo model, beside a real Chromium. If app and browser share few cores, the browser's own work counts, too.

With OMP_NUM_THREADS=1 only the engine's thread computes. If the browser has a core of its own, the page costs at
most the time that the process's other threads take for a token.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from threading import Event
from time import perf_counter, sleep
from typing import Any

from starlette.responses import PlainTextResponse

from app.api.access import ApiSwitch
from app.api.api_key import KeyFile
from app.chats.chats import Chats
from app.commands.console import print_text
from app.conversation import ChatStores, ChatTools, Conversations, NewQuestion, Reply
from app.conversation.race.race import Race
from app.conversation.race.race_log import RaceLog
from app.database.database import MEMORY, Database, database_in
from app.documents.documents import Documents
from app.engine import Engine
from app.models_registry.locate import locate
from app.models_registry.model_library import ModelLibrary
from app.remote import Servers
from app.settings import DEMO_MODEL, ModelSettings, Settings, SettingsFile, ToolSettings
from app.system.network_log import NetworkLog
from app.tools.mcp_servers import ToolServers
from app.ui import AppContext, Services, serve
from app.values.chat import ChatSettings, ChatVersion
from app.values.messages import Decoding, Finished, Message, ModelChoice, Options, Request
from tests.support.soak_parts import running_chromium
from tools.processor_time import ProcessorTime, processor_time

QUESTION = "Write a story about a cat and a dog."
ANSWER = "Here is a `list`:\n\n- one **thing**\n- another\n\n```python\ndef f(x):\n    return x + 1\n```\n"
OPTIONS = Options(decoding=Decoding("auto"), max_new_tokens=160, ignore_eos=True)


def fill(chats: Chats, messages: int) -> ChatVersion:
    """Make a chat with this number of messages."""
    place = chats.create(title=f"A chat of {messages:,} messages")
    for number in range(messages // 2):
        place, _ = chats.add(place, "user", f"{number}: {QUESTION}")
        # All answers differ, because rendered texts are cached.
        place, _ = chats.add(place, "assistant", f"Answer {number}.\n\n{ANSWER * 2}")
    return place


@contextmanager
def opened(folder: Path) -> Iterator[Services]:
    """Open services with real stores and the real engine, which has no model yet."""
    library = ModelLibrary(folder, ModelSettings(is_offline=True))
    with (
        closing(database_in(folder)) as database,
        closing(Database(MEMORY)) as memory,
        closing(Documents(database, folder)) as documents,
        closing(
            Engine(lambda name, progress: locate(name, progress, library.hub), folder / "steps")
        ) as engine,
    ):
        tools = ChatTools(ToolServers(lambda: (), folder), documents, ToolSettings)
        conversations = Conversations(engine, ChatStores(Chats(database), Chats(memory)), documents, tools)
        race = Race(engine, lambda: False, RaceLog(database), str)
        yield Services(
            conversations, engine, library, race, documents, SettingsFile(folder), Settings(), Servers(folder)
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens per second, and milliseconds of processor time for a token."""

    speed: float
    engine: float
    page: float
    browser: float


def cost(reply: Reply, before: ProcessorTime) -> Cost:
    """Measure a reply from its request to its end."""
    (end,) = (event for event in reply.events() if isinstance(event, Finished))
    taken, numbers = processor_time().since(before), end.statistics
    share = 1000 / numbers.tokens
    return Cost(numbers.tokens_per_second, taken.engine * share, taken.page * share, taken.browser * share)


def alone(services: Services, request: Request) -> Cost:
    """Run the request while no page is open."""
    reply, before = Reply(), processor_time()
    services.engine.submit(request, reply)
    return cost(reply, before)


def followed(services: Services, chat: int) -> Cost:
    """Ask the question in the chat that a page shows."""
    conversations = services.conversations
    place = conversations.thread(chat, 1).version
    asked, before = replace(services.asked(OPTIONS), overflow="oldest"), processor_time()
    conversations.start(NewQuestion(place, asked, QUESTION))
    newest = conversations.newest_reply(chat)
    assert newest is not None
    found = cost(newest.reply, before)
    while conversations.is_writing(chat):
        sleep(0.01)
    return found


def opening_times(page: Any, title: str, times: int) -> list[float]:
    """Return the seconds from the click on a chat to its newest message on the screen."""
    found = []
    for _ in range(times):
        page.click("#new-chat")
        page.wait_for_selector("#welcome", state="visible")
        began = perf_counter()
        page.click(f'button.open[title="{title}"]')
        page.wait_for_selector("#messages article.last", state="visible")
        found.append(perf_counter() - began)
    return found


def same_request(services: Services, chat: int) -> Request:
    """Return the request that the question in this chat sends, with older turns left out."""
    conversations = services.conversations
    texts = (*conversations.stores.stored.path_texts(chat), Message("user", QUESTION))
    fit = conversations.fit(ChatSettings(), texts, OPTIONS)
    return Request(ModelChoice(DEMO_MODEL), texts[fit.left_out if fit else 0 :], OPTIONS)


def main() -> None:
    """Print medians, and the limits of the middle half of all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=12)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as services:
        chats = services.conversations.stores.stored
        chat, long = fill(chats, asked.messages).chat, fill(chats, 2000)
        loaded = Event()
        services.engine.load(ModelChoice(DEMO_MODEL), lambda _is_loaded: loaded.set())
        loaded.wait()
        place, api = Path(folder), ApiSwitch(lambda _key: PlainTextResponse("", 404), KeyFile(Path(folder)))
        page = serve(services, AppContext(place, place, place / "log", NetworkLog({}), api), 0, False)
        with running_chromium() as browser:
            _measure(services, browser, page.url, chat, asked.rounds)
            tab = browser.new_page(viewport={"width": 1366, "height": 768})
            tab.goto(page.url)
            tab.wait_for_selector("#status .ready", timeout=90_000)
            times = opening_times(tab, chats.thread(long.chat, 1).title, 7)
        page.close()
    print_text(
        f"a chat of 2,000 messages opens in {median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"
    )


def _measure(services: Services, browser: Any, url: str, chat: int, rounds: int) -> None:
    found: dict[str, list[Cost]] = {"alone": [], "page": []}
    for number in range(rounds + 1):
        off = alone(services, same_request(services, chat))
        services.chat = chat
        tab = browser.new_page(viewport={"width": 1366, "height": 768})
        tab.goto(url)
        tab.wait_for_selector("#messages article.last")
        sleep(1.5)  # a page that is still being built must not be measured
        on = followed(services, chat)
        tab.close()
        sleep(1.0)
        if number:  # the first round warms up
            found["alone"].append(off)
            found["page"].append(on)
    ratios = [on.speed / off.speed for on, off in zip(found["page"], found["alone"], strict=True)]
    for name, costs in found.items():
        print_text(f"{name}: {_range([each.speed for each in costs], 0)} tokens/s")
        for part in ("engine", "page", "browser"):
            print_text(
                f"  {part}: {_range([getattr(each, part) for each in costs], 2)} ms of the processor a token"
            )
    print_text(f"page / alone: {_range(ratios, 3)}")


def _range(values: Sequence[float], digits: int) -> str:
    """Format the median, and the limits of the middle half."""
    low, middle, high = quantiles(values, n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


if __name__ == "__main__":
    main()
