"""What every test shares: no network, and a browser where there is one."""

import asyncio
import gc
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support import quicker_modules

quicker_modules.install(measures_briefly=False)

if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg")):
    # Without a card triton's kernels run in its interpreter. Triton reads this when it is imported, and the other
    # conftests import transformers, which imports it: no fixture and no hook would be early enough.
    os.environ.setdefault("TRITON_INTERPRET", "1")
    # The interpreter multiplies tiles with numpy. On a card no row of a tile is multiplied otherwise than another,
    # with OpenBLAS's kernels for AVX2 some are (86 of 176 rows of random tiles differed by their place): with this
    # older kernel none.
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("OPENBLAS_CORETYPE", "Nehalem")

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: torch takes as many threads as this says when it is imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

LONG_FILES = (
    "tests/engine/exactness/test_exactness.py", "tests/test_models_in_browser.py",
    "tests/engine/layers/test_packed_weight_triton.py", "tests/ui/chat/test_chat_script.py",
    "tests/engine/measuring/test_step_timing.py", "tests/ui/chat/test_typed_in_browser.py",
    "tests/engine/exactness/test_exactness_trained.py", "tests/ui/test_browser.py",
    "tests/engine/exactness/test_exactness_ends.py", "tests/ui/test_uploads_in_browser.py",
    "tests/engine/attention/test_same_rows.py", "tests/ui/test_page.py",
    "tests/engine/sampling/test_sampling_triton.py", "tests/ui/test_accessibility.py",
    "tests/engine/layers/test_triton_kernels.py", "tests/ui/test_pages_in_browser.py",
    "tests/engine/drafters/test_gemma4_assistant.py",
    "tests/engine/layers/test_model_trial.py", "tests/ui/chat/test_chat_page_in_browser.py",
    "tests/engine/layers/test_fused_models.py", "tests/ui/settings/test_settings_in_browser.py",
    "tests/engine/cpu_kernels/test_texts.py", "tests/ui/sidebar/test_finding_in_browser.py",
    "tests/engine/session/test_session.py", "tests/ui/documents/test_documents_in_browser.py",
    "tests/engine/session/test_thinking.py", "tests/documents/test_kills.py",
    "tests/engine/session/test_worker.py", "tests/documents/reading/test_reading.py",
    "tests/engine/loading/test_model_measurements.py", "tests/test_main.py",
    "tests/engine/graphs/test_captured_steps.py", "tests/test_advice.py",
    "tests/engine/drafters/test_eagle_head.py", "tests/tools/test_gpu_report.py",
    "tests/engine/sampling/test_sampling.py", "tests/commands/test_run.py",
    "tests/engine/loading/test_offloading.py", "tests/commands/test_serve.py",
    "tests/engine/exactness/test_exactness_auto.py", "tests/system/test_environment.py",
    "tests/engine/test_compiles_for_cards.py", "tests/engine/parallel/test_exactness_ranks.py",
)  # fmt: skip
"""Files of more than 10 seconds of a processor's time, in this order: one that computes, one that mostly waits, in
turn, so that workers keep the processors busy from the beginning to the end."""
PROFILING, MODEL_MEASUREMENTS = "app.engine.measuring.step_timing", "app.engine.loading.model_measurements"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # What it would ask its maker for: the kinds of a form's boxes, who is signed in, newer parts of itself.
    "--disable-features=AutofillServerCommunication,OptimizationHints,MediaRouter,Translate",
    "--allow-browser-signin=false",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", metavar="DIR", help="save screenshots of the real app there")
    parser.addoption("--thorough", action="store_true", help="run the tests marked thorough, too")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests of pages and processes mostly wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out the cases marked thorough before they are made: there are more of them than of all others."""
    if not metafunc.config.getoption("--thorough"):
        is_left_out = metafunc.definition.get_closest_marker("thorough") is not None
        markers = metafunc.definition.own_markers
        markers[:] = [
            _without_thorough(each, is_left_out) if each.name == "parametrize" else each for each in markers
        ]


def _without_thorough(parametrize: pytest.Mark, is_left_out: bool) -> pytest.Mark:
    """Return the mark without its thorough cases; of a test that is left out whole with one case."""
    names, values, *others = parametrize.args
    values = list(values)
    kept = [place for place, value in enumerate(values) if not _is_thorough(value)]
    kept = [0] if is_left_out or not kept else kept
    if len(kept) == len(values):
        return parametrize
    ids = parametrize.kwargs.get("ids")
    fewer = {"ids": [ids[place] for place in kept]} if isinstance(ids, Sequence) else {}
    cases = [values[place] for place in kept]
    return pytest.mark.parametrize(names, cases, *others, **{**parametrize.kwargs, **fewer}).mark


def _is_thorough(value: object) -> bool:
    return any(mark.name == "thorough" for mark in getattr(value, "marks", ()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The files that take longest come first, so that no worker is left with them alone at the end.

    Tests marked thorough are left out unless they are asked for."""
    if not config.getoption("--thorough"):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    places = {file: place for place, file in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules live to the end: no later collection of garbage looks at them again.

    Each load of a model asks for two collections. Half a second each without this, and nothing with it."""
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    # Before any test module is imported: huggingface_hub reads it once, on import.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # How long one example takes says more about the machine than about the code.
    examples = 100 if config.getoption("--thorough") else 20
    settings.register_profile("foresight", settings.default, deadline=None, max_examples=examples)
    settings.load_profile("foresight")


@pytest.fixture(scope="session", autouse=True)
def short_measurements() -> Iterator[None]:
    """Models that are measured at each load are measured no longer than they must be, if the tests load any."""
    profiling, loads = map(sys.modules.get, (PROFILING, MODEL_MEASUREMENTS))
    with pytest.MonkeyPatch.context() as patch:
        if profiling and loads:
            patch.setattr(profiling, "ROUNDS", (1, 1))
            patch.setattr(profiling, "SECONDS", 0.0)
            patch.setattr(profiling, "QUESTION_SECONDS", 0.0)
            patch.setattr(
                loads, "measure_first_successors", partial(loads.measure_first_successors, seconds=0.0)
            )
            patch.setattr(loads, "SECONDS", 0.0)
        yield


@pytest.fixture(scope="session")
def screenshots(request: pytest.FixtureRequest) -> Path | None:
    """Where screenshots are wanted, if they are."""
    wanted = request.config.getoption("--screenshots")
    return Path(wanted) if wanted else None


Launch = Callable[..., Any]
"""Starts a Chromium, with more arguments."""


@pytest.fixture(scope="session")
def playwright() -> Iterator[Any]:
    """One driver of browsers for the session: its process takes seconds to start, as a browser's does."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where Chromium is; skips where it is not."""
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUM_NAMES)} is installed")
    return path


@pytest.fixture(scope="session")
def chromium(playwright: Any, chromium_path: str) -> Iterator[Any]:
    """The headless Chromium of all modules."""
    started = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGUMENTS)
    yield started
    started.close()


@pytest.fixture(scope="module")
def playwright_loop(playwright: Any) -> Iterator[None]:
    """Mark playwright's event loop as the tests' thread's for this module only.

    Playwright expects that of its thread, and tests of other modules run loops of their own there."""
    asyncio._set_running_loop(playwright._loop)
    yield
    asyncio._set_running_loop(None)


@pytest.fixture(scope="module")
def launch(playwright_loop: None, playwright: Any, chromium_path: str) -> Launch:  # noqa: ARG001
    """How to start a Chromium that only some tests use; skips where there is none."""
    return lambda *more: playwright.chromium.launch(
        executable_path=chromium_path, args=[*CHROMIUM_ARGUMENTS, *more]
    )


@pytest.fixture(scope="module")
def browser(chromium: Any, playwright_loop: None) -> Any:  # noqa: ARG001
    return chromium
