"""When the disk is looked at, and what models are judged for and loaded as."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app.messages import ModelChoice
from app.model_messages import Download
from app.ui import Services
from app.ui.models.stock import Shelf, Wish, precision_of, to_load, wish_of
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import MINE, SMALL, ScriptedModels, make_download
from tests.fakes import DEMO, ScriptedEngine
from tests.ui.conftest import open_services


def test_the_disk_is_looked_at_when_asked_and_after_a_download_or_a_load(
    services: Services, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    shelf = Shelf(services)
    assert shelf.look() is None and models.looks == 0
    shelf.refresh()
    assert shelf.look() is shelf.look() and models.looks == 1
    models.on_the_way = (make_download("a/b", "done", 1000),)
    assert shelf.look() is shelf.look() and models.looks == 2
    engine.now = replace(engine.now, model=replace(DEMO, name="other"))
    assert shelf.look() is shelf.look() and models.looks == 3


class MeetingModels(ScriptedModels):
    """Each page that asks for downloads waits, the first time, until all of them have asked."""

    def __init__(self, pages: int) -> None:
        super().__init__()
        self._meeting = threading.Barrier(pages)
        self._met = {threading.get_ident()}

    def downloads(self) -> tuple[Download, ...]:
        if threading.get_ident() not in self._met:
            self._met.add(threading.get_ident())
            self._meeting.wait(10)
        return super().downloads()


def test_pages_that_see_a_change_together_look_once(engine: ScriptedEngine, tmp_path: Path) -> None:
    models = MeetingModels(pages=4)
    with open_services(engine, models, ScriptedDocuments(), tmp_path) as services:
        shelf = Shelf(services)
        shelf.refresh()
        models.on_the_way = (make_download("a/b", "done", 1000),)
        with ThreadPoolExecutor(4) as pages:
            stocks = [page.result() for page in [pages.submit(shelf.look) for _ in range(4)]]
        assert models.looks == 2
        assert stocks == 4 * [shelf.look()]


def test_memory_of_the_loaded_model_counts_as_free_for_the_next(
    services: Services, engine: ScriptedEngine
) -> None:
    shelf = Shelf(services)
    engine.now = replace(engine.now, peak=1_000_000_000)
    shelf.refresh()
    stock = shelf.look()
    assert stock is not None and stock.memory.free == 9_000_000_000


def test_a_cache_that_cannot_be_read_leaves_what_was_seen(
    services: Services, models: ScriptedModels, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf(services)
    shelf.refresh()
    before = shelf.look()
    models.is_unreadable, models.on_the_way = True, (make_download("a/b", "done", 1000),)
    assert shelf.look() is before and shelf.look() is before
    assert caplog.text.count("could not be looked at") == 1


def test_memory_is_that_of_the_device_that_the_worker_uses(
    services: Services, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    Shelf(services).refresh()
    engine.now = replace(engine.now, model=None)
    Shelf(services).refresh()
    assert models.devices == ["cpu", ""]


def test_what_auto_comes_to_the_loaded_model_tells() -> None:
    assert precision_of("auto", None) == "bfloat16"
    assert precision_of("auto", replace(DEMO, dtype="float32")) == "float32"
    assert precision_of("int4", replace(DEMO, dtype="float32")) == "int4"
    assert wish_of(ModelChoice("x", "float16")) == Wish("float16")
    assert wish_of(ModelChoice("x", "float16", quantisation="int8")) == Wish("int8")


def test_models_are_loaded_by_what_opens_exactly_them() -> None:
    now = ModelChoice("x", "float16", "cpu", "int8", "sdpa")
    assert to_load(MINE, "auto", now) == ModelChoice("/models/mine", "auto", "cpu", "none", "sdpa")
    assert to_load(SMALL, "int8", now) == replace(now, name=f"org/small@{SMALL.revision}", dtype="auto")
