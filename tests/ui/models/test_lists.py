"""Every state of the lists, as HTML without a page."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from app.messages import EngineStatus
from app.model_messages import InstalledModel, RemoteModel
from app.settings import ModelSettings
from app.ui.models.catalogue_list import catalogue_html, matching
from app.ui.models.download_list import count_in_words, downloads_html, told
from app.ui.models.installed_list import access_html, installed_html, loaded_html
from app.ui.models.pieces import bar, duration, fit_html, title
from app.ui.models.result_list import Found, results_html
from app.ui.models.stock import Judged, Stock, Wish
from app.ui.pieces import button, link
from tests.fake_models import GB, HALF, MEMORY, SMALL, ScriptedModels, make_download, make_fit
from tests.fakes import DEMO

READY = EngineStatus("ready", model=DEMO, peak=3 * GB)
NOBODY: frozenset[str] = frozenset()
NO_FOLDERS = ModelSettings()


def text(html: str) -> str:
    """What a person reads."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def buttons(html: str) -> list[tuple[str, str, str]]:
    """(do, name, value) of each button, in order."""
    return re.findall(r'data-do="([^"]*)" data-name="([^"]*)" data-value="([^"]*)"', html)


def make_stock(*installed: Judged, library: ModelSettings = NO_FOLDERS) -> Stock:
    models = ScriptedModels()
    offers = tuple(models.recommended(MEMORY, "bfloat16", 4096))
    return Stock(Wish(), MEMORY, models.disk(), offers, installed, library, False, make_fit())


def test_the_catalogue_is_grouped_by_what_fits_then_by_use() -> None:
    shown = text(catalogue_html(make_stock(), NOBODY))
    words = [
        "Fits this machine",
        "For chat",
        "org/ small",
        "For code",
        "org/ coder",
        "Fits with int4",
        "Too big for",
    ]
    places = [shown.index(word) for word in words]
    assert places == sorted(places)
    assert "middle gated" in shown and "Load with int4" in shown


def test_what_is_here_or_on_its_way_is_not_offered_again() -> None:
    html = catalogue_html(make_stock(), frozenset({"org/small"}))
    assert ("download", "org/small", "") not in buttons(html)
    assert ("download", "org/coder", "") in buttons(html)


def test_recommended_models_are_found_by_all_words_of_what_is_said_of_them() -> None:
    assert [one.entry.repo for one in matching(make_stock(), "code TESTS")] == ["org/coder"]
    assert matching(make_stock(), "code poems") == []


def test_the_bar_tells_its_parts_and_marks_where_memory_ends() -> None:
    fits, big = make_fit(), make_fit("too big", 30 * GB)
    assert 'aria-label="weights 2.00 GB, context 100 MB, steps 50 MB, runtime 500 MB"' in bar(fits)
    assert "width:25.00%" in bar(fits) and "<s " not in bar(fits)
    assert '<s style="left:26.10%">' in bar(big)
    assert text(fit_html(fits)) == "Fits needs 2.65 GB of 8.00 GB free · chats up to 32,768 tokens"
    assert text(fit_html(big)).startswith("Too big needs 31 GB of 8.00 GB free, in bfloat16")


@pytest.mark.parametrize(
    ("state", "deeds"),
    [
        ("queued", ["pause", "cancel"]),
        ("running", ["pause", "cancel"]),
        ("paused", ["resume", "cancel"]),
        ("failed", ["resume", "cancel"]),
        ("done", ["load-download", "dismiss"]),
    ],
)
def test_a_download_offers_what_can_be_done_with_it(state: str, deeds: list[str]) -> None:
    html = downloads_html((make_download("org/x", state),))  # type: ignore[arg-type]
    assert buttons(html) == [(deed, "org/x", "") for deed in deeds]
    assert html.count("<progress") == (0 if state == "done" else 3)


def test_a_download_tells_bytes_speed_and_time_left() -> None:
    running = make_download("org/x", speed=25.0)
    assert told(running) == "250 bytes of 1.00 kB · 25 bytes/s · 30 s left"
    assert told(make_download("org/x", "done", 1000)) == "1.00 kB · checked"
    assert told(replace(running, files=())) == "Asking the hub what there is"
    assert downloads_html(()) == ""


def test_a_gated_download_explains_the_way() -> None:
    locked = make_download("org/x", "failed", note="It is gated.", asks_token=True, page="https://hub/org/x")
    shown = text(downloads_html((locked,)))
    assert "It is gated." in shown and "Open the model's page" in shown and "Access to the hub" in shown
    assert 'href="https://hub/org/x"' in downloads_html((locked,))


def test_the_way_to_models_counts_what_waits() -> None:
    downloads = (make_download("a/a"), make_download("b/b", "queued"), make_download("c/c", "failed"))
    assert count_in_words(downloads) == "2 downloading, 1 paused"
    assert count_in_words((make_download("a/a", "done"),)) == ""


