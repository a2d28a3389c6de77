"""The real thread with real, tiny models: whatever happens to a request, the next one is answered."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from app.conversation import Reply
from app.engine import Engine
from app.engine.session.jobs import AnyJob
from app.engine.session.session import Session
from app.engine.session.worker import CLOSING, UNLOADED
from app.engine.text.sandbox import Sandbox
from app.errors import EngineClosed, ModelNotFound, SettingsNotSaved
from app.values.messages import (
    EngineStatus,
    Failed,
    Finished,
    Loading,
    Message,
    ModelFolder,
    Piece,
    Prefilling,
    Request,
)
from tests.engine.asking import (
    CPU,
    LONG,
    PROMPT,
    SECONDS,
    SHORT,
    Gate,
    Watched,
    ask,
    events_of,
    failure,
    ids_of,
    reason,
)
from tests.engine.places import Places
from tests.support.children import run_python
from tests.support.waiting import until
from tests.tiers import some


@pytest.fixture
def places(model_folders: dict[str, Path]) -> Places:
    return Places(model_folders)


@pytest.fixture
def engine(places: Places, measurements: Path, sandbox: Sandbox) -> Iterator[Engine]:
    engine = Engine(places, measurements, sandbox)
    yield engine
    engine.close()
    assert engine.status().phase == "closed"


@pytest.fixture
def gate(places: Places) -> Gate:
    return Gate(places)


@pytest.fixture
def gated(gate: Gate, measurements: Path, sandbox: Sandbox) -> Iterator[Engine]:
    engine = Engine(gate, measurements, sandbox)
    yield engine
    gate.opened.set()
    engine.close()


def test_requests_are_answered_in_the_order_they_came(engine: Engine) -> None:
    order: list[int] = []
    replies = [
        ask(engine, reply=Watched(Finished, lambda _reply, number=number: order.append(number)))  # type: ignore[misc]
        for number in range(4)
    ]
    ids = [ids_of(reply) for reply in replies]
    assert order == [0, 1, 2, 3]
    assert ids == [ids[0]] * 4
    assert len(ids[0]) == SHORT.max_new_tokens


def test_a_reply_loads_then_prefills_then_writes(engine: Engine) -> None:
    kinds = [type(event) for event in events_of(ask(engine))]
    assert kinds == sorted(kinds, key=[Loading, Prefilling, Piece, Finished].index)
    assert set(kinds) == {Loading, Prefilling, Piece, Finished}
    assert Loading not in map(type, events_of(ask(engine)))


def test_a_reply_makes_one_status_that_knows_its_model(engine: Engine) -> None:
    ids_of(ask(engine))
    seen: list[EngineStatus] = []
    reply = ask(engine, model="other", reply=Watched(Piece, lambda _reply: seen.append(engine.status())))
    assert len(ids_of(reply)) == SHORT.max_new_tokens
    assert len(seen) > 2 and all(status is seen[0] for status in seen)
    assert seen[0].phase == "busy" and seen[0].model is not None and seen[0].model.name == "other"


def test_a_reply_stops_while_it_is_written(engine: Engine) -> None:
    stopped = ask(engine, options=LONG, reply=Watched(Piece, Reply.stop))
    assert reason(stopped) == "stopped"
    assert ids_of(stopped) == ids_of(ask(engine))[: len(ids_of(stopped))]


def test_a_reply_stops_while_its_prompt_is_read(engine: Engine) -> None:
    stopped = ask(engine, options=LONG, reply=Watched(Prefilling, Reply.stop))
    assert (reason(stopped), ids_of(stopped)) == ("stopped", [])
    assert len(ids_of(ask(engine))) == SHORT.max_new_tokens


def test_a_reply_stopped_in_the_queue_writes_nothing_much_and_the_next_one_all(engine: Engine) -> None:
    first = ask(engine, options=LONG)
    queued, third = Reply(), Reply()
    queued.stop()
    ask(engine, reply=queued), ask(engine, reply=third)
    assert reason(first) == "max_tokens"
    assert (reason(queued), ids_of(queued)) == ("stopped", [])
    assert len(ids_of(third)) == SHORT.max_new_tokens


def test_a_cancelled_load_keeps_the_old_model_until_the_new_one_is_read(gated: Engine, gate: Gate) -> None:
    ended = SimpleQueue[bool]()
    gated.load(CPU, ended.put)
    assert gate.entered.wait(SECONDS)
    until(lambda: gated.status().note == "Downloading (25%)")
    gated.cancel_load()
    gate.opened.set()
    assert ended.get(timeout=SECONDS) is False
    until(lambda: gated.status() == EngineStatus("ready", UNLOADED))
    gated.load(CPU, ended.put)
    assert ended.get(timeout=SECONDS) is True, "an old cancellation is forgotten"


class LateEngine(Engine):
    """Imports its libraries only when the test lets it."""

    def __init__(self, *given: Any) -> None:
        self.imported = threading.Event()
        super().__init__(*given)

    def _start(self, job: AnyJob) -> Session:
        assert self.imported.wait(SECONDS)
        return super()._start(job)


def test_a_cancel_while_the_libraries_are_imported_is_told_at_once(
    places: Places, measurements: Path, sandbox: Sandbox
) -> None:
    engine, ended = LateEngine(places, measurements, sandbox), SimpleQueue[bool]()
    engine.load(CPU, ended.put)
    engine.cancel_load()
    assert engine.status() == EngineStatus("starting", "Cancelling")
    engine.imported.set()
    assert ended.get(timeout=SECONDS) is False
    until(lambda: engine.status() == EngineStatus("ready", UNLOADED))
    engine.close()


def test_who_hears_that_a_model_is_loaded_finds_it_in_the_status(engine: Engine) -> None:
    seen = SimpleQueue[EngineStatus]()
    engine.load(CPU, lambda _is_loaded: seen.put(engine.status()))
    status = seen.get(timeout=SECONDS)
    assert status.phase == "ready" and status.model and status.model.name == CPU.name


def test_a_load_that_waits_is_cancelled_too(gated: Engine, gate: Gate) -> None:
    ended = SimpleQueue[bool]()
    running = ask(gated)
    assert gate.entered.wait(SECONDS)
    gated.load(replace(CPU, name="other"), ended.put)
    gated.cancel_load()
    gated.load(CPU, ended.put)
    gate.opened.set()
    assert failure(running).startswith("Loading was cancelled")
    assert [ended.get(timeout=SECONDS) for _ in range(2)] == [False, True]


def test_a_message_that_waits_for_a_cancelled_load_does_not_begin_it_again(gated: Engine, gate: Gate) -> None:
    ended = SimpleQueue[bool]()
    gated.load(CPU, ended.put)
    assert gate.entered.wait(SECONDS)
    waiting = ask(gated)
    gated.cancel_load()
    gate.opened.set()
    assert ended.get(timeout=SECONDS) is False
    assert failure(waiting) == "Loading was cancelled."
    assert len(ids_of(ask(gated))) == SHORT.max_new_tokens


def test_a_load_that_is_cancelled_before_anything_is_read_keeps_the_model(engine: Engine) -> None:
    ids_of(ask(engine))
    ended = SimpleQueue[bool]()
    ask(engine, reply=Watched(Prefilling, lambda _reply: cancel()))

    def cancel() -> None:
        engine.load(replace(CPU, name="other"), ended.put)
        engine.cancel_load()

    assert ended.get(timeout=SECONDS) is False
    until(lambda: engine.status().phase == "ready")
    model = engine.status().model
    assert model and model.name == "tiny" and "stays loaded" in engine.status().note


def test_a_reply_stops_while_its_model_is_fetched(gated: Engine, gate: Gate) -> None:
    stopped = ask(gated)
    assert gate.entered.wait(SECONDS)
    until(lambda: gated.status().phase == "loading")
    assert gated.status().note == "Downloading (25%)"
    stopped.stop()
    assert failure(stopped).startswith("Stopped while the model was loading")
    gate.opened.set()
    assert len(ids_of(ask(gated))) == SHORT.max_new_tokens


def test_closing_stops_what_runs_ends_what_waits_and_the_thread(places: Places, measurements: Path) -> None:
    engine = Engine(places, measurements)
    started = threading.Event()
    running = ask(engine, options=LONG, reply=Watched(Piece, lambda _reply: started.set()))
    assert started.wait(SECONDS)
    queued = ask(engine)
    engine.close()
    assert engine.status().phase == "closed"
    assert reason(running) in ("stopped", "max_tokens")
    assert isinstance(events_of(queued)[-1], Finished | Failed)
    engine.close()


def test_closing_ends_a_download_that_nobody_asked_anything_of(gated: Engine, gate: Gate) -> None:
    gated.load(CPU)
    assert gate.entered.wait(SECONDS)
    gated.close()
    assert gated.status().phase == "closed"


def test_closing_fails_what_waits_without_beginning_it(gated: Engine, gate: Gate, tmp_path: Path) -> None:
    running = ask(gated)
    assert gate.entered.wait(SECONDS)
    reported: list[bool] = []
    queued, weighed = ask(gated), gated.margin(Request(CPU, PROMPT, SHORT), [])
    gated.load(CPU, reported.append)
    embedded = gated.embed(ModelFolder(tmp_path, name="sentences"), ["a text"])
    gated.close()
    assert failure(running).startswith("Stopped while the model was loading")
    assert failure(queued) == CLOSING
    assert str(weighed.exception(SECONDS)) == str(embedded.exception(SECONDS)) == CLOSING
    assert (reported, gate.places.asked) == ([False], [])


def test_a_closed_engine_says_of_every_job_that_it_comes_to_nothing(engine: Engine) -> None:
    engine.close()
    assert failure(ask(engine)) == "Foresight is closing and takes no more questions."
    reported: list[bool] = []
    engine.load(CPU, reported.append)
    engine.unload()
    assert reported == [False]
    assert isinstance(engine.margin(Request(CPU, PROMPT, SHORT), []).exception(SECONDS), EngineClosed)


def test_an_engine_that_was_never_asked_closes_without_torch(places: Places) -> None:
    engine = Engine(places)
    engine.close()
    assert engine.status().phase == "closed"


def test_later_collections_ignore_what_the_libraries_made() -> None:
    code = (
        "import gc; from app.engine.session.worker import import_session; import_session();"
        "print(gc.get_freeze_count() > len(gc.get_objects()), gc.isenabled())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["True", "True"]


def test_loading_ahead_makes_the_engine_ready(engine: Engine) -> None:
    engine.load(CPU)
    until(lambda: engine.status().phase == "ready")
    model = engine.status().model
    assert model is not None
    assert model.name == "tiny"


def test_a_model_that_cannot_be_loaded_ahead_tells_why_in_the_status(engine: Engine) -> None:
    engine.load(replace(CPU, name="lost"))
    until(lambda: engine.status().phase == "failed")
    assert engine.status().note == "There is no model lost: check the name."
    assert len(ids_of(ask(engine))) == SHORT.max_new_tokens
    assert engine.status().phase in ("busy", "ready")


NO_ROOM = {
    "memory": MemoryError(),
    "mmap": RuntimeError("unable to mmap 9 bytes: Cannot allocate memory (12)"),
    "bad_alloc": RuntimeError("std::bad_alloc"),
    "thread": RuntimeError("can't start new thread"),
    "system": OSError(12, "Cannot allocate memory"),
    "cublas": RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling"),
}
NOT_FOUND = "There is no such model: check the name."
ERRORS: dict[str, tuple[Exception, str]] = {
    "ours": (ModelNotFound(NOT_FOUND), NOT_FOUND),
    **{name: (error, "Memory ran out: choose a smaller model") for name, error in NO_ROOM.items()},
    "bug": (RuntimeError("all wrong"), "Something went wrong inside Foresight (RuntimeError: all wrong)"),
}


@pytest.mark.parametrize("case", some(ERRORS, "mmap", "bug"))
def test_an_error_on_the_way_to_the_model_is_a_sentence_and_the_old_model_answers_on(
    engine: Engine, places: Places, case: tuple[Exception, str]
) -> None:
    error, sentence = case
    before = ids_of(ask(engine))
    places.errors["cursed"] = error
    assert failure(ask(engine, model="cursed")).startswith(sentence)
    status = engine.status()
    assert (status.phase, status.model and status.model.name) == ("ready", "tiny")
    assert ids_of(ask(engine)) == before
    assert places.asked.count("tiny") == 1


def test_a_failed_load_says_why_and_returns_to_the_model_before(engine: Engine) -> None:
    reported: list[bool] = []
    engine.load(CPU, reported.append)
    engine.load(replace(CPU, name="empty"), reported.append)
    until(lambda: len(reported) == 2)
    until(lambda: engine.status().phase == "ready")
    status = engine.status()
    assert reported == [True, False]
    assert status.model is not None and status.model.name == "tiny"
    assert status.note.startswith(
        "transformers cannot build the model that the config.json of empty describes"
    ) and status.note.endswith("tiny stays loaded.")


def test_what_fails_after_a_model_was_loaded_is_a_sentence_beside_it(engine: Engine) -> None:
    def cannot_save(_is_loaded: bool) -> None:
        raise SettingsNotSaved("The disk is full: free some space.")

    engine.load(CPU, cannot_save)
    until(lambda: engine.status().note == "The disk is full: free some space. tiny stays loaded.")
    assert engine.status().phase == "ready"


def test_a_model_is_let_go_of_and_loaded_again_by_the_next_question(engine: Engine) -> None:
    before = ids_of(ask(engine))
    engine.unload()
    until(lambda: engine.status().model is None and engine.status().phase == "ready")
    assert engine.status().note == "No model is loaded. The next message loads the chosen model."
    assert ids_of(ask(engine)) == before


class SickSession(Session):
    """Its device takes no more commands, and says so whenever it is waited for."""

    def close(self) -> None:
        super().close()
        raise RuntimeError("CUDA error: device-side assert triggered")


class SickEngine(Engine):
    """Has such a session."""

    def _start(self, _job: object) -> Session:
        return SickSession(self._locate)


def test_memory_that_cannot_be_given_back_is_a_sentence_and_the_next_request_is_answered(
    places: Places,
) -> None:
    engine = SickEngine(places)
    before = ids_of(ask(engine))
    engine.unload()
    until(lambda: engine.status().phase == "failed")
    assert engine.status().note.startswith("The GPU stopped working for this process (CUDA error")
    assert engine.status().note.endswith("restart Foresight.")
    assert ids_of(ask(engine)) == before
    engine.close()
    assert engine.status().phase == "closed"


def test_who_cannot_hear_how_it_ended_does_not_end_the_engine(engine: Engine) -> None:
    def fall(_told: object) -> None:
        raise LookupError("nobody there")

    engine.load(replace(CPU, name="lost"), fall)
    before = ids_of(ask(engine, reply=Watched(Finished, fall)))
    assert ids_of(ask(engine)) == before
    assert engine.status().phase in ("busy", "ready")


def test_tokens_are_counted_while_the_engine_writes_and_not_without_a_model(engine: Engine) -> None:
    chat = (Message("user", "Hello there"),)
    assert (engine.reader().context, engine.reader().count(chat)) == (0, 0)
    counted: list[int] = []
    reply = ask(engine, options=LONG, reply=Watched(Piece, lambda _reply: counted.append(count_elsewhere())))

    def count_elsewhere() -> int:
        with ThreadPoolExecutor(1) as other:
            return other.submit(engine.reader().count, chat).result()

    assert reason(reply) == "max_tokens"
    assert len(set(counted)) == 1 and counted[0] > 2
    assert engine.reader().context == 256
    assert engine.reader().texts(ids_of(reply)) != ("",) * LONG.max_new_tokens
    engine.unload()
    until(lambda: engine.reader().context == 0)


def test_memory_that_runs_out_over_a_long_prompt_leaves_the_model_for_a_shorter_one(engine: Engine) -> None:
    before = ids_of(ask(engine, model="exhausting"))
    assert len(before) == SHORT.max_new_tokens
    assert failure(ask(engine, model="exhausting", prompt="long " * 60)).startswith("Memory ran out")
    assert ids_of(ask(engine, model="exhausting")) == before == ids_of(ask(engine))


def test_what_nobody_foresaw_is_a_sentence_with_its_traceback_in_the_log(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    def trip(_reply: Reply) -> None:
        raise LookupError("over a wire")

    with caplog.at_level(logging.ERROR):
        assert failure(ask(engine, reply=Watched(Piece, trip))).startswith("Something went wrong")
    assert "LookupError: over a wire" in caplog.text
    assert len(ids_of(ask(engine))) == SHORT.max_new_tokens


def test_a_prompt_that_is_too_long_is_refused_while_another_reply_is_written(engine: Engine) -> None:
    begun = threading.Event()
    writing = Watched(Piece, lambda reply: begun.set() if refused.is_done else reply.wait(0, 0.2))
    ids_of(ask(engine))
    refused = Reply()
    ask(engine, options=LONG, reply=writing)
    ask(engine, prompt="word " * 200_000, reply=refused)
    assert "tokens and the model's context holds 256" in failure(refused)
    assert len(ids_of(writing)) == LONG.max_new_tokens
    assert begun.is_set()


def test_tokens_of_another_model_are_made_anew(engine: Engine) -> None:
    expected = ids_of(ask(engine)), ids_of(ask(engine, model="other"))
    request = Request(replace(CPU, name="other"), PROMPT, SHORT)
    made = engine.tokenise(request).result(SECONDS)
    assert made.tokens and made.tokens.made_by
    ids_of(ask(engine))  # now they are of a model that is no longer loaded
    old = engine.tokenise(request).result(SECONDS)
    assert old.tokens is None
    for asked in (made, old):
        reply = Reply()
        engine.submit(asked, reply)
        assert ids_of(reply) == expected[1]
    assert ids_of(ask(engine)) == expected[0]


def test_a_request_whose_tokens_are_made_while_the_engine_closes_fails_with_a_sentence(
    engine: Engine,
) -> None:
    ids_of(ask(engine))
    made = engine.tokenise(Request(CPU, PROMPT, SHORT)).result(SECONDS)
    engine.close()
    replies = [Reply(), ask(engine)]
    engine.submit(made, replies[0])
    assert [failure(reply) for reply in replies] == [CLOSING, CLOSING]


def test_importing_and_starting_the_engine_does_not_wait_for_torch() -> None:
    script = (
        "import sys; from app.engine import Engine; engine = Engine(None); engine.close(); "
        "sys.exit('torch' in sys.modules)"
    )
    child = run_python(script)
    assert (child.returncode, child.stderr) == (0, "")


NO_MEMORY = (
    "There is not enough memory to start the engine: close other programs, then start Foresight again."
)


BROKEN_TORCH = """import sys
sys.failures = getattr(sys, "failures", 0) + 1
raise [ImportError("libtorch is gone"), ValueError("libtorch is gone"), MemoryError,
       ImportError("libtorch.so: failed to map segment from shared object")][(sys.failures - 1) // 2]
"""
"""Fails in another way for each engine, which imports it twice."""


def test_without_torch_the_engine_says_so_and_takes_the_next_request(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(BROKEN_TORCH)
    gone = "The engine could not start (libtorch is gone): install Foresight again as in its README."
    lines = answers_of_a_child(f"sys.path.insert(0, {str(tmp_path)!r})", engines=4)
    assert lines == [gone] * 4 + [NO_MEMORY] * 4


def test_an_engine_with_too_little_address_space_is_not_started() -> None:
    """It would not come back from a library's endless loop."""
    pytest.importorskip("resource", reason="Windows has no such limit")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (900_000_000, 900_000_000))"
    assert answers_of_a_child(limit) == [NO_MEMORY, NO_MEMORY]


def answers_of_a_child(first: str, engines: int = 1) -> list[str]:
    """Return what engines without torch say to two requests each, in a process that does something else first."""
    script = (
        f"import sys; {first}\n"
        "from app.conversation import Reply\n"
        "from app.engine import Engine\n"
        "from app.values.messages import ModelChoice, Request\n"
        f"for number in range({2 * engines}):\n"
        "    engine = Engine(None) if number % 2 == 0 else engine\n"
        "    reply = Reply()\n"
        "    engine.submit(Request(ModelChoice('demo'), 'Hello'), reply)\n"
        "    print(*[event.sentence for event in reply.events()])\n"
        "    number % 2 and engine.close()"
    )
    child = run_python(script)
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()
