"""The engine that a page asks: this machine's own, and beside it the servers that run other models.

A request says where its model runs. The local engine has its thread and its queue; a request to a server has a
thread of its own. Choosing a model of a server unloads the local one, since its memory is not needed.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from app.conversation.engine_protocol import ReplyEngine, TokenReader
from app.conversation.reply import Reply
from app.engine.reader import CachedTokenReader
from app.messages import EngineStatus, ModelChoice, Request
from app.remote import Servers
from app.server_messages import remote_info

OnLoaded = Callable[[bool], None]
NO_READER = CachedTokenReader()
"""A server's tokenizer is not known here: nothing is counted."""


class LocalEngine(ReplyEngine, Protocol):
    """`app.engine.Engine`, or a fake in tests."""

    def load(self, choice: ModelChoice, ended: OnLoaded) -> None:
        """Queue the loading of a model."""

    def unload(self) -> None:
        """Queue unloading the model."""

    def status(self) -> EngineStatus:
        """What the worker does now."""


class EngineWithServers:
    """All methods return at once and may be called from any thread."""

    def __init__(self, local: LocalEngine, servers: Servers) -> None:
        self._local = local
        self._servers = servers
        self._lock = threading.Lock()
        self._remote: ModelChoice | None = None
        """The model of a server that was chosen last, until one is loaded here."""
        self._loading: ModelChoice | None = None
        self._note = ""

    def submit(self, request: Request, reply: Reply) -> None:
        """Have a reply written where its model runs."""
        (self._servers if request.model.server else self._local).submit(request, reply)

    def reader(self) -> TokenReader:
        """The loaded model's tokenizer; an empty one while a server's model is chosen."""
        return NO_READER if self._remote else self._local.reader()

    def load(self, choice: ModelChoice, ended: OnLoaded = lambda _is_loaded: None) -> None:
        """Load a model here, or choose one of a server. The server is not asked yet."""
        with self._lock:
            self._note = ""
            if not choice.server:
                self._loading = choice
            else:
                self._loading, self._remote = None, choice
        if not choice.server:
            self._local.load(choice, partial(self._loaded, choice, ended))
            return
        if self._local.status().model:
            self._local.unload()
        ended(True)

    def unload(self) -> None:
        """Unload the local model."""
        self._local.unload()

    def status(self) -> EngineStatus:
        """What the local engine does, or which model of a server is chosen."""
        chosen = self._remote
        if chosen is None or self._loading:
            return self._local.status()
        return EngineStatus("ready", self._note, remote_info(chosen))

    def _loaded(self, choice: ModelChoice, ended: OnLoaded, is_loaded: bool) -> None:
        """A local model was loaded, or could not be. Where a server's was chosen meanwhile, that one stays."""
        with self._lock:
            chosen, is_wanted = self._remote, self._remote is None or self._loading is choice
            if self._loading is choice:
                self._loading = None
            if is_wanted and is_loaded:
                self._remote = None
            elif is_wanted and chosen:
                self._note = f"{self._local.status().note} {chosen.name} stays chosen."
        ended(is_loaded and is_wanted)
        if is_loaded and not is_wanted:
            self._local.unload()
