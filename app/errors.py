"""Everything that can go wrong in words a person can act on.

AppError                     shown to the user as written
├── BadOption                an argument or a setting has an impossible value
│   └── AttentionUnavailable the attention backend that was asked for cannot be used here
├── SettingsNotSaved         the data folder cannot be written (full disk, no permission)
├── SettingsNotRead          the settings are there and cannot be opened
├── DataFolderInUse          another Foresight runs on this data folder
├── ProcessNotStarted        the system starts no process beside the app now
├── WindowUnavailable        no window of its own can be opened for the page
├── MenuNotWritten           the entry in the system's menu cannot be written or removed
├── NoFreePort               nothing between the asked port and the last tried one is free
├── StoreError               the file that keeps chats and documents
│   ├── StoreFull            its disk is full, or did not take what was written
│   ├── StoreNotUsable       it cannot be opened or written, or another program holds it
│   ├── StoreTooNew          a newer app has changed its form
│   ├── StoreUnsupported     this Python's SQLite is too old, or cannot search
│   └── StoreBroken          part of it is damaged
├── StaleChat                the chat has changed since the page was drawn
├── ChatNotFound             the chat, or the message, has been deleted
├── ImportBroken             a file is no export of chats
├── DocumentError            a document cannot be read, found or used
│   ├── DocumentUnreadable   its file is damaged, encrypted, too large, or has no text in it
│   └── DocumentNotFound     the document, or the collection, has been deleted
├── ModelError               a model cannot be used
│   ├── ModelNotFound        no such folder, or no such model on the hub
│   ├── ModelGated           the hub gives it only to who has logged in and accepted its terms
│   ├── DiskFull             the disk has no room for it
│   ├── ModelUnsafe          the weights are pickled, not safetensors
│   ├── ModelBroken          files are missing, cut short or do not fit together
│   └── ModelTooLarge        loading or decoding ran out of memory
├── PromptTooLong            the prompt does not fit the model's context
├── RaceRefused              a race cannot begin now
├── ReplyFailed              the engine failed a reply that a race or a command waits for
└── EngineClosed             the app is shutting down

Domain code raises these; the edges (UI, command line) show `str(error)`; nobody else catches them.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class AppError(Exception):
    """Shown to the user as written: one or two sentences that end with what to do."""


class BadOption(AppError):
    """An argument or a setting has an impossible value."""


class AttentionUnavailable(BadOption):
    """The attention backend that was asked for cannot be used on this machine or with this model."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Attention by {name} cannot be used here: {reason}. Choose attention auto.")


class SettingsNotSaved(AppError):
    """The settings file could not be written; the previous one is untouched."""


class SettingsNotRead(AppError):
    """The settings file is there and cannot be opened; it is left as it is."""


class DataFolderInUse(AppError):
    """Another Foresight already runs on this data folder."""


class ProcessNotStarted(AppError):
    """The system did not start a process beside the app."""


class WindowUnavailable(AppError):
    """No window of its own can be opened for the page."""


class MenuNotWritten(AppError):
    """The entry in the system's menu could not be written or removed."""


class NoFreePort(AppError):
    """No port could be bound on 127.0.0.1."""


class StoreError(AppError):
    """The file that keeps chats and documents cannot do what was asked; what was saved before is kept."""


class StoreFull(StoreError):
    """The disk did not take what was to be written."""


class StoreNotUsable(StoreError):
    """The file cannot be opened or written, or another program holds it."""


class StoreTooNew(StoreError):
    """A newer app has changed the form of the file."""


class StoreUnsupported(StoreError):
    """This Python's SQLite lacks what the file needs."""


class StoreBroken(StoreError):
    """Part of the file is damaged."""


class StaleChat(AppError):
    """Somebody wants to change a chat that has changed since."""

    def __init__(self) -> None:
        super().__init__(
            "This chat went on in another window, so nothing was changed: "
            "look at what is new there, then send it again."
        )


class ChatNotFound(AppError):
    """A chat, or a message of it, is not there."""

    def __init__(self, what: str = "chat") -> None:
        super().__init__(f"This {what} is no longer there: choose another one from the list.")


class ImportBroken(AppError):
    """A file that was to be imported is no export of chats."""


class NotUploaded(AppError):
    """The page named a file that nobody uploaded to it."""

    def __init__(self) -> None:
        super().__init__("The page named a file that was not uploaded to it: choose the file again.")


class DocumentError(AppError):
    """A document cannot be read, found or used."""


class DocumentUnreadable(DocumentError):
    """A file is damaged, encrypted, too large, or has no text in it."""


class DocumentNotFound(DocumentError):
    """The document, or the collection, has been deleted."""


class ModelError(AppError):
    """A model cannot be used."""


class ModelNotFound(ModelError):
    """There is no such folder, or no such model on the hub."""


class ModelGated(ModelError):
    """The hub gives the model only to people who have logged in and accepted its terms."""


class DiskFull(ModelError):
    """The disk has no room for the model."""


class ModelUnsafe(ModelError):
    """The weights are only there as pickles, which can run code when opened."""


class ModelBroken(ModelError):
    """Files of the model are missing, cut short, or do not fit together."""


class ModelTooLarge(ModelError):
    """Memory ran out while the model was loading or decoding."""


class PromptTooLong(AppError):
    """The prompt leaves no room for a reply in the model's context."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__(
            f"The prompt has {tokens:,} tokens and the model's context holds {context:,}: "
            "shorten it, start a new chat, or choose a model with a longer context."
        )


class RaceRefused(AppError):
    """A race cannot begin while the engine writes something else."""


class ReplyFailed(AppError):
    """The engine failed a reply that a race or a command waits for; the sentence is the engine's."""


class EngineClosed(AppError):
    """The app is shutting down and takes no more requests."""


def first_line(error: BaseException) -> str:
    """What an error says first; the name of its type where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def impossible_values() -> Iterator[None]:
    """For the edges: turn a value that a message refuses (ValueError) into a BadOption, as a sentence."""
    try:
        yield
    except ValueError as error:
        words = str(error)
        raise BadOption(words[:1].upper() + words[1:].rstrip(".") + ".") from error
