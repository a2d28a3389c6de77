"""The settings: one small JSON file in the data folder."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from app.errors import SettingsNotRead, SettingsNotSaved
from app.system.files import write_file
from app.values.chat_format import Thinking
from app.values.dataclass_json import parse_json, read
from app.values.messages import ModelChoice, Options
from app.values.tools import ToolServer
from app.values.validation import require, require_one_of

DEMO_MODEL = "demo"
"""The name of the model that ships with the app."""
DEFAULT_EMBEDDER = "sentence-transformers/all-MiniLM-L6-v2"
"""The sentence-embedding model for searching documents by meaning, once it is downloaded."""
MOST_LOADED = 100
"""Maximum number of models whose last load is remembered, and of models whose chosen thinking is remembered."""
Theme = Literal["system", "light", "dark"]
"""The colours of the page; "system" follows the system's setting."""

TextSize = Literal["90", "100", "115", "130"]
"""The size of the page's text in percent of the browser's."""


def assets_dir() -> Path:
    """Return the folder of the shipped files: in an installed package, or beside the package in a checkout."""
    installed = Path(__file__).parent / "assets"
    return installed if installed.exists() else Path(__file__).parent.parent / "assets"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of the model library: additional folders, whether it is offline, and how many downloads run at once.

    `embedder` is the hub id or the folder of the embedding model for documents."""

    folders: tuple[str, ...] = ()
    is_offline: bool = False
    downloads_at_once: int = 2
    embedder: str = DEFAULT_EMBEDDER

    def __post_init__(self) -> None:
        is_named = isinstance(self.embedder, str) and bool(self.embedder.strip())
        require(is_named, "the embedding model must be a hub id or a folder", self.embedder)
        are_paths = all(isinstance(folder, str) and folder.strip() for folder in self.folders)
        require(are_paths, "a model folder must be a path", self.folders)
        require(
            1 <= self.downloads_at_once <= 8,
            "the number of downloads at once must be from 1 to 8",
            self.downloads_at_once,
        )

    @property
    def paths(self) -> list[Path]:
        """The user's model folders as absolute paths."""
        return [Path(folder).expanduser().absolute() for folder in self.folders]


@dataclass(frozen=True, slots=True)
class ChatDefaults:
    """The settings that apply to all chats."""

    rolling_context: bool = False
    """Whether the oldest messages of a chat that is too long are left out without asking the user."""
    keeps_thoughts: bool = False
    """Whether earlier answers are sent to the model with their reasoning."""
    titles_by_model: bool = False
    """Whether the model, when it is idle, writes the titles of new chats."""
    system: str = ""
    """The system prompt of new chats."""

    def __post_init__(self) -> None:
        require(isinstance(self.system, str), "the system prompt must be text", self.system)


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """The tool servers that the user added, and the names of the app's own tools that are turned on."""

    servers: tuple[ToolServer, ...] = ()
    bundled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [one.name for one in self.servers]
        require(len(set(names)) == len(names), "tool servers must have different names", names)


