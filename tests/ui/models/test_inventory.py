"""When the inventory is renewed, and which precision and choice models get."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import ModelNotFound
from app.ui import Services
from app.ui.models.inventory import InventoryCache, load_name, precision_for, precision_of
from app.values.messages import EngineStatus, ModelChoice
from app.values.model import Download, InstalledModel
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import DEMO_MODEL, MINE, SMALL, ScriptedModels, make_download
from tests.fakes import DEMO, ScriptedEngine
from tests.ui.conftest import open_services


def test_the_inventory_is_renewed_on_demand_and_after_a_download_or_a_load(
    services: Services, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    cache = InventoryCache(services)
    assert cache.get() is None and models.looks == 0
    cache.refresh()
    assert cache.get() is cache.get() and models.looks == 1
    models.on_the_way = (make_download("a/b", "done", 1000),)
    assert cache.get() is cache.get() and models.looks == 2
    engine.now = replace(engine.now, model=replace(DEMO, name="other"))
    assert cache.get() is cache.get() and models.looks == 3


class MeetingModels(ScriptedModels):
    """Each page that asks for downloads waits, the first time, until all of them have asked."""

    def __init__(self, pages: int) -> None:
        super().__init__()
        self._meeting = threading.Barrier(pages)
        self._met = {threading.get_ident()}

    def snapshot(self) -> tuple[Download, ...]:
        if threading.get_ident() not in self._met:
            self._met.add(threading.get_ident())
            self._meeting.wait(300)
        return super().snapshot()


def test_pages_that_see_a_change_together_renew_it_once(engine: ScriptedEngine, tmp_path: Path) -> None:
    models = MeetingModels(pages=4)
    with open_services(engine, models, ScriptedDocuments(), tmp_path) as services:
        cache = InventoryCache(services)
        cache.refresh()
        models.on_the_way = (make_download("a/b", "done", 1000),)
        with ThreadPoolExecutor(4) as pages:
            inventories = [page.result() for page in [pages.submit(cache.get) for _ in range(4)]]
        assert models.looks == 2
        assert inventories == 4 * [cache.get()]


def test_memory_of_the_loaded_model_counts_as_free_for_the_next(
    services: Services, engine: ScriptedEngine
) -> None:
    cache = InventoryCache(services)
    engine.now = replace(engine.now, peak=1_000_000_000)
    cache.refresh()
    inventory = cache.get()
    assert inventory is not None and inventory.memory.free == 9_000_000_000


def test_an_unreadable_hub_cache_keeps_the_old_inventory(
    services: Services, models: ScriptedModels, caplog: pytest.LogCaptureFixture
) -> None:
    cache = InventoryCache(services)
    cache.refresh()
    before = cache.get()
    models.is_unreadable, models.on_the_way = True, (make_download("a/b", "done", 1000),)
    assert cache.get() is before and cache.get() is before
    assert caplog.text.count("could not be renewed") == 1


def test_memory_is_that_of_the_device_that_models_run_on(
    services: Services, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    InventoryCache(services).refresh()
    engine.now = replace(engine.now, model=None)
    InventoryCache(services).refresh()
    assert models.devices == ["cpu", ""]


def test_auto_is_the_precision_of_the_loaded_model() -> None:
    assert precision_of(None) == "bfloat16"
    assert precision_of(replace(DEMO, dtype="float32")) == "float32"
    assert precision_for(ModelChoice("x"), "float32") == "float32"
    assert precision_for(ModelChoice("x", "float16"), "float32") == "float16"
    assert precision_for(ModelChoice("x", "float16", quantisation="int8"), "float32") == "int8"


def test_models_are_loaded_by_exact_name() -> None:
    assert load_name(MINE) == "/models/mine"
    assert load_name(SMALL) == f"org/small@{SMALL.revision}"
    assert load_name(DEMO_MODEL) == "demo"


def test_an_installed_model_is_checked_as_it_was_loaded_last(
    services: Services, engine: ScriptedEngine
) -> None:
    services.choose_model(ModelChoice(load_name(SMALL), quantisation="int8", context=1024))
    engine.end_loading(True)
    engine.now = EngineStatus("ready", model=DEMO)
    cache = InventoryCache(services)
    cache.refresh()
    inventory = cache.get()
    assert inventory is not None
    fits = {one.model.name: one.fit for one in inventory.installed}
    small, demo = fits["org/small"], fits["demo"]
    assert small and (small.precision, small.context) == ("int8", 1024)
    assert demo and (demo.precision, demo.context) == ("float32", 4096)


def test_models_that_were_loaded_last_come_first_also_those_loaded_by_their_path(
    services: Services, models: ScriptedModels, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_path(path: str) -> InstalledModel:
        if "gone" in path:
            raise ModelNotFound("It does not exist.")
        return replace(MINE, path=Path(path))

    monkeypatch.setattr(models, "open_path", open_path)
    for name in ("/elsewhere/model.gguf", "org/never-here", load_name(SMALL), "/gone/model.gguf"):
        services.choose_model(ModelChoice(name))
        engine.end_loading(True)
    cache = InventoryCache(services)
    cache.refresh()
    inventory = cache.get()
    assert inventory
    first, second, *_ = (one.model for one in inventory.installed)
    assert first == SMALL and str(second.path) == "/elsewhere/model.gguf"
    assert len(inventory.installed) == len(models.here) + 1
