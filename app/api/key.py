"""The key of the API. It is made at first use, and kept in the data folder for this user alone."""

import secrets
from hmac import compare_digest
from pathlib import Path
from typing import Protocol

from app.errors import SettingsNotSaved
from app.files import write_file

PREFIX = "sk-foresight-"
FILE = "api-key"


class ApiKey(Protocol):
    """Which key a client has to send."""

    def accepts(self, given: str) -> bool:
        """Whether this is the key."""


class NoKey:
    """Every program on this machine may ask."""

    def accepts(self, _given: str) -> bool:
        """Whatever it is."""
        return True


class FixedKey:
    """A key that was given at the start."""

    def __init__(self, key: str) -> None:
        self._key = key

    def accepts(self, given: str) -> bool:
        """Whether this is the key."""
        return compare_digest(given.encode(errors="replace"), self._key.encode())


class KeyFile:
    """The key in a data folder. It is read anew each time: another process may have renewed it."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE

    def accepts(self, given: str) -> bool:
        """Whether this is the key."""
        return FixedKey(self.read()).accepts(given)

    def read(self) -> str:
        """The key; makes one where there is none. Raises SettingsNotSaved."""
        try:
            key = self.path.read_text(encoding="ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            key = ""
        except OSError as error:
            raise self._problem(error) from error
        return key or self.renew()

    def renew(self) -> str:
        """Make a new key; the old one is void at once. Raises SettingsNotSaved."""
        key = PREFIX + secrets.token_urlsafe(24)
        try:
            write_file(self.path, key + "\n")
        except OSError as error:
            raise self._problem(error) from error
        return key

    def _problem(self, error: OSError) -> SettingsNotSaved:
        return SettingsNotSaved(
            f"The API's key in {self.path} cannot be used ({error.strerror}). "
            "Give this user access to the folder, or choose another one with --data-dir."
        )
