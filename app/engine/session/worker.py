"""The engine's worker, the only thread that uses the model: it takes jobs from a queue and reports their results.

The thread imports torch when the first job comes, so that the app's window can open at once.
"""

import gc
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from app.engine.embedding.job import EmbeddedText, EmbeddingJob, OnTokens, Vectors, ignore_tokens
from app.engine.machine.device_faults import app_error, is_device_fault, sentence_of
from app.engine.machine.device_options import ALONE, Estimate, RankPlan, no_estimate
from app.engine.machine.process_memory import address_space_left, is_out_of_memory, resident_bytes
from app.engine.session.jobs import (
    AnyJob,
    JobQueue,
    LoadJob,
    MarginJob,
    OnLoaded,
    ReplyJob,
    Shutdown,
    TokenisedRequest,
    TokenisingThreads,
    UnloadJob,
    fail_job,
)  # fmt: skip
from app.engine.text.sandbox import Sandbox, panics_as_errors
from app.engine.text.token_counter import CachedTokenReader
from app.errors import AppError, EngineClosed, LoadCancelled, ModelTooLarge, first_line
from app.system.garbage_collection import collecting_later
from app.values.chat_format import ChatFormat
from app.values.logits import Grammar
from app.values.messages import (
    Device,
    EngineStatus,
    EventSink,
    Loading,
    Locate,
    ModelChoice,
    ModelFolder,
    Progress,
    Request,
)
from app.values.reply_statistics import Margin

if TYPE_CHECKING:
    from app.engine.session.session import Session

log = logging.getLogger(__name__)

CLOSING = "Foresight is closing and takes no more questions."
LEAST_ADDRESS_SPACE = 1_000_000_000
"""Bytes of address space that importing torch and its dependencies takes (981 MB on Linux without CUDA, more with
CUDA). With less, OpenBLAS asks for memory in an endless loop that even Ctrl+C does not end."""
KEPT_FORMATS = 16
"""Maximum number of chat templates whose formats are cached."""
UNLOADED = "No model is loaded. The next message loads the chosen model."
CANCELLED = "Loading was cancelled."
CHATTY = ("torchao", "torch.utils._pytree", "accelerate.big_modeling")
"""Loggers whose warnings do not help the user: they warn about kernels that are missing without CUDA (transformers
imports torchao if it is installed), and about weights that are in main memory on purpose."""


def import_session() -> type["Session"]:
    """Import torch and return the class that answers requests; compile the C libraries on other threads."""
    quiet_imports()
    from app.engine.cpu_kernels import compiled_kernels
    from app.engine.lookahead.native_drafter import compiled_drafter
    from app.engine.machine.compiling import compile_ahead

    compile_ahead(compiled_kernels, compiled_drafter)
    return _session_class()


@cache
def _session_class() -> type["Session"]:
    with collecting_later():
        from app.engine.session.session import Session

        gc.collect()  # the imports leave garbage, which later collections would ignore, too
    return Session