def test_installed_models_say_what_they_are_and_why_they_cannot_be_used() -> None:
    html = installed_html(make_stock(Judged(SMALL, make_fit()), Judged(HALF, None)), READY)
    shown = text(html)
    assert "org/ small 2.00 GB · c0ffeec0 · in the hub's cache" in shown
    assert "org/ half incomplete" in shown and "Not all of it is here." in shown
    assert buttons(html) == [
        ("load", str(SMALL.path), "auto"), ("delete", str(SMALL.path), ""),
        ("download", "org/half", ""), ("delete", str(HALF.path), ""),
    ]  # fmt: skip
    assert "Models 3.00 GB, everything else 47 GB, free 50 GB" in shown


def test_what_fits_with_int4_is_offered_so_and_what_is_too_big_all_the_same() -> None:
    tight = installed_html(make_stock(Judged(SMALL, make_fit("fits with int4", 9 * GB))), READY)
    assert [deed[2] for deed in buttons(tight)[:2]] == ["int4", "auto"]
    assert "Load with int4 Load all the same" in text(tight)
    assert "Load all the same" in text(installed_html(make_stock(Judged(SMALL, make_fit("too big"))), READY))


def test_the_loaded_model_is_neither_loaded_nor_deleted_again() -> None:
    loaded = EngineStatus("ready", model=replace(DEMO, name=SMALL.name, revision=SMALL.revision))
    html = installed_html(make_stock(Judged(SMALL, make_fit())), loaded)
    assert (buttons(html), "loaded" in text(html)) == ([], True)


def test_folders_can_be_taken_off_the_list() -> None:
    html = installed_html(make_stock(library=ModelSettings(folders=("/my models",))), READY)
    assert buttons(html) == [("forget-folder", "/my models", "")]


def test_the_measured_peak_stands_beside_the_estimate() -> None:
    assert "Estimated: 2.65 GB with 4,096 tokens · Measured: 3.00 GB at most so far" in text(
        loaded_html(make_stock(), READY)
    )
    assert "Measured: 3.00 GB" in text(loaded_html(None, READY))


def test_without_a_model_the_page_says_what_the_worker_does() -> None:
    assert "Loading org/x" in text(loaded_html(None, EngineStatus("loading", "Loading org/x")))
    assert "could not be loaded" in text(loaded_html(None, EngineStatus("failed")))
    returned = replace(READY, note="It is broken. demo stays loaded.")
    assert "It is broken." in text(loaded_html(None, returned))


def test_results_tell_apart_what_was_looked_at_recommended_and_found() -> None:
    models = ScriptedModels()
    remote = models.look_at("a/b", MEMORY, "bfloat16", 4096)
    found = Found("small", tuple(models.offers[:1]), tuple(models.hits), ((remote, "https://hub/a/b"),))
    html = results_html(found, NOBODY)
    assert ("download", "a/b", "") in buttons(html) and ("look", "somebody/small-one", "") in buttons(html)
    assert "1,234 downloads · 5 likes" in text(html)
    assert results_html(Found(), NOBODY) == ""
    assert "No model has “zzz” in its name." in text(results_html(Found("zzz"), NOBODY))
    assert text(results_html(Found("x", problem="The hub is off."), NOBODY)).endswith("The hub is off.")


def test_a_gated_model_that_cannot_be_judged_yet_says_what_to_do() -> None:
    locked = RemoteModel(
        "a/b", "", 5, make_download("x").files, is_gated=True, problems=("It is gated: run this.",)
    )
    html = results_html(Found("a/b", looked_at=((locked, "https://hub/a/b"),)), NOBODY)
    assert "accept their terms" in text(html) and "run this" not in text(html)
    assert ("download", "a/b", "") in buttons(html)
    unsafe = replace(locked, files=(), problems=("It has pickles.",))
    html = results_html(Found("a/b", looked_at=((unsafe, ""),)), NOBODY)
    assert "It has pickles." in text(html) and buttons(html) == [("clear", "", "")]


def test_words_of_strangers_are_shown_as_they_are_and_do_nothing() -> None:
    evil = '<img src=x onerror="alert(1)">'
    model = InstalledModel(evil, Path(evil), "folder", 1, evil, "unusable", evil)
    pages = (
        installed_html(make_stock(Judged(model, None), library=ModelSettings(folders=(evil,))), READY),
        downloads_html((make_download(evil, note=evil),)),
        results_html(Found(evil, problem=evil), NOBODY),
        button("Load", "load", evil, value=evil) + title(f"{evil}/{evil}"),
    )
    assert [page for page in pages if "<img" in page] == []
    assert link("javascript:alert(1)", "its page") == ""


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (59, "59 s"), (180, "3 min"), (7500, "2 h 5 min")]
)
def test_time_is_told_as_people_do(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_whether_a_token_is_kept_is_told() -> None:
    assert "No token" in access_html(make_stock())
    assert "A token is saved" in access_html(replace(make_stock(), is_logged_in=True))