@dataclass(frozen=True, slots=True)
class Settings:
    """The user's choices. Until the user chooses a temperature, `options` contains the model's recommendation.
    With `has_api` the app serves its API to other programs."""

    model: ModelChoice = field(default_factory=lambda: ModelChoice(DEMO_MODEL))
    options: Options = field(default_factory=Options)
    library: ModelSettings = field(default_factory=ModelSettings)
    theme: Theme = "system"
    text_size: TextSize = "100"
    chats: ChatDefaults = field(default_factory=ChatDefaults)
    is_temperature_chosen: bool = False
    has_api: bool = False
    api_origins: tuple[str, ...] = ()
    """Origins of web apps and browser extensions that may use the API."""
    loaded: tuple[ModelChoice, ...] = ()
    """How each model on this machine was loaded last, the latest load first."""
    thinking: Mapping[str, Thinking] = field(default_factory=dict, hash=False)
    """The thinking that the user chose for each model; the current model's is also in `options`."""
    tools: ToolSettings = field(default_factory=ToolSettings)
    version: int = 1
    """The version of the file; files of version 0 do not contain it."""

    def __post_init__(self) -> None:
        require_one_of(Theme, "theme", self.theme)
        require_one_of(TextSize, "text size", self.text_size)

    @property
    def local_model(self) -> ModelChoice:
        """The current model if it is local, else the local model that was loaded last, or the demo model."""
        known = (self.model, *self.loaded)
        return next((one for one in known if not one.server), ModelChoice(DEMO_MODEL))

    def choice_of(self, name: str) -> ModelChoice:
        """Return the choice with which any revision of this model was loaded last. If none was ever loaded,
        the choice has the local model's device and attention."""
        automatic = ModelChoice(name, device=self.local_model.device, attention=self.local_model.attention)
        return replace([*self._loads_of(name), automatic][0], name=name)

    def was_loaded(self, name: str) -> bool:
        """Return whether this model is the local model, or was loaded before, in any revision."""
        return bool(self._loads_of(name))

    def _loads_of(self, name: str) -> list[ModelChoice]:
        """Return how the revisions of the model were loaded, the latest load first."""
        wanted = _without_revision(name)
        return [one for one in (self.local_model, *self.loaded) if _without_revision(one.name) == wanted]

    def with_model(self, choice: ModelChoice) -> "Settings":
        """Return the settings with this model as the current model, and with the thinking chosen for it."""
        thinking = self.thinking.get(_without_revision(choice.name), Thinking())
        return replace(self, model=choice, options=replace(self.options, thinking=thinking))

    def with_loaded(self, choice: ModelChoice) -> "Settings":
        """Return the settings with this model as the current model; a local model is remembered as loaded."""
        name = _without_revision(choice.name)
        others = [one for one in self.loaded if _without_revision(one.name) != name]
        loaded = self.loaded if choice.server else (choice, *others)[:MOST_LOADED]
        return replace(self.with_model(choice), loaded=loaded)

    def with_thinking(self, thinking: Thinking) -> "Settings":
        """Return the settings with this thinking, which is also remembered for the current model."""
        name = _without_revision(self.model.name)
        others = [one for one in self.thinking.items() if one[0] != name][1 - MOST_LOADED :]
        known = {**dict(others), name: thinking}
        return replace(self, options=replace(self.options, thinking=thinking), thinking=known)


def _without_revision(name: str) -> str:
    return name if Path(name).is_absolute() else name.partition("@")[0]


class SettingsFile:
    """Reads and writes the file settings.json."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "settings.json"

    def load(self) -> Settings:
        """Read the settings; values that are missing or of a wrong type get their defaults. A file with impossible
        values or invalid JSON is renamed to `settings.json.broken`, and the defaults are returned. Raises
        SettingsNotRead for a file that cannot be opened."""
        try:
            saved = _with_new_defaults(parse_json(self.path.read_text(encoding="utf-8")))
            # Older files do not record whether the user chose the temperature. It counts as chosen.
            return read(
                Settings, {"is_temperature_chosen": True, **saved, "tools": _tools(saved.get("tools"))}
            )
        except FileNotFoundError:
            return Settings()
        except OSError as error:
            raise SettingsNotRead(
                f"The settings in {self.path} cannot be read ({error.strerror}). "
                "Give this user read access to the file, move it away, or choose another folder with --data-dir."
            ) from error
        except (ValueError, TypeError, KeyError, AttributeError):
            with suppress(OSError):  # on a read-only disk the file keeps its name
                self.path.replace(self.path.with_suffix(".json.broken"))
            return Settings()

    def save(self, settings: Settings) -> None:
        """Write the settings. Raises SettingsNotSaved; the old settings are kept then."""
        try:
            write_file(self.path, json.dumps(asdict(settings), indent=2))
        except OSError as error:
            raise SettingsNotSaved(
                f"The settings could not be saved in {self.path.parent} ({error.strerror}). "
                "Free some disk space, or choose another folder with --data-dir. The old settings are kept."
            ) from error


def _with_new_defaults(saved: Any) -> Any:
    """Return the saved values, with the defaults of version 0 replaced by the current defaults."""
    if isinstance(saved, dict) and "version" not in saved:
        if saved["options"].get("max_new_tokens") == 512:
            saved["options"]["max_new_tokens"] = 0
        for choice in (saved["model"], *saved.get("loaded", ())):
            if (choice.get("dtype"), choice.get("quantisation")) == ("auto", "none"):
                choice["quantisation"] = "auto"
    return saved


def _tools(saved: Any) -> dict[str, Any]:
    """Return the saved settings of tools with only the first server of each name."""
    found = saved if isinstance(saved, dict) else {}
    listed: Any = found.get("servers")
    servers = listed if isinstance(listed, list) else []
    named = {str(one.get("name")): one for one in reversed(servers) if isinstance(one, dict)}
    return {**found, "servers": [*reversed(named.values())]}
