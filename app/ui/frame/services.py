"""What every page shares while the app runs: the chats, the engine, the models, the documents and the settings."""

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.api.access import ApiSwitch
from app.conversation import Conversations, Overflow, ReplySettings
from app.conversation.engine_protocol import ModelEngine
from app.conversation.race.race import Race
from app.database.database import Database
from app.documents.documents import Documents
from app.errors import BadOption
from app.remote import Servers
from app.settings import ModelSettings, Settings, SettingsFile, ToolSettings
from app.system.network_log import NetworkLog
from app.ui.frame.undo import Deletions
from app.values.chat import ChatSettings
from app.values.messages import NEW_SEED, DecoderName, ModelChoice, Options

if TYPE_CHECKING:  # the hub's client reads its environment while it is imported (main.py)
    from app.models_registry.model_library import ModelLibrary

WEIGHTS = attrgetter("name", "revision", "dtype", "quantisation")
"""Returns the name, the revision and the precision of a model from its `ModelInfo`."""


@dataclass(frozen=True, slots=True)
class AppContext:
    """The app's folders, its log file, the log of contacted hosts (`outside`), the API, and the database. `note`
    returns what the user must know, such as that a damaged file was replaced; "" if there is nothing."""

    data_dir: Path
    hub_cache: Path
    log: Path
    outside: NetworkLog
    api: ApiSwitch
    database: Database | None = None
    note: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of the page. `key` gives access ("" if none is needed), and each of `one_time_codes` gives it
    once. `quit_requested` ends the app; `raise_requested` brings its own window to the front."""

    host: str
    port: int
    is_native: bool = False
    key: str = ""
    one_time_codes: set[str] = field(default_factory=set)
    quit_requested: threading.Event = field(default_factory=threading.Event)
    raise_requested: threading.Event = field(default_factory=threading.Event)

    @property
    def origin(self) -> str:
        """The page's address without the key."""
        return f"http://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The page's address with the key. It can be opened any number of times."""
        return f"{self.origin}/?key={self.key}" if self.key else self.origin

    def one_time_url(self) -> str:
        """Return the page's address with a code that can be used once. The key is not in this address, because
        every user of the machine can read the browser's arguments."""
        if not self.key:
            return self.origin
        self.one_time_codes.add(code := secrets.token_urlsafe(32))
        return f"{self.origin}/?key={code}"


