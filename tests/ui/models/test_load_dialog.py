"""The Load dialog: its options, its estimate, its errors, and that it remembers."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest

from app.conversation import NewChat
from app.errors import BadOption
from app.settings import SettingsFile
from app.ui import Services
from app.ui.models.inventory import InventoryCache, load_name
from app.ui.models.load_dialog import (
    LoadActions,
    LoadDialog,
    choice_from,
    contexts,
    folder_html,
    load_dialog_html,
    options_here,
)
from app.values.chat import ChatVersion
from app.values.messages import EngineStatus, ModelChoice, Options
from app.values.model import DraftModels
from tests.fake_models import GB, HALF, SMALL, ScriptedModels, make_fit
from tests.fakes import DEMO, ScriptedEngine

NAME = f"org/small@{SMALL.revision}"
ON_LINUX = ("Linux", "x86_64")


def has(*packages: str) -> object:
    return lambda package: package in packages or None


def refreshed(services: Services) -> InventoryCache:
    inventory = InventoryCache(services)
    inventory.refresh()
    return inventory


@pytest.fixture
def actions(services: Services) -> LoadActions:
    return LoadActions(services, refreshed(services))


@pytest.fixture
def dialog(actions: LoadActions) -> LoadDialog:
    dialog = LoadDialog()
    actions.open(dialog, SMALL)
    return dialog


def press(actions: LoadActions, dialog: LoadDialog, do: str, name: str = "", **values: object) -> None:
    actions.act(dialog, gr.EventData(None, {"do": do, "name": name, "value": json.dumps(values)}))


def shown(dialog: LoadDialog, status: EngineStatus, is_busy: bool = False) -> str:
    return str(load_dialog_html(dialog.form, status, is_busy))


def test_the_loaded_model_is_loaded_again_only_with_other_options(
    actions: LoadActions, dialog: LoadDialog, services: Services
) -> None:
    loaded = EngineStatus("ready", model=replace(DEMO, name=SMALL.name, revision=SMALL.revision))

    def look() -> str:
        return str(load_dialog_html(dialog.form, loaded, True, services.settings.model))

    services.change(lambda settings: settings.with_loaded(ModelChoice("org/small")))
    actions.open(dialog, SMALL)
    assert "Options of org/small" in look() and "is loaded with these options" in look()
    assert "load-form" not in look() and "Loading stops it" not in look()
    press(actions, dialog, "load-option", context="512")
    assert "Stop and load" in look() and "Loading stops it" in look()
    assert ">Load again<" in str(load_dialog_html(dialog.form, loaded, False, services.settings.model))


def values_of(options: object) -> dict[str, list[str]]:
    names = ("dtype", "quantisation", "device", "attention")
    return {name: [one.value for one in getattr(options, name)] for name in names}


def test_only_what_exists_here_is_offered() -> None:
    assert values_of(options_here((), has(), ON_LINUX)) == {
        "dtype": ["auto", "float32", "bfloat16"], "quantisation": ["auto", "none", "int8", "int4"],
        "device": ["auto"], "attention": ["auto", "sdpa", "native"],
    }  # fmt: skip
    assert values_of(options_here(("cuda:0",), has("triton"), ON_LINUX)) == {
        "dtype": ["auto", "float32", "bfloat16", "float16"], "quantisation": ["auto", "none", "int8", "int4"],
        "device": ["auto", "cpu", "cuda"], "attention": ["auto", "sdpa", "triton"],
    }  # fmt: skip
    apple = values_of(options_here((), has(), ("Darwin", "arm64")))
    assert (apple["device"], apple["quantisation"]) == (["auto", "cpu"], ["auto", "none"])
    without_triton = options_here(("cuda:0",), has(), ("Windows", "AMD64"))
    assert values_of(without_triton)["quantisation"] == ["auto", "none", "int4"]


def test_int8_on_a_cpu_tells_its_speed_and_its_loss(dialog: LoadDialog, engine: ScriptedEngine) -> None:
    html = shown(dialog, engine.status())
    words = re.search(r'value="int8".*?<small>(.*?)</small>', html, re.DOTALL)
    assert words and "It is about 5 times as fast as float32 and predicts hardly worse" in words[1]
    assert "<select" in html and 'name="device"' not in html, "there is one device"


def test_a_choice_of_another_machine_becomes_one_that_exists_here() -> None:
    here = options_here((), has(), ON_LINUX)
    assert here.allowed(ModelChoice("x", "float16", "cuda", "int4", "flash", 2048)) == ModelChoice(
        "x", quantisation="int4", context=2048
    )


def test_contexts_are_shorter_than_the_models_own() -> None:
    assert contexts(3000, 0) == [
        (0, "Model's own (3,000 tokens)"), (512, "512 tokens"), (1024, "1,024 tokens"), (2048, "2,048 tokens"),
    ]  # fmt: skip
    assert (777, "777 tokens") in contexts(3000, 777)


def test_impossible_values_are_refused() -> None:
    for values in ({"dtype": "int3"}, {"context": "many"}, {"context": -1}):
        with pytest.raises(BadOption):
            choice_from(ModelChoice("x"), values)


def test_draft_models_are_offered_with_none_first_and_the_choice_counts_in_the_fit(
    actions: LoadActions, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    models.drafts[SMALL.name] = DraftModels((HALF,), "org/tiny")
    dialog = LoadDialog()
    actions.open(dialog, SMALL)
    html = shown(dialog, engine.status())
    assert dialog.form and dialog.form.choice.draft_model == ""
    assert [one.label for one in dialog.form.drafts.models] == ["None", HALF.name]
    assert "org/tiny is known to work well: download it in Models." in html
    press(actions, dialog, "load-option", draft_model=load_name(HALF))
    assert models.judged_drafts[-1] == load_name(HALF)
    press(actions, dialog, "load-form", draft_model=load_name(HALF))
    assert engine.loads == [ModelChoice(NAME, draft_model=load_name(HALF))]


def test_without_a_model_that_could_draft_nothing_is_asked(
    dialog: LoadDialog, engine: ScriptedEngine
) -> None:
    assert "Draft model" not in shown(dialog, engine.status())


def test_a_draft_model_is_remembered_with_its_model(
    actions: LoadActions, services: Services, engine: ScriptedEngine
) -> None:
    dialog = LoadDialog()
    actions.open(dialog, SMALL)
    press(actions, dialog, "load-form", draft_model="/models/own")
    engine.end_loading(True)
    actions.open(dialog, SMALL)
    assert dialog.form and dialog.form.choice.draft_model == "/models/own"
    assert [one.label for one in dialog.form.drafts.models] == ["None", "own"], "it was chosen by its folder"
    assert services.settings.choice_of("another").draft_model == ""


def test_a_change_is_judged_anew(actions: LoadActions, dialog: LoadDialog, engine: ScriptedEngine) -> None:
    press(actions, dialog, "load-option", dtype="float32", quantisation="int8", context="2048")
    assert dialog.form and dialog.form.choice == ModelChoice(
        NAME, "float32", quantisation="int8", context=2048
    )
    assert dialog.form.fit and (dialog.form.fit.precision, dialog.form.fit.context) == ("int8", 2048)
    html = shown(dialog, engine.status())
    assert 'value="int8" checked' in html and '<option value="2048" selected>' in html
    assert engine.loads == []


def test_a_model_that_only_fits_quantised_is_opened_so(
    actions: LoadActions, models: ScriptedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(_model: object, _memory: object, precision: str, context: int, *_: object) -> object:
        return make_fit("fits" if precision == "int8" else "too big", context=context)

    monkeypatch.setattr(models, "judge", judge)
    dialog = LoadDialog()
    actions.open(dialog, SMALL)
    assert dialog.form and dialog.form.choice.quantisation == "int8"


def test_automatic_is_preselected_and_tells_what_it_is_with_this_model(
    actions: LoadActions, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    models.fast = "int8"
    dialog = LoadDialog()
    actions.open(dialog, SMALL)
    html = shown(dialog, engine.status())
    assert 'value="auto" checked' in html and "With this model: int8." in html
    assert dialog.form and dialog.form.fit and dialog.form.fit.precision == "int8"
    press(actions, dialog, "load-form", quantisation="none")
    engine.end_loading(True)
    actions.open(dialog, SMALL)
    html = shown(dialog, engine.status())
    assert 'value="none" checked' in html, "as it was loaded last"
    assert "With this model: int8." in html


def test_what_a_card_has_no_room_for_stays_in_main_memory_if_the_person_says_so(
    actions: LoadActions, dialog: LoadDialog, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    assert 'name="offload"' not in shown(dialog, engine.status()), "it fits"
    models.fits[SMALL.name] = replace(make_fit("too big", 20 * GB), offloaded=7 * GB)
    actions.open(dialog, SMALL)
    html = shown(dialog, engine.status())
    assert '<input type="checkbox" name="offload">' in html, "nobody has ticked it"
    assert (
        "Slow: about 7.00 GB of its weights stay in main memory and are copied to the GPU in each step, which "
        "takes about 0.7 s (at 10 GB a second)."
    ) in html
    press(actions, dialog, "load-form", offload="on")
    assert engine.loads == [ModelChoice(NAME, offload=True)]
    engine.end_loading(True)
    actions.open(dialog, SMALL)
    assert '<input type="checkbox" name="offload" checked>' in shown(dialog, engine.status())
    press(actions, dialog, "load-option")
    assert dialog.form and not dialog.form.choice.offload, "what is not ticked is not sent"


def test_the_dialog_waits_for_the_load_and_closes(
    actions: LoadActions, dialog: LoadDialog, engine: ScriptedEngine
) -> None:
    press(actions, dialog, "load-form", quantisation="int8")
    assert engine.loads == [ModelChoice(NAME, quantisation="int8")]
    html = shown(dialog, engine.status())
    assert f"Loading {NAME}…" in html and "fieldset disabled" in html and "load-form" not in html
    before = EngineStatus("ready", "No model is loaded. The next message loads the chosen model.")
    assert "Loading…" in shown(dialog, before) and before.note not in shown(dialog, before), (
        "it has not begun yet"
    )
    press(actions, dialog, "cancel-load")
    assert engine.cancelled == 1
    engine.end_loading(True)
    assert dialog.form is None and shown(dialog, engine.status()) == ""


def test_why_a_model_could_not_be_loaded_stands_in_the_dialog(
    actions: LoadActions, dialog: LoadDialog, engine: ScriptedEngine
) -> None:
    press(actions, dialog, "load-form")
    engine.now = replace(engine.now, phase="ready", note="It takes too much memory. demo stays loaded.")
    engine.end_loading(False)
    html = shown(dialog, engine.status())
    assert '<p class="problem" role="alert">It takes too much memory. demo stays loaded.</p>' in html
    assert "load-form" in html
    press(actions, dialog, "load-option", quantisation="int4")
    assert "too much memory" not in shown(dialog, engine.status())
    press(actions, dialog, "load-form", dtype="int3")
    assert "Dtype must be one of" in shown(dialog, engine.status())


def test_a_dialog_that_was_closed_stays_closed(
    actions: LoadActions, dialog: LoadDialog, engine: ScriptedEngine
) -> None:
    press(actions, dialog, "load-form")
    press(actions, dialog, "close-load")
    engine.end_loading(False)
    assert dialog.form is None


def test_options_are_remembered_for_each_model(
    actions: LoadActions, dialog: LoadDialog, services: Services, engine: ScriptedEngine, tmp_path: object
) -> None:
    press(actions, dialog, "load-form", quantisation="int8", context="2048")
    engine.end_loading(True)
    services.choose_model(ModelChoice("demo", "float32"))
    engine.end_loading(True)
    actions.open(dialog, SMALL)
    chosen = ModelChoice(NAME, quantisation="int8", context=2048)
    assert dialog.form and dialog.form.choice == chosen
    actions.open(dialog, replace(SMALL, revision="newer"))
    assert dialog.form.choice == replace(chosen, name="org/small@newer")
    saved = SettingsFile(tmp_path).load()  # type: ignore[arg-type]
    assert saved.loaded == (ModelChoice("demo", "float32"), chosen)


@pytest.fixture
def writing(services: Services, engine: ScriptedEngine) -> Iterator[None]:
    engine.step_limit = 1
    services.conversations.start(NewChat(ChatVersion(), services.asked(Options()), "hi"))
    yield
    services.conversations.stop_all()


@pytest.mark.usefixtures("writing")
def test_loading_under_a_reply_says_that_it_stops_it(
    actions: LoadActions, dialog: LoadDialog, engine: ScriptedEngine
) -> None:
    html = shown(dialog, engine.status(), is_busy=True)
    assert "A reply is being written. Loading stops it." in html and "Stop and load" in html
    press(actions, dialog, "load-form")
    assert engine.loads == []
    press(actions, dialog, "load-form", "stop")
    assert engine.loads == [ModelChoice(NAME)]


def test_the_size_and_the_longest_context_are_told(dialog: LoadDialog, engine: ScriptedEngine) -> None:
    assert SMALL.size == 2 * GB
    assert "2.00 GB · 10,000,000 tokens of context" in shown(dialog, engine.status())


def test_a_model_is_chosen_in_the_folders_of_this_computer(
    actions: LoadActions, models: ScriptedModels, tmp_path: Path
) -> None:
    dialog = LoadDialog()
    actions.browse(dialog, str(tmp_path / "none.gguf"))
    assert dialog.folder and dialog.folder.folder == tmp_path, "the nearest folder"
    html = folder_html(dialog.folder, dialog.problem)
    assert f'data-do="browse" data-name="{tmp_path.parent}" data-focus' in html
    assert f'data-do="open-model" data-name="{tmp_path / "model.gguf"}"' in html
    press(actions, dialog, "browse", str(tmp_path / "below"))
    assert dialog.folder.folder == tmp_path / "below"
    models.refuses = "It can't be opened."
    press(actions, dialog, "browse", str(tmp_path))
    assert dialog.folder.folder == tmp_path / "below"
    assert "It can&#39;t be opened." in folder_html(dialog.folder, dialog.problem)
    models.refuses = ""
    press(actions, dialog, "open-model", str(tmp_path / "model.gguf"))
    assert dialog.folder is None and dialog.form is not None
    actions.browse(dialog, "")
    assert dialog.folder and dialog.folder.folder == Path.home()
    press(actions, dialog, "close-load")
    assert (dialog.folder, dialog.form) == (None, None)
