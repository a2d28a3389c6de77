"""The key of the API: given at the start, or stored in a file of the data folder that only this user can read.

The file is written when the key is first read. `serve --no-key` runs without a key."""

import os
import secrets
import stat
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path

from app.errors import BadOption, SettingsNotSaved
from app.system.files import write_file

PREFIX = "sk-foresight-"
FILE = "api-key"
LONGEST = 4096


def checked_key(given: str, source: str) -> str:
    """Return the key without blanks around it. Raises BadOption if it is empty, too long or invalid in a header."""
    key = given.strip()
    if not key:
        raise BadOption(f"The key of {source} is empty: give one, or leave it out.")
    if len(key.splitlines()) > 1:
        raise BadOption(f"The key of {source} has several lines: keep only the key there.")
    if len(key) > LONGEST or not (key.isascii() and key.isprintable()) or " " in key:
        raise BadOption(
            f"The key of {source} has characters that a key cannot have, or is too long: use up to "
            f"{LONGEST:,} letters, digits and punctuation marks."
        )
    return key


def read_key(file: Path) -> str:
    """Read the key from a file that the user has named. Raises BadOption."""
    try:
        with file.open("rb") as opened:
            content = opened.read(2 * LONGEST)  # a bound, because /dev/zero has no end
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadOption(f"The key in {file} cannot be read ({reason}). Choose another file.") from error
    return checked_key(content.decode("utf-8-sig", errors="replace"), str(file))


def is_readable_by_others(file: Path) -> bool:
    """Return whether the mode of a regular file lets its group or others read it; False on Windows."""
    with suppress(OSError):
        mode = file.stat().st_mode
        return os.name == "posix" and stat.S_ISREG(mode) and bool(mode & (stat.S_IRGRP | stat.S_IROTH))
    return False


class KeyFile:
    """The key in a data folder. Reads the file each time, because another process may have renewed the key."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE

    def read(self) -> str:
        """Return the key. Writes a new key if there is none. Raises SettingsNotSaved."""
        try:
            key = self.path.read_text(encoding="ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            key = ""
        except OSError as error:
            raise self._problem(error) from error
        return key or self.renew()

    def renew(self) -> str:
        """Write and return a new key; the old key is refused from now on. Raises SettingsNotSaved."""
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


ApiKey = str | KeyFile | None
"""The key that clients must send, given at the start or read from its file. None lets every program on this machine
use the API."""


def accepts(key: ApiKey, given: str) -> bool:
    """Return whether a client's key is right, or none is needed. Raises SettingsNotSaved as `KeyFile.read` does."""
    if key is None:
        return True
    wanted = key if isinstance(key, str) else key.read()
    return compare_digest(given.encode(errors="replace"), wanted.encode())
