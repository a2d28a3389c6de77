"""What the buttons in the lists of models do, by the word that each carries."""

from collections.abc import Callable
from dataclasses import replace

from app.errors import AppError
from app.messages import ModelChoice
from app.model_messages import Download, InstalledModel
from app.ui.models import questions
from app.ui.models.stock import Shelf, name_to_load, to_load
from app.ui.services import Services


class Deeds:
    """What a button does. Each action returns the question to ask first, or nothing once it is done."""

    def __init__(self, services: Services, shelf: Shelf) -> None:
        self._services = services
        self._shelf = shelf
        models = services.models
        self._plain: dict[str, Callable[[str], None]] = {
            "download": models.start,
            "pause": models.pause,
            "resume": models.resume,
            "dismiss": models.dismiss,
            "cancel-now": models.cancel,
            "delete-now": self._delete,
            "unload-now": self._unload,
            "forget-folder": self._forget_folder,
        }
        self._asking: dict[str, Callable[[str, str], str]] = {
            "cancel": self._ask_or_cancel,
            "delete": self._ask_to_delete,
            "load": self._load_installed,
            "load-download": self._load_download,
            "load-now": self._stop_and_load,
            "unload": self._ask_or_unload,
        }

    def do(self, word: str, name: str, value: str) -> str:
        """Do it. Raises AppError when it cannot be done."""
        if word in self._plain:
            self._plain[word](name)
        if word in self._asking:
            return self._asking[word](name, value)
        return questions.NOTHING

    def ask_or_load(self, choice: ModelChoice) -> str:
        """Load a model; while a reply is written, ask whether to stop it."""
        if self._services.is_busy:
            return questions.about_switching(choice)
        self._services.choose_model(choice)
        return questions.NOTHING

    def _load_installed(self, path: str, kept: str) -> str:
        return self.ask_or_load(to_load(self._installed(path), kept, self._services.settings.model))

    def _load_download(self, name: str, _value: str) -> str:
        done = self._download(name)
        return self._load_installed(str(done and done.folder), self._shelf.wish.kept)

    def _stop_and_load(self, _name: str, value: str) -> str:
        self._services.stop()
        self._services.choose_model(questions.chosen_in(value))
        return questions.NOTHING

    def _ask_or_unload(self, _name: str, _value: str) -> str:
        if self._services.is_busy:
            return questions.about_unloading()
        self._services.engine.unload()
        return questions.NOTHING

    def _unload(self, _name: str) -> None:
        self._services.stop()
        self._services.engine.unload()

    def _ask_or_cancel(self, name: str, _value: str) -> str:
        download = self._download(name)
        if download and download.done:
            return questions.about_cancelling(download)
        self._services.models.cancel(name)
        return questions.NOTHING

    def _ask_to_delete(self, path: str, _value: str) -> str:
        model = self._installed(path)
        if name_to_load(model) == self._services.model.name and self._services.is_busy:
            raise AppError(f"{model.name} writes a reply now: wait for its end, or stop it first.")
        return questions.about_deleting(model, self._services.models.freed_by(model))

    def _delete(self, path: str) -> None:
        self._services.models.delete(self._installed(path))
        self._shelf.refresh()

    def _forget_folder(self, folder: str) -> None:
        library = self._services.settings.library
        rest = tuple(one for one in library.folders if one != folder)
        self._services.choose_library(replace(library, folders=rest))
        self._shelf.refresh()

    def _download(self, name: str) -> Download | None:
        return next((one for one in self._services.models.downloads() if one.name == name), None)

    def _installed(self, path: str) -> InstalledModel:
        self._shelf.look()
        model = self._shelf.find(path)
        if model is None:
            raise AppError("This model is no longer there: open Models again.")
        return model
