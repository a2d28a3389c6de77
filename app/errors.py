"""All errors that the user sees. Their messages are sentences that say what happened and what to do.

Domain code raises these; the UI and the command line show `str(error)`. A thread that must continue after an error
catches it and keeps its sentence.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class AppError(Exception):
    """An error whose message is shown to the user: one or two sentences that end with what to do."""


class BadOption(AppError):
    """An argument or a setting has an impossible value."""


class GrammarRefused(BadOption):
    """The grammar that a reply has to match cannot be used."""


class AttentionUnavailable(BadOption):
    """The chosen attention backend cannot be used on this machine or with this model."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"The attention backend {name} cannot be used here: {reason}. Choose auto.")


class RankLost(AppError):
    """A process that computes a share of each step has ended."""


class SettingsNotSaved(AppError):
    """The settings or the API's key could not be saved. An earlier file is unchanged."""


class SettingsNotRead(AppError):
    """The settings file exists and cannot be opened. The file is not changed."""


class DataFolderRefused(AppError):
    """The folder contains files that the app has not written, or cannot be used as a data folder."""


class DataFolderInUse(AppError):
    """Another Foresight process already uses this data folder."""


class ProcessNotStarted(AppError):
    """The system could not start a child process."""


class WindowUnavailable(AppError):
    """The native window cannot be opened."""


class MenuNotWritten(AppError):
    """The entry in the application menu could not be written or removed."""


class NoFreePort(AppError):
    """None of the ports that were tried could be bound."""


class StoreError(AppError):
    """The database of chats and documents failed. What was saved before is kept."""


class StoreFull(StoreError):
    """The disk is full or does not accept writes."""


class StoreNotUsable(StoreError):
    """The file cannot be opened or written, or another program has locked it."""


class StoreTooNew(StoreError):
    """A newer version of the app has migrated the file."""


class StoreUnsupported(StoreError):
    """This Python's SQLite lacks a feature that the file needs."""


class StoreBroken(StoreError):
    """Part of the file is damaged."""


class StaleChat(AppError):
    """The chat has changed since the page was drawn."""

    def __init__(self) -> None:
        super().__init__(
            "This chat was changed in another window, so nothing was sent. Check what is new, then try again."
        )


class ChatNotFound(AppError):
    """The chat, or the message, has been deleted."""

    def __init__(self, what: str = "chat") -> None:
        super().__init__(f"This {what} is no longer there. Choose another one from the list.")


class ImportBroken(AppError):
    """The file is not an export of chats."""


class NotUploaded(AppError):
    """The page named a file that was not uploaded."""

    def __init__(self) -> None:
        super().__init__("This file was not uploaded. Choose it again.")


class DocumentError(AppError):
    """A document cannot be read, found or used."""


class DocumentUnreadable(DocumentError):
    """A file is damaged, encrypted, too large, or has no text in it."""


class DocumentNotFound(DocumentError):
    """The document, or the collection, has been deleted."""


class ModelError(AppError):
    """A model cannot be found, downloaded, loaded or used."""


class ModelNotFound(ModelError):
    """There is no such folder, or no such model on the hub."""


class ModelGated(ModelError):
    """The hub requires a login and accepted terms for this model."""


class DiskFull(ModelError):
    """The disk has not enough space for the model."""


class ModelUnsafe(ModelError):
    """The weights exist only as pickle files, which can run code when they are opened."""


class ModelBroken(ModelError):
    """Files of the model are missing, incomplete or do not match."""


class OnlyDrafts(ModelError):
    """The chosen model is a draft head, which can only draft for another model."""


class ModelTooLarge(ModelError):
    """Memory ran out while the model was loading or decoding."""


class NetworkSettingsUnusable(ModelError):
    """The shell names a proxy or certificates with which no connection can be opened."""


class ServerError(ModelError):
    """A server cannot be reached, or does not answer as an OpenAI-compatible server does."""


class PromptTooLong(AppError):
    """The prompt leaves no room for a reply in the model's context."""

    def __init__(self, tokens: int, context: int, is_least: bool = False) -> None:
        counted = f"at least {tokens:,}" if is_least else f"{tokens:,}"
        super().__init__(
            f"The prompt has {counted} tokens and the model's context holds {context:,}. "
            "Shorten it, start a new chat, or choose a model with a longer context."
        )


class ToolFailed(AppError):
    """A tool or its server gave no result. The sentence is for the user, and for the model that called it."""


class ArgumentsRefused(ToolFailed):
    """The arguments of a call do not match the tool's schema."""


class RaceRefused(AppError):
    """A race cannot start: the engine is busy, or the chosen model is not on this machine."""


class ReplyFailed(AppError):
    """The engine failed a reply that a race or a command waits for. The message is the engine's."""


class LoadCancelled(AppError):
    """The user has cancelled the loading of a model."""


class EngineClosed(AppError):
    """The app is closing and accepts no more requests."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def impossible_values() -> Iterator[None]:
    """Raise BadOption, with the message as a sentence, if the block raises ValueError."""
    try:
        yield
    except ValueError as error:
        words = str(error)
        raise BadOption(words[:1].upper() + words[1:].rstrip(".") + ".") from error
