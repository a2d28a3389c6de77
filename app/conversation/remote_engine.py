"""Passes requests to this machine's engine, or to the server that runs the model.

A request names the server of its model, if there is one. Choosing a server's model unloads the local model.
"""

import threading
from collections.abc import Callable
from functools import partial

from app.conversation.engine_protocol import ModelEngine
from app.engine.text.token_counter import CachedTokenReader
from app.remote import Servers
from app.values.logits import Grammar
from app.values.messages import EngineStatus, EventSink, ModelChoice, Request
from app.values.server import remote_info

OnLoaded = Callable[[bool], None]
NO_READER = CachedTokenReader()
"""The reader for a server's model. It counts no tokens, because the tokenizer is not known here."""


class EngineWithServers:
    """The local engine and the servers as one engine.

    All methods except `check_grammar` return at once; any thread may call them."""

    def __init__(self, local: ModelEngine, servers: Servers) -> None:
        self._local = local
        self._servers = servers
        self._lock = threading.Lock()
        self._wanted: ModelChoice | None = None
        """The model chosen last. When a local model fails to load, a `_remote` model becomes this choice again."""
        self._remote: ModelChoice | None = None
        """The server's model that was chosen last; None once a local model is loaded."""
        self._note = ""

    def submit(self, request: Request, reply: EventSink) -> None:
        """Pass the request to the engine that has its model: the local engine or a server."""
        (self._servers if request.model.server else self._local).submit(request, reply)

    def check_grammar(self, grammar: Grammar) -> None:
        """Have the local engine check a grammar. Does nothing for a server's model, because the server checks
        grammars."""
        if not self._remote:
            self._local.check_grammar(grammar)

    def reader(self) -> CachedTokenReader:
        """Return the reader of the loaded model; an empty reader while a server's model is chosen."""
        return NO_READER if self._remote else self._local.reader()

    def load(self, choice: ModelChoice, ended: OnLoaded = lambda _is_loaded: None) -> None:
        """Load a local model, or choose a server's model and unload the local model. The server is not
        contacted."""
        with self._lock:
            self._wanted, self._note = choice, ""
            if choice.server:
                self._remote = choice
        if not choice.server:
            self._local.load(choice, partial(self._loaded, choice, ended))
            return
        self._local.unload()  # queued, so a model that is being loaded is unloaded once its loading ends
        ended(True)

    def cancel_load(self) -> None:
        self._local.cancel_load()

    def unload(self) -> None:
        """Unload the local model. If a server's model is chosen, it stays chosen."""
        self._local.unload()

    def status(self) -> EngineStatus:
        """Return the local engine's status, or the status "ready" if the model chosen last is a server's."""
        with self._lock:
            if self._remote is None or self._remote is not self._wanted:
                return self._local.status()
            return EngineStatus("ready", self._note, remote_info(self._remote))

    def _loaded(self, choice: ModelChoice, ended: OnLoaded, is_loaded: bool) -> None:
        """Record that a local model was loaded or failed to load. A server's model chosen meanwhile stays."""
        with self._lock:
            is_late = self._wanted is not None and bool(self._wanted.server)
            if is_loaded and not is_late:
                self._remote = None
            elif self._remote and self._wanted is choice:
                self._wanted = self._remote
                self._note = f"{self._local.status().note} {self._remote.name} stays chosen."
        ended(is_loaded and not is_late)
