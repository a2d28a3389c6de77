"""The services: what is asked with, what is remembered, and what a full disk does."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from app.conversation import NewChat
from app.errors import SettingsNotSaved
from app.settings import ModelSettings, Settings, SettingsFile
from app.ui import Services
from app.ui.frame.services import with_next_seed
from app.values.chat import ChatVersion
from app.values.messages import Decoding, ModelChoice, Options, Sampling
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine
from tests.support.waiting import until
from tests.ui.conftest import services_like

GREEDY = Options()
SAMPLED = Options(sampling=Sampling(temperature=0.8, seed=4))


def begin(services: Services, options: Options) -> int:
    """A chat with one question and its answer."""
    place = services.conversations.start(NewChat(ChatVersion(), services.asked(options), "hi"))
    services.chat = place.chat
    services.conversations.close()
    return place.chat


def anew(services: Services, first: Options, options: Options) -> Options:
    """With which options the answer of a new chat, written with `first`, is regenerated."""
    chat = begin(services, first)
    answer = services.conversations.thread(chat, 1).messages[0].id
    return services.asked_anew(chat, answer, services.asked(options)).options


def test_regenerating_a_sampled_reply_unchanged_takes_the_next_seed(services: Services) -> None:
    assert anew(services, SAMPLED, SAMPLED).sampling.seed == 5


def test_regenerating_with_the_switch_flipped_keeps_the_seed_so_texts_can_be_compared(
    services: Services,
) -> None:
    plain = replace(SAMPLED, decoding=Decoding("plain"))
    assert anew(services, SAMPLED, plain) == plain


def test_seeds_end_where_they_must() -> None:
    last = replace(SAMPLED, sampling=Sampling(seed=2**63 - 1))
    assert with_next_seed(last).sampling.seed == 0


class SlowFile(SettingsFile):
    """A disk that takes its time over the first settings it is given, until `go_on`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_saving, self.go_on = Event(), Event()

    def save(self, settings: Settings) -> None:
        self.is_saving.set()
        self.go_on.wait(300)
        super().save(settings)


def waiting_for_their_turn() -> int:
    """How many threads have begun to change the settings, and wait for the lock."""
    return sum(frame.f_code.co_name == "change" for frame in sys._current_frames().values())


def test_what_two_threads_choose_while_a_third_is_saved_all_holds(
    services: Services, engine: ScriptedEngine, tmp_path: Path
) -> None:
    file = SlowFile(tmp_path)
    slow = services_like(services, services.conversations, file)
    slow.choose_model(ModelChoice("org/model"))
    with ThreadPoolExecutor() as pool:
        pool.submit(slow.choose, theme="dark", text_size="115")
        assert file.is_saving.wait(300)
        pool.submit(slow.change_options, lambda _: SAMPLED)
        pool.submit(engine.end_loading, True)
        until(lambda: waiting_for_their_turn() == 2)
        file.go_on.set()
    model = ModelChoice("org/model")
    chosen = Settings(
        model, SAMPLED, theme="dark", text_size="115", is_temperature_chosen=True, loaded=(model,)
    )
    assert slow.settings == SettingsFile(tmp_path).load() == chosen


def test_two_options_that_are_changed_at_once_are_both_kept(services: Services) -> None:
    with ThreadPoolExecutor() as pool:

        def longer(now: Options) -> Options:
            pool.submit(services.change_options, lambda now: replace(now, sampling=SAMPLED.sampling))
            until(waiting_for_their_turn)
            return replace(now, max_new_tokens=7)

        services.change_options(longer)
    assert services.settings.options == replace(Options(), sampling=SAMPLED.sampling, max_new_tokens=7)


def test_a_model_is_remembered_once_it_is_loaded(
    services: Services, engine: ScriptedEngine, tmp_path: Path
) -> None:
    services.choose_model(ModelChoice("org/model"))
    assert SettingsFile(tmp_path).load().model == ModelChoice("demo")
    engine.end_loading(True)
    assert SettingsFile(tmp_path).load().model == services.settings.model == ModelChoice("org/model")


def test_after_a_failed_load_questions_go_to_the_model_before(
    services: Services, engine: ScriptedEngine
) -> None:
    services.choose_model(ModelChoice("org/broken"))
    assert services.model == ModelChoice("org/broken")
    engine.end_loading(False)
    begin(services, GREEDY)
    assert engine.requests[-1].model == services.settings.model == ModelChoice("demo")


def test_the_end_of_an_older_load_does_not_hide_a_newer_one(
    services: Services, engine: ScriptedEngine
) -> None:
    services.choose_model(ModelChoice("org/first"))
    first_ended = engine.end_loading
    services.choose_model(ModelChoice("org/second"))
    first_ended(True)
    assert (services.settings.model, services.model) == (ModelChoice("org/first"), ModelChoice("org/second"))


def test_the_library_follows_what_was_chosen_even_when_it_cannot_be_saved(
    services: Services, models: ScriptedModels, tmp_path: Path
) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(SettingsNotSaved):
        services.choose_library(ModelSettings(is_offline=True))
    assert models.used == [ModelSettings(is_offline=True)] and services.settings.library.is_offline


def test_loading_asks_the_engine_and_the_next_question_goes_to_that_model(
    services: Services, engine: ScriptedEngine
) -> None:
    services.choose_model(ModelChoice("org/model"))
    begin(services, GREEDY)
    assert engine.loads == [ModelChoice("org/model")]
    assert engine.requests[-1].model == ModelChoice("org/model")


def test_settings_that_cannot_be_saved_hold_until_the_app_ends(services: Services, tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()  # as good as a full disk: the file cannot be replaced
    with pytest.raises(SettingsNotSaved, match="could not be saved"):
        services.change_options(lambda _: SAMPLED)
    assert services.settings.options == SAMPLED


def test_the_panel_knows_how_the_running_reply_was_asked_for(services: Services) -> None:
    chat = begin(services, replace(GREEDY, decoding=Decoding("plain")))
    services.change_options(lambda _: GREEDY)
    assert services.asked_decoder(chat) == "plain"


def test_the_temperature_is_the_models_own_until_one_is_chosen(
    services: Services, engine: ScriptedEngine, models: ScriptedModels
) -> None:
    models.temperatures = {"org/warm": 0.6, "org/cold": 0.2}

    def load(name: str) -> None:
        services.choose_model(ModelChoice(name))
        engine.end_loading(True)

    def temperature() -> float:
        return services.settings.options.sampling.temperature

    load("org/warm")
    assert temperature() == 0.6
    services.change_options(lambda _: replace(services.settings.options, max_new_tokens=7))
    load("org/cold")
    assert temperature() == 0.2, "another option was chosen, and no temperature"
    services.change_options(lambda _: replace(services.settings.options, sampling=Sampling(0.9)))
    load("org/warm")
    assert temperature() == 0.9
    services.restore_options()
    assert temperature() == 0.6


def test_a_rolling_context_leaves_out_the_oldest_unasked(services: Services) -> None:
    assert services.asked(GREEDY).overflow == "ask"
    services.choose_chat_defaults(rolling_context=True, keeps_thoughts=True)
    asked = services.asked(GREEDY)
    assert (asked.overflow, asked.keeps_thoughts) == ("oldest", True)
    assert services.asked(GREEDY, "shorter").overflow == "shorter"
