"""The event handlers of the Models view."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import gradio as gr

from app.errors import AppError
from app.ui.frame.event_handlers import Actions, Notify, submit_box, toast, try_at_box
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.models.discover import TEMPLATE, Filters, SearchResults, Size, Task, results_html
from app.ui.models.inventory import InventoryCache, load_name
from app.ui.models.load_dialog import LoadActions, LoadDialog, form_values
from app.ui.models.render import installed_or_downloading
from app.values.messages import ModelChoice
from app.values.model import USUAL_CONTEXT, Download, gigabytes

NO_QUESTION = ""


class ModelsActions(Actions):
    def __init__(self, services: Services, inventory: InventoryCache, notify: Notify = toast) -> None:
        super().__init__(services, notify)
        self._inventory = inventory
        self._loading = LoadActions(services, inventory)
        downloads = services.models.downloads
        self._handlers: dict[str, Callable[[str, str], object]] = {
            "download": lambda name, _: downloads.start(name),
            "download-file": self._download_file,
            "pause": lambda name, _: downloads.pause(name),
            "resume": lambda name, _: downloads.resume(name),
            "dismiss": lambda name, _: downloads.dismiss(name),
            "cancel": self._cancel,
            "cancel-now": lambda name, _: downloads.cancel(name),
            "delete": self._confirm_delete,
            "delete-now": self._delete,
            "load": self._load_installed,
            "choose": lambda _, value: self._load(ModelChoice(*json.loads(value))),
            "load-now": self._stop_and_load,
            "unload": lambda *_: _dialog("unload_dialog") if self._is_busy else services.engine.unload(),
            "unload-now": self._stop_and_unload,
            "forget-folder": self._remove_folder,
            "renew": lambda *_: self._inventory.refresh(),
            "list-server": lambda address, _: services.servers.add(address, ""),
            "remove-server": self._remove_server,
        }
        """The handlers of buttons, by action. A string that a handler returns is a question for the user."""

    @property
    def _is_busy(self) -> bool:
        return self._services.conversations.is_busy

    def open(self) -> None:
        """Look up the models again, because the view was opened or what it lists has changed."""
        self._try(self._inventory.refresh)

    def click(self, results: SearchResults, dialog: LoadDialog, event: gr.EventData) -> tuple[Any, ...]:
        """Handle a button of a list; returns the search results, their HTML, and the question to answer first."""
        do, name, value = pressed(event)
        if do == "inspect":
            return *self._shown(self._inspect(results, name)), NO_QUESTION
        if do == "clear":
            return *self._shown(SearchResults()), NO_QUESTION
        if do in ("ask-load", "load-download"):
            # `name` is the path of an installed model, or the name of a finished download.
            finished = self._download(name)
            path = name if do == "ask-load" else str(finished and finished.folder)
            self._try(lambda: self._loading.open(dialog, self._inventory.find(path)))
            return *self._shown(results), NO_QUESTION
        question = self._try(lambda: self._handlers[do](name, value)) if do in self._handlers else None
        return *self._shown(results), question if isinstance(question, str) else NO_QUESTION

    def search(self, text: str) -> Iterator[tuple[Any, ...]]:
        """Search for models. For a model id or the URL of its page, inspects this model instead."""
        text = text.strip()
        if not text:
            yield SearchResults(), ""
            return
        yield gr.skip(), render_macro(TEMPLATE, "searching", text=text)
        name = self._services.models.hub_id(text)
        yield self._shown(self._inspect(SearchResults(name), name) if name else self._search(text))

    def open_path(self, dialog: LoadDialog, path: str) -> str:
        """Open the Load dialog for the model in this folder or GGUF file. Returns what is wrong with the path."""
        open_model = self._services.models.open_path
        return try_at_box("path", lambda: self._loading.open(dialog, open_model(path)))[1]

    def filter(self, filters: Filters, size: Size, task: Task) -> None:
        """Show only models of this size and task in the catalogue."""
        filters.size, filters.task = size, task

    def set_offline(self, is_offline: bool) -> None:
        """Prevent or allow requests to the hub, and to servers on other machines."""
        library = replace(self._services.settings.library, is_offline=is_offline)
        self._try(lambda: self._services.choose_library(library))
        self.open()

    def add_folder(self, folder: str) -> tuple[str, str]:
        """Add a folder whose models are listed. Clears the box, or returns what is wrong with the folder."""
        folder, folders = folder.strip(), self._services.settings.library.folders

        def add() -> None:
            if not Path(folder).expanduser().is_dir() or not folder:
                raise AppError("There is no such folder. Type its whole path.")
            self._list_folders((*folders, folder))

        return submit_box("folder", folder, add)

    def add_server(self, address: str, key: str) -> tuple[str, str, str]:
        """Add a server and list its models. Clears the boxes if the server answers."""
        is_added, faults = try_at_box("server-address", lambda: self._services.servers.add(address, key))
        return ("", "", faults) if is_added else (address, key, faults)

    def log_in(self, token: str) -> tuple[str, str]:
        """Save an access token. Clears the box if the hub accepts it."""

        def log_in() -> None:
            self._services.models.hub.log_in(token)
            self.open()

        return submit_box("token", token, log_in)

    def log_out(self) -> None:
        """Delete the hub's access token from this machine."""
        self._try(self._services.models.hub.log_out)
        self.open()

    def _shown(self, results: SearchResults) -> tuple[SearchResults, str]:
        inventory = self._inventory.get()
        known = installed_or_downloading(inventory, self._services.models.downloads.snapshot())
        return results, results_html(results, known, inventory.disk.free if inventory else 0)

    def _search(self, text: str) -> SearchResults:
        inventory = self._inventory.get()
        offers = inventory.recommended if inventory else ()
        recommended = tuple(one for one in offers if one.entry.matches(text))
        try:
            return SearchResults(text, recommended, tuple(self._services.models.search(text)))
        except AppError as error:
            return SearchResults(text, recommended, problem=str(error))

    def _inspect(self, results: SearchResults, name: str) -> SearchResults:
        models, inventory = self._services.models, self._inventory
        found = inventory.get()
        try:
            memory = found.memory if found else models.memory("")
            model = models.inspect_model(name, memory.usual, inventory.precision, USUAL_CONTEXT)
            return replace(
                results,
                inspected=((model, models.hub.page(model.repo.partition(":")[0])), *results.inspected),
                problem="",
            )
        except AppError as error:
            return replace(results, problem=str(error))

    def _load(self, choice: ModelChoice) -> str | None:
        if self._is_busy:
            value, name = json.dumps(astuple(choice)), choice.name.partition("@")[0]
            return _dialog("switch_dialog", name=name, choice=choice, value=value)
        self._services.choose_model(choice)
        return None

    def _load_installed(self, path: str, _value: str) -> str | None:
        """Load a model with the options with which it was last loaded."""
        return self._load(self._services.settings.choice_of(load_name(self._inventory.find(path))))

    def _stop_and_load(self, _name: str, value: str) -> None:
        self._services.conversations.stop_all()
        self._services.choose_model(ModelChoice(*json.loads(value)))

    def _stop_and_unload(self, _name: str, _value: str) -> None:
        self._services.conversations.stop_all()
        self._services.engine.unload()

    def _cancel(self, name: str, _value: str) -> str | None:
        download = self._download(name)
        if download and download.done:
            return _dialog("cancel_dialog", download=download, done=gigabytes(download.done))
        self._services.models.downloads.cancel(name)
        return None

    def _confirm_delete(self, path: str, _value: str) -> str:
        model = self._inventory.find(path)
        if load_name(model) == self._services.model.name and self._is_busy:
            raise AppError(f"{model.name} is writing a reply. Wait until it has finished, or stop it.")
        frees = gigabytes(self._services.models.freed_by(model))
        return _dialog("delete_dialog", model=model, frees=frees)

    def _delete(self, path: str, _value: str) -> None:
        self._services.models.delete(self._inventory.find(path))
        self._inventory.refresh()

    def _remove_folder(self, folder: str, _value: str) -> None:
        before = self._services.settings.library.folders
        rest = tuple(one for one in before if one != folder)
        self._services.deletions.delete(
            f"{folder} was removed from the list. Its files are still there.",
            lambda: self._list_folders(rest),
            lambda: self._list_folders((*before, *self._services.settings.library.folders)),
        )

    def _list_folders(self, folders: Sequence[str]) -> None:
        """Save these as the folders whose models are listed, without duplicates, and look up all models."""
        library = replace(self._services.settings.library, folders=tuple(dict.fromkeys(folders)))
        self._services.choose_library(library)
        self._inventory.refresh()

    def _remove_server(self, address: str, _value: str) -> None:
        """Forget a server. If its model is in use, load the local model that was used last."""
        services, chosen = self._services, self._services.model
        before = services.servers.servers()

        def remove() -> None:
            services.servers.remove(address)
            if chosen.server == address:
                services.choose_model(services.settings.local_model)

        def restore() -> None:
            services.servers.restore(before)
            if chosen.server == address:
                services.choose_model(chosen)

        services.deletions.delete(f"{address} was removed.", remove, restore)

    def _download_file(self, repo: str, value: str) -> None:
        self._services.models.downloads.start(f"{repo}:{form_values(value).get('file', '')}")

    def _download(self, name: str) -> Download | None:
        return next((one for one in self._services.models.downloads.snapshot() if one.name == name), None)


def _dialog(macro: str, **values: Any) -> str:
    return render_macro("models.html", macro, **values)
