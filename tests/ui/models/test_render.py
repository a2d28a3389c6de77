"""Every state of the lists and of the picker, as HTML without a page."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from app.settings import ModelSettings
from app.ui import Services
from app.ui.frame.templates import render_macro
from app.ui.models.actions import ModelsActions
from app.ui.models.discover import Filters, SearchResults, catalogue_html, picks_html, results_html
from app.ui.models.inventory import InstalledFit, Inventory, InventoryCache, fit_values
from app.ui.models.load_dialog import LoadDialog
from app.ui.models.render import (
    download_words,
    downloads_html,
    duration,
    installed_html,
    load_choices_html,
    loaded_html,
    picker_html,
)
from app.values.messages import EngineStatus, ModelChoice, NoteName
from app.values.model import Fit, InstalledModel, RemoteModel
from tests.fake_models import GB, HALF, MEMORY, SMALL, ScriptedModels, make_download, make_fit
from tests.fakes import DEMO, ScriptedEngine
from tests.ui.chat.people import pressed

READY = EngineStatus("ready", model=DEMO, peak=3 * GB)
NOBODY: frozenset[str] = frozenset()
NO_FOLDERS = ModelSettings()


def text(html: str) -> str:
    """What a person reads."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def buttons(html: str) -> list[tuple[str, str, str]]:
    """(do, name, value) of each button, in order."""
    return re.findall(r'data-do="([^"]*)" data-name="([^"]*)" data-value="([^"]*)"', html)


def make_inventory(*installed: InstalledFit, library: ModelSettings = NO_FOLDERS) -> Inventory:
    models = ScriptedModels()
    offers = tuple(models.recommended(MEMORY, "bfloat16", 4096))
    return Inventory(MEMORY, (), models.disk(), offers, installed, library, False, make_fit())


def fit_bar(fit: Fit) -> str:
    return render_macro("models.html", "fit_bar", fit=fit_values(fit))


def test_the_catalogue_has_a_line_for_each_model_and_what_is_too_big_comes_last() -> None:
    html = catalogue_html(make_inventory(), Filters(), NOBODY)
    words = ["All models", "small", "coder", "middle", "Too big for this computer", "huge"]
    places = [text(html).index(word) for word in words]
    assert places == sorted(places)
    assert "org/ small 2.00 GB mit Fits Download" in text(html)
    assert "mit gated Fits with int4 Download" in text(html)
    assert html.count('class="line"') == html.count("data-more") == 4


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (Filters(task="code"), ["org/coder"]),
        (Filters(size="5"), ["org/small", "org/coder"]),
        (Filters(size="20", task="chat"), ["org/small", "org/middle"]),
        (Filters(size="1"), []),
    ],
)
def test_filters_leave_the_models_of_a_size_and_a_task(filters: Filters, names: list[str]) -> None:
    html = catalogue_html(make_inventory(), filters, NOBODY)
    assert re.findall(r'data-more="([^"]*)"', html) == names
    assert ("No model fits these filters." in text(html)) == (not names)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (59.6, "1 min"), (3570, "1 h"), (7500, "2 h 5 min")]
)
def test_a_time_is_rounded_before_it_is_divided_into_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_nothing_too_big_is_recommended() -> None:
    models = ScriptedModels()
    models.offers = [
        replace(one, entry=replace(one.entry, is_first=True, size=size * GB, parameters=GB))
        for one, size in zip(models.offers, (2, 8, 1, 60), strict=True)
    ]
    offers = tuple(models.recommended(MEMORY, "bfloat16", 4096))
    html = picks_html(replace(make_inventory(), recommended=offers), NOBODY)
    assert {one.fit.verdict for one in offers} == {"fits", "fits with int4", "too big"}
    assert [name for _, name, _ in buttons(html)] == ["org/small"]
    assert picks_html(None, NOBODY) == ""


def test_what_is_installed_or_downloading_is_not_offered_again() -> None:
    html = catalogue_html(make_inventory(), Filters(), frozenset({"org/small"}))
    assert ("download", "org/small", "") not in buttons(html)
    assert ("download", "org/coder", "") in buttons(html)


def test_recommended_models_are_found_by_all_words_of_what_is_said_of_them() -> None:
    entries = [one.entry for one in make_inventory().recommended]
    assert [entry.repo for entry in entries if entry.matches("code TESTS")] == ["org/coder"]
    assert not any(entry.matches("code poems") for entry in entries)


