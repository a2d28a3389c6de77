"""Everything that can go wrong in words a person can act on.

AppError                     shown to the user as written
├── BadOption                an argument or a setting has an impossible value
│   └── AttentionUnavailable the attention backend that was asked for cannot be used here
├── SettingsNotSaved         the data folder cannot be written (full disk, no permission)
├── SettingsNotRead          the settings are there and cannot be opened
├── DataFolderInUse          another Foresight runs on this data folder
├── NoFreePort               nothing between the asked port and the last tried one is free
├── ModelError               a model cannot be used
│   ├── ModelNotFound        no such folder, or no such model on the hub
│   ├── ModelGated           the hub gives it only to who has logged in and accepted its terms
│   ├── DiskFull             the disk has no room for it
│   ├── ModelUnsafe          the weights are pickled, not safetensors
│   ├── ModelBroken          files are missing, cut short or do not fit together
│   └── ModelTooLarge        loading or decoding ran out of memory
├── PromptTooLong            the prompt does not fit the model's context
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


class NoFreePort(AppError):
    """No port could be bound on 127.0.0.1."""


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


class EngineClosed(AppError):
    """The app is shutting down and takes no more requests."""


@contextmanager
def impossible_values() -> Iterator[None]:
    """For the edges: turn a value that a message refuses (ValueError) into a BadOption, as a sentence."""
    try:
        yield
    except ValueError as error:
        words = str(error)
        raise BadOption(words[:1].upper() + words[1:].rstrip(".") + ".") from error
