"""What lies on the desk while the app runs: the chat, the engine and the settings. Pages come and go."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from app.conversation import Conversation, Reply
from app.messages import DecoderName, EngineStatus, ModelChoice, Options, Request
from app.settings import Library, Settings, SettingsFile
from app.ui.models.port import Models


class Engine(Protocol):
    """What the window needs of the engine; nothing here waits."""

    def submit(self, request: Request, reply: Reply) -> None:
        """Write the reply to this request into `reply`, on the engine's own thread."""

    def load(self, choice: ModelChoice, ended: Callable[[bool], None]) -> None:
        """Ask the worker to load this model; `status` tells how it goes, `ended` hears whether it is loaded."""

    def unload(self) -> None:
        """Ask the worker to let go of the model."""

    def status(self) -> EngineStatus:
        """What the worker does now."""


class Desk:
    """The one person's things, shared by every page and safe to use from any thread."""

    def __init__(
        self,
        conversation: Conversation,
        engine: Engine,
        models: Models,
        file: SettingsFile,
        settings: Settings,
    ) -> None:
        self.conversation = conversation
        self.engine = engine
        self.models = models
        self._file = file
        self._settings = settings
        self._asked_with: Options | None = None
        self._loading: ModelChoice | None = None
        self._lock = threading.Lock()

    @property
    def settings(self) -> Settings:
        """What was chosen last, saved or not."""
        return self._settings

    @property
    def model(self) -> ModelChoice:
        """The model that the next question goes to: the one that is being loaded, or that was loaded last."""
        return self._loading or self._settings.model

    @property
    def asked_decoder(self) -> DecoderName:
        """The decoder that the newest reply was asked for with; the switch may have moved since."""
        options = self._asked_with or self._settings.options
        return options.decoding.decoder

    def ask(self, question: str, options: Options) -> Reply:
        """Start the reply to a question with these options."""
        self._asked_with = options
        return self.conversation.ask(question, self.model, options)

    def regenerate(self, options: Options) -> Options:
        """Write the last answer anew, and tell with which options.

        Sampling is keyed, so the same options would write the same text: then the next seed is taken.
        With a changed option (lookahead off, say) the seed stays and the two texts can be compared."""
        if options == self._asked_with and options.sampling.temperature > 0:
            options = with_next_seed(options)
        if self.conversation.regenerate(self.model, options):
            self._asked_with = options
        return options

    def choose_options(self, options: Options) -> None:
        """Remember these options. Raises SettingsNotSaved, after which they hold until the app ends."""
        self._choose(replace(self._settings, options=options))

    def choose_model(self, choice: ModelChoice) -> None:
        """Have the worker load this model; once it is loaded it is remembered."""
        self._loading = choice
        self.engine.load(choice, partial(self._loaded, choice))

    def choose_library(self, library: Library) -> None:
        """Follow these settings for models, and remember them. Raises SettingsNotSaved as above."""
        self.models.use(library)
        self._choose(replace(self._settings, library=library))

    def _loaded(self, choice: ModelChoice, is_loaded: bool) -> None:
        if self._loading == choice:
            self._loading = None
        if is_loaded:
            self._choose(replace(self._settings, model=choice))

    def _choose(self, settings: Settings) -> None:
        with self._lock:
            if settings != self._settings:
                self._settings = settings
                self._file.save(settings)


def with_next_seed(options: Options) -> Options:
    """The same options with the seed after theirs; seeds end at 2^63-1 and begin again at 0."""
    seed = (options.sampling.seed + 1) % 2**63
    return replace(options, sampling=replace(options.sampling, seed=seed))