@dataclass(slots=True, eq=False)
class Services:
    """The app's services, shared by every page and safe to use from any thread. `chat` is the chat that was open
    last, which a new page shows."""

    conversations: Conversations
    engine: ModelEngine
    models: "ModelLibrary"
    race: Race
    documents: Documents
    _file: SettingsFile
    _settings: Settings
    servers: Servers
    deletions: Deletions = field(default_factory=Deletions)
    chat: int = 0
    _loading: ModelChoice | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def settings(self) -> Settings:
        """The settings chosen last, even if they could not be saved."""
        return self._settings

    @property
    def model(self) -> ModelChoice:
        """The model that answers the next question: the model being loaded, else the current model."""
        return self._loading or self._settings.model

    def asked_decoder(self, chat: int) -> DecoderName:
        """Return the decoder requested for the chat's newest reply, or else the current choice."""
        newest = self.conversations.newest_reply(chat)
        return (newest.settings.options if newest else self._settings.options).decoding.decoder

    def asked(self, options: Options, overflow: Overflow = "ask") -> ReplySettings:
        """Return the settings for a reply that is requested now."""
        chats = self._settings.chats
        if overflow == "ask" and chats.rolling_context:
            overflow = "oldest"
        options = with_drawn_seed(options)
        return ReplySettings(self.model, options, overflow, chats.keeps_thoughts, chats.titles_by_model)

    def asked_anew(self, chat: int, message: int, settings: ReplySettings) -> ReplySettings:
        """Return the settings for another answer to the same question. If a version of the answer was sampled with
        these options, the seed becomes the next unused one, because the same seed would write the same text. If an
        option was changed, such as lookahead, the seed stays, so that the texts can be compared."""
        options = settings.options
        used = self.conversations.options_used(chat, message) if options.sampling.temperature > 0 else ()
        while options in used:
            options = with_next_seed(options)
        return replace(settings, options=options)

    def asked_switched(self, chat: int, message: int) -> ReplySettings:
        """Return the settings of this answer with lookahead on instead of off, or off instead of on. Raises
        BadOption if another model, revision or precision is loaded, or it is unknown what wrote the answer."""
        made = self.conversations.stores.of(chat).message(message).content.provenance
        model = self.engine.status().model
        if made is None or (model and WEIGHTS(model) != WEIGHTS(made.model)):
            name = made.model.name if made else "another model"
            raise BadOption(
                f"This reply was written by {name}. Load it in the same revision and precision to compare."
            )
        decoding = made.options.decoding
        decoding = replace(decoding, decoder="auto" if decoding.decoder == "plain" else "plain")
        return self.asked(replace(made.options, decoding=decoding))

    def change_options(self, change: Callable[[Options], Options]) -> None:
        """Apply `change` to the options and save them. Raises SettingsNotSaved, and what `change` raises."""

        def chosen(settings: Settings) -> Settings:
            options = change(settings.options)
            is_same = options.sampling.temperature == settings.options.sampling.temperature
            is_chosen = settings.is_temperature_chosen or not is_same
            return replace(settings, options=options, is_temperature_chosen=is_chosen)

        self.change(chosen)

    def restore_options(self) -> None:
        """Restore the model's own temperature and the defaults of all other options except thinking."""

        def restored(settings: Settings) -> Settings:
            options = Options(thinking=settings.options.thinking)
            return replace(settings, options=options, is_temperature_chosen=False)

        self.change(restored)
        self.follow_model(self._settings.local_model.name)

    def follow_model(self, name: str) -> None:
        """Use the temperature that this model recommends, unless the user chose one."""
        own = self.models.own_temperature(name)

        def following(settings: Settings) -> Settings:
            if settings.is_temperature_chosen:
                return settings
            sampling = replace(settings.options.sampling, temperature=own)
            return replace(settings, options=replace(settings.options, sampling=sampling))

        self.change(following)

    def choose_model(self, choice: ModelChoice, ended: Callable[[bool], None] = lambda _: None) -> None:
        """Load this model, and then call `ended` with whether it is loaded. If it is, the choice is saved."""

        def loaded(is_loaded: bool) -> None:
            if self._loading == choice:
                self._loading = None
            ended(is_loaded)
            if is_loaded:
                if not choice.server:  # the temperature that a server's model recommends is unknown
                    self.follow_model(choice.name)
                self.change(lambda settings: settings.with_loaded(choice))

        self._loading = choice
        self.engine.load(choice, loaded)

    @property
    def appearance(self) -> dict[str, str]:
        """The theme and the text size, by the names that the page's script has for them."""
        return {"theme": self._settings.theme, "text-size": self._settings.text_size}

    def change(self, change: Callable[[Settings], Settings]) -> None:
        """Change and save the settings. If this raises SettingsNotSaved, they apply until the app ends."""
        with self._lock:  # because the engine's thread may change them, too
            settings = change(self._settings)
            if settings != self._settings:
                self._settings = settings
                self._file.save(settings)

    def choose(self, **changes: Any) -> None:
        """Change these settings, and save them as `change` does."""
        self.change(lambda settings: replace(settings, **changes))

    def choose_chat_defaults(self, **changes: str | bool) -> None:
        """Change these settings of all chats, and save them as `change` does."""
        self.change(lambda settings: replace(settings, chats=replace(settings.chats, **changes)))  # type: ignore[arg-type]

    def change_tools(self, change: Callable[[ToolSettings], ToolSettings]) -> None:
        """Apply `change` to the settings of tools, and save them as `self.change` does."""
        self.change(lambda settings: replace(settings, tools=change(settings.tools)))

    def new_chat_settings(self) -> ChatSettings:
        return ChatSettings(self._settings.chats.system)

    def choose_library(self, library: ModelSettings) -> None:
        """Apply these settings for models, and save them. Raises SettingsNotSaved after applying them."""
        self.models.use(library)
        self.change(lambda settings: replace(settings, library=library))


def with_next_seed(options: Options) -> Options:
    """Return the options with the next seed; 0 follows 2^63-1."""
    seed = (options.sampling.seed + 1) % 2**63
    return replace(options, sampling=replace(options.sampling, seed=seed))


def with_drawn_seed(options: Options) -> Options:
    """Return the options with a random seed if they ask for a new seed; with seed 0 if nothing is sampled."""
    sampling = options.sampling
    if sampling.seed != NEW_SEED:
        return options
    return replace(
        options, sampling=replace(sampling, seed=secrets.randbits(32) if sampling.temperature else 0)
    )