def quiet_imports() -> None:
    """Let the loggers in CHATTY report only errors. Must be called before torch is imported."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)


class Engine:
    """Owns the worker thread. Its methods are thread-safe; only `check_grammar`, `chat_format` and `close` wait."""

    def __init__(
        self,
        locate: Locate,
        cache_dir: Path | None = None,
        sandbox: Sandbox | None = None,
        plan: RankPlan = ALONE,
        device: Device = "auto",
        estimate: Estimate = no_estimate,
    ) -> None:
        """Start the worker thread. Without a `cache_dir`, a model is measured whenever it is loaded.

        By default the engine makes its own sandbox; closing the engine closes the sandbox. `device` is where texts
        are embedded until a model is loaded (`Session`)."""
        self._locate, self._cache_dir, self._estimate = locate, cache_dir, estimate
        self._sandbox, self._plan, self._device = sandbox or Sandbox(), plan, device
        self._formats = lru_cache(KEPT_FORMATS)(lambda text: self._sandbox.chat_format(text, {}, ()))
        self._queue, self._tokenising = JobQueue(), TokenisingThreads()
        self._session: Session | None = None
        self._startup_failure: AppError | None = None
        self._status = EngineStatus("starting", "Starting the engine")
        self._is_closing, self._is_cancelled = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request | TokenisedRequest, reply: EventSink) -> None:
        """Queue a request once it is tokenised; its events go to `reply` and end with Finished or Failed."""
        is_cancelled = self._is_cancelled
        if isinstance(request, TokenisedRequest):
            self._put(ReplyJob(request, reply, is_cancelled))
            return

        def put(made: Future[TokenisedRequest]) -> None:
            """Queue the request, or report its failure at once if it could not be tokenised."""
            if error := made.exception():
                self._end(ReplyJob(TokenisedRequest(request), reply, is_cancelled), app_error(error))
            else:
                self._put(ReplyJob(made.result(), reply, is_cancelled))

        self.tokenise(request).add_done_callback(put)

    def tokenise(self, request: Request) -> Future[TokenisedRequest]:
        """Tokenise on another thread if the model is loaded, else leave it to the worker. `result()` raises
        AppError."""
        tokenizer = self._session.tokenizer_for(request.model) if self._session else None
        return self._tokenising.tokenise(request, tokenizer.tokens if tokenizer else None)

    def load(self, choice: ModelChoice, ended: OnLoaded = lambda _is_loaded: None) -> None:
        """Queue the loading of a model, so that the first request need not wait. `status` and `ended` report the
        result."""
        self._put(LoadJob(choice, ended, self._is_cancelled))

    def unload(self) -> None:
        """Queue the unloading of the model. The next request loads its model again."""
        self._put(UnloadJob())

    def cancel_load(self) -> None:
        """Cancel the running load at its next report of progress, the queued loads, and the loads that queued
        requests would begin."""
        is_cancelled, self._is_cancelled = self._is_cancelled, threading.Event()
        is_cancelled.set()
        # Libraries that are being imported ("starting") cannot be interrupted, but the cancel is shown at once.
        if self._status.phase in ("starting", "loading"):
            self._status = EngineStatus(self._status.phase, "Cancelling")

    def margin(self, request: Request, written: Sequence[int]) -> Future[Margin]:
        """Queue a job that finds how sure the model is of the next token of a reply that begins with `written`.

        The result has the two likeliest tokens and the difference of their logits. `result()` raises AppError.
        Until there is a result, the job can be cancelled, which also ends its work."""
        answer: Future[Margin] = Future()
        self._put(MarginJob(request, tuple(written), answer))
        return answer

    def embed(
        self, model: ModelFolder, texts: Sequence[EmbeddedText], on_tokens: OnTokens = ignore_tokens
    ) -> Future[Vectors]:
        """Queue the embedding of texts by a sentence-embedding model. More urgent jobs are done first.

        The result is float32[texts, width], each row of length one; `result()` raises AppError. The job
        can be cancelled until its work has begun."""
        job = EmbeddingJob(model, texts, on_tokens)
        self._put(job, may_wait=True)
        return job.answer

    def check_grammar(self, grammar: Grammar) -> None:
        """Raise GrammarRefused for a grammar that cannot be used. The caller waits for the sandbox, the worker
        does not."""
        self._sandbox.check_grammar(grammar)

    def chat_format(self, template: str) -> ChatFormat:
        """Return the format of any model's chat template. The caller waits for the sandbox."""
        return self._formats(template)

    def status(self) -> EngineStatus:
        return self._status

    def reader(self) -> CachedTokenReader:
        """Return the reader of the loaded model's tokens; an empty reader if no model is loaded."""
        session = self._session
        return session.reader if session else CachedTokenReader()

    def stop(self) -> None:
        """Let the thread stop the running reply and fail queued jobs; refuse new jobs. Does not wait. Safe to
        repeat."""
        with self._lock:
            self._is_closing.set()
            self._queue.put(Shutdown())
        self._tokenising.close()
        self._sandbox.close()

    def close(self, timeout: float = 30.0) -> None:
        """Stop the engine and wait at most `timeout` seconds for the thread to end. Safe to repeat."""
        self.stop()
        self._thread.join(timeout)
        if self._thread.is_alive():
            log.info("the engine did not end within %s seconds", timeout)

    def _put(self, job: AnyJob, may_wait: bool = False) -> None:
        """Queue a job, or report its failure at once if the engine is closing, because a job after the Shutdown
        would be lost."""
        with self._lock:
            is_open = not self._is_closing.is_set()
            if is_open:
                self._queue.put(job, may_wait)
        if not is_open:
            self._end(job, EngineClosed(CLOSING))

    def _work(self) -> None:
        def ask_more() -> float:
            return self._session.ask_more() if self._session else 0.0

        while not isinstance(job := self._queue.get_or_work(ask_more), Shutdown):
            if self._is_closing.is_set():
                self._end(job, EngineClosed(CLOSING))
            else:
                self._run(job)
        for job in self._queue.drain():  # jobs that may wait come after the Shutdown
            if not isinstance(job, Shutdown):
                self._end(job, EngineClosed(CLOSING))
        if self._session and self._plan is not ALONE:
            self._session.close()  # also ends the processes of the other ranks
        self._status = EngineStatus("closed")

    def _run(self, job: AnyJob) -> None:
        """Run a job; report its error to the caller instead of ending the thread."""
        try:
            session = self._session = self._session or self._start(job)
        except Exception as error:
            self._end(job, self._startup_error(error))
            return
        try:
            with panics_as_errors():
                self._dispatch(session, job)
        except Exception as error:
            failure = app_error(error)
            # If a model is still loaded, only this job has failed, unless the device is lost.
            is_cancelled = isinstance(error, LoadCancelled)
            is_usable = is_cancelled or (session.info and not is_device_fault(error))
            self._status = self._ready(session) if is_usable else EngineStatus("failed", str(failure))
            self._end(job, failure)

    def _end(self, job: AnyJob, error: AppError) -> None:
        """Report a job's failure to its caller; log it if that fails, too."""
        try:
            fail_job(job, error)
        except Exception:
            log.exception("the failure of a job could not be reported")

    def _start(self, job: AnyJob) -> "Session":
        is_chat = isinstance(job, ReplyJob) and job.asked.request.is_chat
        if is_chat or isinstance(job, LoadJob):
            self._sandbox.start()  # the sandbox imports its libraries while this thread imports torch
        taken = resident_bytes()
        if address_space_left() < LEAST_ADDRESS_SPACE:
            raise MemoryError
        given = self._locate, self._cache_dir, taken, self._sandbox, self._plan, self._device
        return import_session()(*given, estimate=self._estimate)

    def _startup_error(self, error: Exception) -> AppError:
        """Return the error of an engine that cannot start, and show it. The first error is kept, because a
        half-imported library raises another error at the next attempt."""
        if self._startup_failure is None:
            if is_out_of_memory(error):
                self._startup_failure = ModelTooLarge(
                    "There is not enough memory to start the engine: close other programs, then start Foresight "
                    "again."
                )
            else:
                log.exception("the engine could not start", exc_info=error)
                self._startup_failure = AppError(
                    f"The engine could not start ({first_line(error)}): install Foresight again as in its README."
                )
            self._status = EngineStatus("failed", str(self._startup_failure))
        return self._startup_failure

    def _dispatch(self, session: "Session", job: AnyJob) -> None:
        match job:
            case LoadJob():
                self._open(session, job)
            case UnloadJob():
                session.close()
                self._status = EngineStatus("ready", UNLOADED)
            case ReplyJob():
                self._answer(session, job)
            case MarginJob():
                self._answer_margin(session, job)
            case EmbeddingJob():
                self._embed(session, job)

    def _open(self, session: "Session", job: LoadJob) -> None:
        """Load a model, then call the job's `ended`. An error of either is shown in the status."""
        problem = ""
        try:
            session.open(job.choice, self._progress(self._check_closing, job.is_cancelled))
        except Exception as error:
            problem = sentence_of(error)
        self._status = self._ready(session, problem)  # before `ended`, which may read it
        try:
            job.ended(not problem)
        except Exception as error:
            self._status = self._ready(session, problem or sentence_of(error))

    def _ready(self, session: "Session", problem: str = "") -> EngineStatus:
        """Return the status after a job. If a model is loaded, the problem is only a note. Without a model,
        any problem but a cancelled load is a failure."""
        if (info := session.info) is None:
            is_unloaded = problem in ("", CANCELLED)
            return EngineStatus("ready", UNLOADED) if is_unloaded else EngineStatus("failed", problem)
        return EngineStatus("ready", problem and f"{problem} {info.name} stays loaded.", info, session.peak)

    def _answer(self, session: "Session", job: ReplyJob) -> None:
        asked, reply = job.asked, job.reply

        def is_stopping() -> bool:
            return reply.is_stopping or self._is_closing.is_set()

        def loading(event: Loading) -> None:
            if is_stopping():
                raise EngineClosed("Stopped while the model was loading. Send the message again.")
            reply.append(event)

        peak = session.peak  # read again only at the end, because reading it takes a system call
        for event in session.events(
            asked.request, self._progress(loading, job.is_cancelled), is_stopping, asked.tokens
        ):
            # Set once, because setting it for each event would slow every step.
            if self._status.phase != "busy":
                self._status = EngineStatus("busy", model=session.info, peak=peak)
            reply.append(event)
        self._status = self._ready(session)

    def _answer_margin(self, session: "Session", job: MarginJob) -> None:
        if job.answer.cancelled():
            return
        self._status = EngineStatus("busy", model=session.info)
        progress = self._progress(self._check_closing, self._is_cancelled)
        for found in session.margin(job.request, job.written, progress):
            self._check_closing()
            if job.answer.cancelled():
                break
            if isinstance(found, Margin) and job.answer.set_running_or_notify_cancel():
                job.answer.set_result(found)
        self._status = self._ready(session)

    def _embed(self, session: "Session", job: EmbeddingJob) -> None:
        """Embed a piece of the texts, and queue the job again for the rest. A failure ends only this job."""
        if not job.is_wanted:
            return
        try:
            session.embed(job)
        except Exception as error:
            self._end(job, app_error(error))
            return
        if not job.is_done:
            self._queue.put(job, may_wait=True)
        elif self._status.phase == "starting":
            self._status = EngineStatus("ready", UNLOADED)

    def _progress(self, listen: Callable[[Loading], None], is_cancelled: threading.Event) -> Progress:
        def progress(what: str, done: int, total: int) -> None:
            if is_cancelled.is_set():
                raise LoadCancelled(CANCELLED)
            percent = f" ({done * 100 // total}%)" if total else ""
            self._status = EngineStatus("loading", what + percent)
            listen(Loading(what, done, total))

        return progress

    def _check_closing(self, _loading: Loading | None = None) -> None:
        if self._is_closing.is_set():
            raise EngineClosed("Foresight is closing.")
