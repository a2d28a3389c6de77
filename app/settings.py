"""Where the app keeps its files, and what the person last chose.

The settings are one small JSON file in the data folder. A new file is written beside the old one and then
takes its place, so a full disk or a crash leaves the old settings whole.
"""

import json
import logging
import os
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from app.errors import DataFolderInUse, SettingsNotRead, SettingsNotSaved
from app.messages import Decoding, ModelChoice, Options, Sampling
from app.validation import require, require_one_of

log = logging.getLogger(__name__)
DEMO_MODEL = "demo"
"""The name under which the model that ships with the app is chosen."""
DEFAULT_EMBEDDER = "sentence-transformers/all-MiniLM-L6-v2"
"""The sentence-embedding model that documents are found by meaning with, once it is on this machine."""
Theme = Literal["system", "light", "dark"]
"""How the page looks."""


def default_data_dir() -> Path:
    """The folder that this platform gives to the app's data."""
    import platformdirs  # which a bare checkout on a measuring machine does without

    return Path(platformdirs.user_data_dir("foresight", appauthor=False))


def data_dir_or_default(chosen: Path | None) -> Path:
    """The folder that the person named, as a whole path, or the usual one."""
    return (chosen or default_data_dir()).expanduser().absolute()


def assets_dir() -> Path:
    """The shipped files: inside the package once installed, beside it in a checkout."""
    installed = Path(__file__).parent / "assets"
    return installed if installed.exists() else Path(__file__).parent.parent / "assets"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Where models come from: folders of the person's beside the hub's cache, and whether the hub may be asked.

    `embedder` is the hub id or the folder of the model that finds documents by meaning."""

    folders: tuple[str, ...] = ()
    is_offline: bool = False
    downloads_at_once: int = 2
    embedder: str = DEFAULT_EMBEDDER

    def __post_init__(self) -> None:
        is_named = isinstance(self.embedder, str) and bool(self.embedder.strip())
        require(is_named, "an embedder must be a hub id or a folder", self.embedder)
        are_paths = all(isinstance(folder, str) and folder.strip() for folder in self.folders)
        require(are_paths, "a model folder must be a path", self.folders)
        require(
            1 <= self.downloads_at_once <= 8, "downloads at once must be from 1 to 8", self.downloads_at_once
        )

    @property
    def paths(self) -> list[Path]:
        """The folders; ~ is the person's own."""
        return [Path(folder).expanduser() for folder in self.folders]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the person last chose."""

    model: ModelChoice = field(default_factory=lambda: ModelChoice(DEMO_MODEL))
    options: Options = field(default_factory=Options)
    library: ModelSettings = field(default_factory=ModelSettings)
    theme: Theme = "system"

    def __post_init__(self) -> None:
        require_one_of(Theme, "theme", self.theme)


class SettingsFile:
    """The settings on disk."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "settings.json"

    def load(self) -> Settings:
        """The saved settings. A file that makes no sense is kept beside as `.broken`; defaults take over.

        Raises SettingsNotRead for a file that cannot be opened."""
        try:
            return _from_json(json.loads(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Settings()
        except OSError as error:
            raise SettingsNotRead(
                f"The settings in {self.path} cannot be read ({error.strerror}): "
                "let this user read the file, or choose another folder with --data-dir."
            ) from error
        except (ValueError, TypeError, KeyError, AttributeError):
            with suppress(OSError):  # a disk that is not to be written: it stays where it is
                self.path.replace(self.path.with_suffix(".json.broken"))
            return Settings()

    def save(self, settings: Settings) -> None:
        """Replace the saved settings whole, or raise SettingsNotSaved and leave the old ones."""
        draft = self.path.with_suffix(".json.new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w", encoding="utf-8") as file:
                file.write(json.dumps(asdict(settings), indent=2))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError as error:
            with suppress(OSError):  # where nothing can be written there may be nothing to remove
                draft.unlink()
            raise SettingsNotSaved(
                f"The settings could not be saved in {self.path.parent} ({error.strerror}): "
                "free some disk space or choose another folder with --data-dir. The old settings are kept."
            ) from error


def _from_json(saved: dict[str, Any]) -> Settings:
    options = saved["options"]
    library = saved.get("library", {})  # files of the first version have none
    return Settings(
        model=ModelChoice(**saved["model"]),
        options=replace(
            Options(**{**options, "stop": tuple(options["stop"])}),
            sampling=Sampling(**options["sampling"]),
            decoding=Decoding(**options["decoding"]),
        ),
        library=ModelSettings(**{**library, "folders": tuple(library.get("folders", ()))}),
        theme=saved.get("theme", "system"),
    )


def _keep_private(folder: Path) -> None:
    """Take from everybody but the owner what they may do with a folder and all that lies in it.

    On Windows the profile that it lies in does that."""
    if os.name != "posix":
        return
    inside = (Path(place, name) for place, *names in os.walk(folder) for name in chain(*names))
    try:
        for path in chain((folder,), inside):
            with suppress(FileNotFoundError):  # gone meanwhile: whoever has the folder works on
                mode = path.stat(follow_symlinks=path == folder).st_mode
                if mode & 0o077 and not stat.S_ISLNK(mode):
                    path.chmod(stat.S_IMODE(mode) & ~0o077)
    except PermissionError:
        log.warning(
            "Other users of this machine may read the data folder %s: this user may not change its rights. "
            "Choose another one with --data-dir to keep your chats to yourself.",
            folder,
        )


class DataFolder:
    """The app's data folder, held by one running instance at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / "in-use.lock", mode=0o600)
        self._address = path / "in-use.address"

    def hold(self) -> None:
        """Take the folder for this process; the system lets go of it however the process ends.

        Raises DataFolderInUse when another instance has it, SettingsNotSaved when it cannot be written."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _keep_private(self.path)
            self._lock.acquire(timeout=0)
            self._address.unlink(missing_ok=True)  # an instance that was killed left its own
        except Timeout as error:
            raise DataFolderInUse(
                f"Foresight is already running on {self.path}{self._where()}: "
                "use that window, or start this one with another --data-dir."
            ) from error
        except OSError as error:
            raise SettingsNotSaved(
                f"The data folder {self.path} cannot be used ({error.strerror}): "
                "choose another one with --data-dir."
            ) from error

    def announce(self, address: str) -> None:
        """Leave the page's address, its token included, for a second instance of this user: a courtesy that no
        full disk may turn into a failure to start."""
        with suppress(OSError):
            self._address.touch(mode=0o600)
            self._address.write_text(address, encoding="utf-8")

    def release(self) -> None:
        """Let another instance have the folder."""
        with suppress(OSError):  # gone with its disk, or not to be written any more
            self._address.unlink()
        self._lock.release()

    def running_at(self) -> str:
        """The address that the instance which has the folder announced; "" while there is none that makes sense."""
        try:
            address = self._address.read_text(encoding="utf-8")
            return address if urlsplit(address).port else ""
        except (OSError, ValueError):  # not announced yet, half written, or just released
            return ""

    def is_held(self) -> bool:
        """Whether some instance has the folder now."""
        try:
            with self._lock.acquire(timeout=0):
                return False
        except Timeout:
            return True

    def _where(self) -> str:
        address = self.running_at()
        return f" (at {address})" if address else ""
