"""What events of the models' view do. They translate between the page and the services, and nothing else."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from app.errors import AppError, impossible_values
from app.messages import ModelChoice
from app.ui.error_handling import Notify, try_or_notify
from app.ui.models import questions
from app.ui.models.catalogue_list import matching
from app.ui.models.deeds import Deeds
from app.ui.models.result_list import Found, results_html, waiting_html
from app.ui.models.stock import Kept, Shelf, Wish
from app.ui.models.watching import known
from app.ui.services import Services


class ModelActions:
    """The events of the models' view."""

    def __init__(self, services: Services, shelf: Shelf, notify: Notify) -> None:
        self._services = services
        self._shelf = shelf
        self._notify = notify
        self._deeds = Deeds(services, shelf)

    def open(self) -> None:
        """Look at what there is now."""
        self._try(self._shelf.refresh)

    def act(self, found: Found, event: gr.EventData) -> tuple[Any, ...]:
        """Do what a button in a list says: the new result of the search, and a question if there is one."""
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        if do == "look":
            return *self._shown(self._look_at(found, name)), questions.NOTHING
        if do == "clear":
            return *self._shown(Found()), questions.NOTHING
        question = self._try(lambda: self._deeds.do(do, name, value))
        return *self._shown(found), question or questions.NOTHING

    def search(self, text: str) -> Iterator[tuple[Any, ...]]:
        """Look for models; an id or a page's address is looked at itself."""
        text = text.strip()
        if not text:
            yield Found(), ""
            return
        yield gr.skip(), waiting_html(text)
        name = self._services.models.hub_id(text)
        found = self._look_at(Found(words=name), name) if name else self._search(text)
        yield self._shown(found)

    def judge(self, kept: Kept, context: str) -> None:
        """Judge all models for how weights are kept and how long a chat may get."""

        def judge() -> None:
            with impossible_values():
                wish = Wish(kept, int(context.replace(",", "")))
            self._shelf.judge_for(wish)

        self._try(judge)

    def switch_off(self, is_offline: bool) -> None:
        """Make no request to the hub, or allow it again."""
        self._choose(lambda: replace(self._services.settings.library, is_offline=is_offline))

    def add_folder(self, folder: str) -> str:
        """Have the models of this folder listed, where they lie."""
        folders = self._services.settings.library.folders
        if folder.strip() and folder.strip() not in folders:
            now = (*folders, folder.strip())
            self._choose(lambda: replace(self._services.settings.library, folders=now))
        return ""

    def log_in(self, token: str) -> str:
        """Keep a token of the hub; the box is emptied once it is kept."""
        if self._try(lambda: self._services.models.log_in(token)) is None:
            return token
        self.open()
        return ""

    def log_out(self) -> None:
        """Forget the token."""
        self._try(self._services.models.log_out)
        self.open()

    def ask_or_load(self, choice: ModelChoice) -> str:
        """Load the model of the boxes beside the chat; the answer is the question to be asked first, or nothing."""
        return self._try(lambda: self._deeds.ask_or_load(choice)) or questions.NOTHING

    def _shown(self, found: Found) -> tuple[Found, str]:
        """A result as it is kept, and as it is shown."""
        return found, results_html(found, known(self._shelf.look(), self._services.models.downloads()))

    def _search(self, words: str) -> Found:
        stock = self._shelf.look()
        recommended = tuple(matching(stock, words)) if stock else ()
        try:
            return Found(words, recommended, tuple(self._services.models.search(words)))
        except AppError as error:
            return Found(words, recommended, problem=str(error))

    def _look_at(self, found: Found, name: str) -> Found:
        models, wish = self._services.models, self._shelf.wish
        stock = self._shelf.look()
        try:
            memory = stock.memory if stock else models.memory("")
            looked = models.look_at(name, memory, self._shelf.precision, wish.context)
            return replace(found, looked_at=((looked, models.page(name)), *found.looked_at), problem="")
        except AppError as error:
            return replace(found, problem=str(error))

    def _choose(self, library: Callable[[], Any]) -> None:
        def choose() -> None:
            try:
                self._services.choose_library(library())
            finally:
                self._shelf.refresh()

        self._try(choose)

    def _try(self, do: Callable[[], Any]) -> Any:
        """What it returns, or None when it failed, which is said."""
        return try_or_notify(self._notify, do, None)
