"""What an empty chat offers: prompts, models, how they are shown, and what becomes of one that is asked for."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from app.settings import ModelSettings, Settings
from app.ui import Services
from app.ui.models.discover import best_models
from app.ui.models.inventory import InstalledFit, Inventory, InventoryCache
from app.ui.welcome.view import (
    FOR_DEMO,
    FOR_OTHERS,
    ModelGetter,
    OfferActions,
    WelcomeRenderer,
    minutes_in_words,
    offers_html,
    other_models,
    starters_for,
    usable,
)
from app.values.messages import EngineStatus, ModelChoice
from app.values.model import DiskUse, Memory, Recommendation, Verdict
from tests.fake_models import (
    DEMO_MODEL,
    GB,
    HALF,
    MEMORY,
    SMALL,
    ScriptedModels,
    make_download,
    make_entry,
    make_fit,
)
from tests.fakes import DEMO
from tests.support.waiting import until
from tests.ui.chat.people import pressed

READY = EngineStatus("ready", model=DEMO)
GPU = Memory("cuda:0", 24 * GB, 24 * GB)


def offer(repo: str, gigabytes: float, verdict: Verdict = "fits", is_first: bool = True) -> Recommendation:
    entry = make_entry(repo, size=int(gigabytes * GB))
    return Recommendation(replace(entry, is_first=is_first), make_fit(verdict))


SIZES = tuple(offer(f"org/{size:g}", size) for size in (0.3, 0.7, 1.5, 3, 4, 8, 16))


def inventory(
    *installed: InstalledFit,
    offers: Sequence[Recommendation] = SIZES,
    memory: Memory = MEMORY,
    free: int = 50 * GB,
    is_offline: bool = False,
) -> Inventory:
    disk, library = DiskUse(Path("/cache"), free, 100 * GB), ModelSettings(is_offline=is_offline)
    return Inventory(memory, (), disk, tuple(offers), installed, library, False, None)


def names(offers: Sequence[Recommendation]) -> list[str]:
    return [one.entry.repo for one in offers]


def text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def buttons(html: str) -> list[tuple[str, str]]:
    return re.findall(r'data-do="([^"]*)" data-name="([^"]*)"', html)


def test_the_largest_that_suits_is_offered_and_two_of_half_the_size_each() -> None:
    assert names(best_models(inventory())) == ["org/8", "org/4", "org/1.5"]
    assert names(best_models(inventory(memory=GPU))) == ["org/16", "org/8", "org/4"]


def test_what_does_not_suit_this_machine_is_not_offered() -> None:
    offers = (
        offer("org/other", 4, is_first=False), offer("org/big", 4, "too big"),
        offer("org/int4", 4, "fits with int4"), offer("org/good", 2),
    )  # fmt: skip
    assert names(best_models(inventory(offers=offers))) == ["org/good"]
    assert names(best_models(inventory(free=GB))) == ["org/0.7", "org/0.3"]


def test_installed_models_that_fit_come_first_and_are_not_offered_again() -> None:
    big = replace(SMALL, name="org/8", path=Path("/cache/8"), size=8 * GB)
    found = inventory(
        InstalledFit(DEMO_MODEL, make_fit()), InstalledFit(SMALL, make_fit()), InstalledFit(HALF, make_fit()),
        InstalledFit(big, make_fit()), InstalledFit(replace(SMALL, name="x"), make_fit("too big", 60 * GB)),
    )  # fmt: skip
    assert usable(found) == (big, SMALL)
    assert names(other_models(found, usable(found))) == ["org/4"]
    assert buttons(offers_html(found, (), READY, Settings())) == [
        ("load", "/cache/8"), ("load", "/cache/small"), ("get", "org/4"),
    ]  # fmt: skip


def test_an_offer_tells_its_size_and_the_time_at_a_named_speed() -> None:
    shown = text(offers_html(inventory(), (), READY, Settings()))
    assert "8.00 GB · about 22 min" in shown and "a connection of 50 Mbit/s" in shown
    assert "a demo model of 7.3M parameters" in shown
    assert [minutes_in_words(size) for size in (1, 3 * GB, 60 * GB)] == [
        "about 1 min", "about 8 min", "about 2 h 40 min",
    ]  # fmt: skip


def test_a_download_tells_how_far_it_is_and_what_can_be_done() -> None:
    running = make_download("org/8", speed=10.0)
    shown = offers_html(inventory(), (running,), READY, Settings())
    assert "250 bytes of 1.00 kB" in text(shown) and "<progress" in shown
    assert ("cancel", "org/8") in buttons(shown)
    failed = make_download("org/8", "failed", note="The disk is full.")
    shown = offers_html(inventory(), (failed,), READY, Settings())
    assert "The disk is full." in text(shown) and ("resume", "org/8") in buttons(shown)


def int8(one: Recommendation) -> Recommendation:
    return replace(one, fit=replace(one.fit, precision="int8"))


def test_an_offer_names_the_format_that_is_fastest_here_with_its_loss() -> None:
    offers = (int8(offer("org/fits", 1)), offer("org/wide", 3))
    found = inventory(offers=offers)
    shown = text(offers_html(found, (), READY, Settings()))
    assert "1.00 GB · about 3 min · int8" in shown
    assert "3.00 GB · about 8 min Get" in shown
    assert "It is about 5 times as fast as float32 and predicts hardly worse" in shown
    assert "int8" not in text(offers_html(inventory(offers=offers[1:]), (), READY, Settings()))


def test_an_installed_model_names_the_format_in_which_it_is_loaded() -> None:
    found = inventory(InstalledFit(SMALL, replace(make_fit(), precision="int8")), offers=())
    dense = Settings().with_loaded(ModelChoice("org/small", "bfloat16"))
    assert "2.00 GB · on this computer · int8" in text(offers_html(found, (), READY, Settings()))
    assert "int8" not in text(offers_html(found, (), READY, dense))


def test_an_offer_is_loaded_automatically_once_it_is_here(services: Services, models: ScriptedModels) -> None:
    models.here, models.offers = [DEMO_MODEL], [int8(offer("org/small", 2))]
    person = FirstMinute(services)
    assert "· int8" in text(person.offers)
    person.actions.click(pressed("get", "org/small"))
    models.here = [DEMO_MODEL, SMALL]
    models.on_the_way = (make_download("org/small", "done", 1000, folder=SMALL.path),)
    until(lambda: person.offers == "")
    assert services.model == ModelChoice(f"org/small@{SMALL.revision}", quantisation="auto")


def test_what_is_offered_does_not_depend_on_the_memory_of_the_minute() -> None:
    busy = replace(make_fit("too big"), memory=replace(MEMORY, free=1))
    found = inventory(InstalledFit(SMALL, busy), memory=replace(MEMORY, free=1), offers=())
    assert usable(found) == (SMALL,)


def test_offline_only_installed_models_are_offered() -> None:
    found = inventory(InstalledFit(SMALL, make_fit()), is_offline=True)
    assert buttons(offers_html(found, (), READY, Settings())) == [("load", "/cache/small")]
    assert text(offers_html(inventory(is_offline=True), (), READY, Settings())) == ""


class FirstMinute:
    """A person before an empty chat."""

    def __init__(self, services: Services) -> None:
        cache = InventoryCache(services)
        getter = ModelGetter(services, cache)
        self.heard: list[str] = []
        self.actions = OfferActions(services, cache, getter, self.heard.append)
        self.renderer = WelcomeRenderer(services, cache, getter)
        self.actions.look()

    @property
    def offers(self) -> str:
        return str(self.renderer.render()["offers"])


@pytest.fixture
def person(services: Services) -> FirstMinute:
    return FirstMinute(services)


def test_one_press_downloads_a_model_and_loads_it_once_it_is_here(
    services: Services, models: ScriptedModels
) -> None:
    models.here = [DEMO_MODEL]
    models.offers = [offer("org/small", 2)]
    person = FirstMinute(services)
    assert ("get", "org/small") in buttons(person.offers)
    person.actions.click(pressed("get", "org/small"))
    assert models.calls == [("start", "org/small")]
    assert "0 bytes of 1.00 kB" in person.offers and services.model.name == "demo"
    models.here = [DEMO_MODEL, SMALL]
    models.on_the_way = (make_download("org/small", "done", 1000, folder=SMALL.path),)
    until(lambda: person.offers == "")
    assert services.model.name.startswith("org/small@")
    assert "Write a Python class" in str(person.renderer.render()["starters"])
    assert person.heard == []


def test_a_download_that_was_started_elsewhere_is_not_loaded(
    person: FirstMinute, services: Services, models: ScriptedModels
) -> None:
    models.on_the_way = (make_download("org/small", "done", 1000, folder=SMALL.path),)
    assert person.offers
    assert services.model.name == "demo"


def test_an_installed_model_is_loaded_by_one_press(person: FirstMinute, services: Services) -> None:
    person.actions.click(pressed("load", SMALL.path))
    assert services.model.name.startswith("org/small@")
    person.actions.click(pressed("load", "/gone"))
    assert "no longer installed" in person.heard[0]


def test_what_cannot_be_downloaded_is_told(person: FirstMinute, models: ScriptedModels) -> None:
    models.refuses = "Foresight is offline."
    person.actions.click(pressed("get", "org/coder"))
    assert person.heard == ["Foresight is offline."]


def test_the_demo_model_has_starters_of_its_own_and_all_others_share_theirs() -> None:
    assert starters_for("demo") == FOR_DEMO
    assert starters_for("org/small@c0ffee") == starters_for("/models/mine") == FOR_OTHERS


@pytest.mark.parametrize("starters", [FOR_DEMO, FOR_OTHERS], ids=["demo", "others"])
def test_there_is_a_quote_from_a_text_and_no_two_are_alike(starters: tuple) -> None:  # type: ignore[type-arg]
    assert "Quote from a text" in [one.title for one in starters]
    assert len({one.prompt or one.title for one in starters}) == len({one.title for one in starters}) == 4
