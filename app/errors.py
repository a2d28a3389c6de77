"""Errors that are shown to the user. Their messages are sentences that say what happened and, usually, what to do.

The UI and the command line show `str(error)`. A few modules have further subclasses of AppError for their own use.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class AppError(Exception):
    """An error whose message is shown to the user: sentences that usually end with what to do."""


class BadOption(AppError):
    """An argument or a setting cannot be used."""


class GrammarRefused(BadOption):
    """The grammar that a reply has to match cannot be used."""


class AttentionUnavailable(BadOption):
    """The chosen attention backend cannot be used on this machine or with this model."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"The attention backend {name} cannot be used here: {reason}. Choose auto.")


class RankLost(AppError):
    """A process that computes a share of each step has ended."""


class SettingsNotSaved(AppError):
    """The settings or another small file cannot be saved. Also raised for an unusable data folder or API key."""


class SettingsNotRead(AppError):
    """The settings file exists, but cannot be opened. The file is not changed."""


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
    """The database of chats and documents, or a backup of it, failed."""


class StoreFull(StoreError):
    """The disk is full or does not accept writes."""


class StoreNotUsable(StoreError):
    """A database or a backup is missing, locked or not readable, or cannot be written."""


class StoreTooNew(StoreError):
    """A newer version of the app has migrated the database."""


class StoreUnsupported(StoreError):
    """This Python's SQLite lacks a feature that the database needs."""


class StoreBroken(StoreError):
    """The database is damaged or empty."""


class StaleChat(AppError):
    """The chat has changed since the page was drawn."""

    def __init__(self) -> None:
        super().__init__(
            "This chat was changed in another window, so nothing was done. Check what is new, then try again."
        )


class ChatNotFound(AppError):
    """There is no such chat, message or reply; usually it has been deleted."""

    def __init__(self, what: str = "chat") -> None:
        super().__init__(f"This {what} is no longer there. Choose another one from the list.")


class ImportBroken(AppError):
    """The file cannot be read as an export of chats, or importing was interrupted."""


class NotUploaded(AppError):
    """The page named a file that was not uploaded."""

    def __init__(self) -> None:
        super().__init__("This file was not uploaded. Choose it again.")


class DocumentError(AppError):
    """A document cannot be read, found or used."""


class DocumentUnreadable(DocumentError):
    """A file or a pasted text is missing, damaged, encrypted, too large, of an unknown type, or without text."""


class DocumentNotFound(DocumentError):
    """There is no such document, collection, passage or older version."""


class ModelError(AppError):
    """A model cannot be found, downloaded, loaded or used."""


class ModelNotFound(ModelError):
    """There is no such folder, file, installed model, or model on the hub."""


class ModelGated(ModelError):
    """The hub requires a login or accepted terms for this model, or the token is wrong."""


class DiskFull(ModelError):
    """The disk has too little space for the model."""


class ModelUnsafe(ModelError):
    """The model could run foreign code when it is loaded: it has pickled weights, or Python code of its own."""


class ModelBroken(ModelError):
    """Files of the model are missing, damaged or invalid, or do not match each other."""


class OnlyDrafts(ModelError):
    """The chosen model is a draft head, which can only draft for another model."""


class ModelTooLarge(ModelError):
    """Memory is too small for the model, or ran out while the model was loading or decoding."""


class NetworkSettingsUnusable(ModelError):
    """Environment variables name a proxy or certificates with which no connection can be opened."""


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
    """A tool or its server failed, or a server cannot be added. The model reads why its call failed."""


class ArgumentsRefused(ToolFailed):
    """The arguments of a call do not match the tool's schema."""


class SessionLost(ToolFailed):
    """A tool server does not know its session any more, so it has not handled the request."""


class RaceRefused(AppError):
    """A race cannot start: a reply or a race is running, or the chosen model is not on this machine."""


class ReplyFailed(AppError):
    """A reply that a race, a summary or a command waits for has failed or was stopped."""


class LoadCancelled(AppError):
    """The user has cancelled the loading of a model."""


class EngineClosed(AppError):
    """The app is closing and accepts no more requests, or the request was stopped while the model was loading."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message for a clause: without punctuation at its end, at most 200
    characters. An error without a message gives the name of its type."""
    lines = str(error).strip().splitlines()
    return (lines[0][:200].rstrip(".:") if lines else "") or type(error).__name__


@contextmanager
def impossible_values() -> Iterator[None]:
    """Turn a ValueError of the with block into BadOption, with the ValueError's message as a sentence."""
    try:
        yield
    except ValueError as error:
        words = str(error)
        raise BadOption(words[:1].upper() + words[1:].rstrip(".") + ".") from error