def test_the_bar_tells_its_parts_and_marks_where_memory_ends() -> None:
    fits, big = make_fit(), make_fit("too big", 30 * GB)
    shown = fit_bar(fits)
    assert 'aria-label="weights 2.00 GB, context 100 MB, computation 50 MB, runtime 500 MB"' in shown
    assert "width:25.00%" in shown and "<s " not in shown
    assert '<s style="left:26.10%">' in fit_bar(big)
    assert text(fit_bar(fits)) == "Fits needs 2.65 GB of 8.00 GB free · chats up to 32,768 tokens"
    assert text(fit_bar(big)).startswith("Too big needs 31 GB in bfloat16, of 8.00 GB free")


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        ("queued", ["pause", "cancel"]),
        ("running", ["pause", "cancel"]),
        ("paused", ["resume", "cancel"]),
        ("failed", ["resume", "cancel"]),
        ("done", ["load-download", "dismiss"]),
    ],
)
def test_a_download_offers_what_can_be_done_with_it(state: str, actions: list[str]) -> None:
    html = downloads_html((make_download("org/x", state),))  # type: ignore[arg-type]
    assert buttons(html) == [(action, "org/x", "") for action in actions]
    assert html.count("<progress") == (0 if state == "done" else 3)


def test_a_download_tells_bytes_speed_and_time_left() -> None:
    running = make_download("org/x", speed=25.0)
    assert download_words(running) == "250 bytes of 1.00 kB · 25 bytes/s · 30 s left"
    assert download_words(make_download("org/x", "done", 1000)) == "1.00 kB · verified"
    assert download_words(replace(running, files=())) == "Contacting the hub"
    assert downloads_html(()) == ""


def test_a_gated_download_says_what_to_do() -> None:
    locked = make_download("org/x", "failed", note="It is gated.", asks_token=True, page="https://hub/org/x")
    shown = text(downloads_html((locked,)))
    assert "It is gated." in shown and "Open the model's page" in shown and "Hugging Face token" in shown
    assert 'href="https://hub/org/x"' in downloads_html((locked,))


def test_installed_models_say_what_they_are_and_why_they_cannot_be_used() -> None:
    html = installed_html(make_inventory(InstalledFit(SMALL, make_fit()), InstalledFit(HALF, None)), READY)
    shown = text(html)
    assert "org/ small 2.00 GB Hugging Face cache Fits Load…" in shown
    assert "org/ half 1.00 GB Hugging Face cache incomplete" in shown and "Not all of it is here." in shown
    assert buttons(html) == [
        ("ask-load", str(SMALL.path), ""), ("delete", str(SMALL.path), ""),
        ("download", "org/half", ""), ("delete", str(HALF.path), ""),
    ]  # fmt: skip
    assert "Models 3.00 GB, other files 47 GB, free 50 GB" in shown


def test_gguf_files_in_the_hubs_cache_count_as_models_too() -> None:
    files = (replace(SMALL, origin="hub-gguf"), replace(HALF, origin="folder"))
    shown = text(installed_html(make_inventory(*(InstalledFit(one, None) for one in files)), READY))
    assert "Models 2.00 GB, other files 48 GB, free 50 GB" in shown


def test_the_loaded_model_has_options_and_cannot_be_deleted() -> None:
    loaded = EngineStatus("ready", model=replace(DEMO, name=SMALL.name, revision=SMALL.revision))
    html = installed_html(make_inventory(InstalledFit(SMALL, make_fit())), loaded)
    assert buttons(html) == [("ask-load", str(SMALL.path), "")]
    assert "loaded Options…" in text(html)


def test_the_measured_peak_stands_beside_the_estimate() -> None:
    assert "Estimated memory: 2.65 GB with 4,096 tokens of context · Measured peak: 3.00 GB" in text(
        loaded_html(make_inventory(), READY)
    )
    assert "Measured peak: 3.00 GB" in text(loaded_html(None, READY))


def test_without_a_model_the_page_says_what_the_worker_does() -> None:
    assert "Loading org/x" in text(loaded_html(None, EngineStatus("loading", "Loading org/x")))
    assert "could not be loaded" in text(loaded_html(None, EngineStatus("failed")))
    returned = replace(READY, note="It is broken. demo stays loaded.")
    assert "It is broken." in text(loaded_html(None, returned))


def test_results_tell_apart_what_was_looked_at_recommended_and_found() -> None:
    models = ScriptedModels()
    remote = models.inspect_model("a/b", MEMORY, "bfloat16", 4096)
    found = SearchResults(
        "small", tuple(models.offers[:1]), tuple(models.hits), ((remote, "https://hub/a/b"),)
    )
    html = results_html(found, NOBODY)
    assert ("download", "a/b", "") in buttons(html) and ("inspect", "somebody/small-one", "") in buttons(html)
    assert "1,234 downloads · 5 likes" in text(html)
    assert results_html(SearchResults(), NOBODY) == ""
    assert "No text model that Foresight can load has “zzz” in its name." in text(
        results_html(SearchResults("zzz"), NOBODY)
    )
    assert text(results_html(SearchResults("x", problem="The hub is off."), NOBODY)).endswith(
        "The hub is off."
    )


def test_a_gated_model_that_cannot_be_judged_yet_says_what_to_do() -> None:
    locked = RemoteModel(
        "a/b", "", 5, make_download("x").files, is_gated=True, problems=("It is gated: run this.",)
    )
    html = results_html(SearchResults("a/b", inspected=((locked, "https://hub/a/b"),)), NOBODY)
    assert "accept the terms" in text(html) and "run this" not in text(html)
    assert ("download", "a/b", "") in buttons(html)
    unsafe = replace(locked, files=(), problems=("It has pickles.",))
    html = results_html(SearchResults("a/b", inspected=((unsafe, ""),)), NOBODY)
    assert "It has pickles." in text(html) and buttons(html) == [("clear", "", "")]


def test_text_from_outside_is_escaped() -> None:
    evil = '<img src=x onerror="alert(1)">'
    model = InstalledModel(evil, Path(evil), "folder", 1, evil, "unusable", evil)
    pages = (
        installed_html(
            make_inventory(InstalledFit(model, None), library=ModelSettings(folders=(evil,))), READY
        ),
        downloads_html((make_download(evil, note=evil),)),
        results_html(SearchResults(evil, problem=evil), NOBODY),
        render_macro("macros.html", "button", label="Load", do="load", name=evil, value=evil),
        render_macro("models.html", "title", name=f"{evil}/{evil}"),
    )
    assert [page for page in pages if "<img" in page] == []
    assert render_macro("macros.html", "link", address="javascript:alert(1)", words="its page") == ""


CHOICE = ModelChoice("demo", dtype="float32")


def picker(services: Services, choice: ModelChoice = CHOICE) -> str:
    inventory = InventoryCache(services)
    inventory.refresh()
    return str(picker_html(inventory.get(), services.engine.status(), choice))


def test_it_lists_what_is_installed_and_marks_what_is_loaded(
    services: Services, engine: ScriptedEngine, models: ScriptedModels
) -> None:
    model = next(one for one in models.installed() if one.state == "ready")
    engine.now = EngineStatus("ready", model=replace(DEMO, name=model.name, revision=model.revision))
    html = picker(services)
    ready = [one for one in models.installed() if one.state == "ready"]
    assert html.count('class="row"') == len(ready)
    assert html.count("disabled") == 1 and model.name in html
    assert 'data-do="unload"' in html


REFUSED = "triton: it is not installed for this device"


@pytest.mark.parametrize("note", ["device", "attention", "graphs", "fused", "compiler", "heads"])
def test_it_says_where_to_read_what_is_not_used(note: NoteName) -> None:
    status = EngineStatus("ready", model=DEMO.with_note(note, REFUSED))
    assert "Some features are off" in picker_html(None, status, CHOICE)
    assert "features" not in picker_html(None, replace(status, model=DEMO), CHOICE)


def test_layers_and_same_text_are_no_news_where_they_are_used() -> None:
    notes = {"fused": "Each of these runs as one kernel of our own: 5 norms.", "same-text": "float32"}
    model = replace(DEMO, fused=True, notes=notes)
    assert "features" not in picker_html(None, EngineStatus("ready", model=model), CHOICE)
    for refused in (replace(model, fused=False), replace(model, same_text=False)):
        assert "Some features are off" in picker_html(None, EngineStatus("ready", model=refused), CHOICE)


def test_a_precision_loads_the_same_model_with_it(services: Services) -> None:
    html = str(load_choices_html(None, services.engine.status(), CHOICE))
    assert re.findall(r'data-name="([^"]*)"[^>]*aria-pressed="true" disabled', html) == ["float32", "auto"]
    assert load_choices_html(None, EngineStatus("starting"), CHOICE) == ""
    assert 'title="bfloat16 (half the memory of float32)"' in html
    value = json.dumps(["org/model", "auto", "auto", "int8", "auto"])
    seen: list[str] = []
    actions = ModelsActions(services, InventoryCache(services), seen.append)
    *_, dialog = actions.click(SearchResults(), LoadDialog(), pressed("choose", "int8", value))
    assert (dialog, seen) == ("", [])
    assert services.model == ModelChoice("org/model", quantisation="int8")
