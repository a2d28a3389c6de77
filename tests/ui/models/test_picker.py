"""The list that the model's button opens."""

import json
import re
from dataclasses import replace

from app.ui import Services
from app.ui.models.actions import ModelsActions
from app.ui.models.discover import SearchResults
from app.ui.models.inventory import InventoryCache
from app.ui.models.load_dialog import LoadDialog
from app.ui.models.render import picker_html
from app.values.messages import EngineStatus, ModelChoice
from tests.fake_models import ScriptedModels
from tests.fakes import DEMO, ScriptedEngine
from tests.ui.chat.people import pressed

CHOICE = ModelChoice("demo", dtype="float32")


def shown(services: Services, choice: ModelChoice = CHOICE) -> str:
    inventory = InventoryCache(services)
    inventory.refresh()
    return str(picker_html(inventory.get(), services.engine.status(), choice))


def test_it_lists_what_is_installed_and_marks_what_is_loaded(
    services: Services, engine: ScriptedEngine, models: ScriptedModels
) -> None:
    model = next(one for one in models.installed() if one.state == "ready")
    engine.now = EngineStatus("ready", model=replace(DEMO, name=model.name, revision=model.revision))
    html = shown(services)
    ready = [one for one in models.installed() if one.state == "ready"]
    assert html.count('class="row"') == len(ready)
    assert html.count("disabled") == 1 and model.name in html
    assert 'data-do="unload"' in html


def test_before_a_model_is_loaded_there_is_nothing_to_unload() -> None:
    html = str(picker_html(None, EngineStatus("starting"), CHOICE))
    assert "Looking for installed models" in html and "unload" not in html and "precisions" not in html


def test_a_precision_loads_the_same_model_with_it(services: Services) -> None:
    html = shown(services)
    assert re.search(r'data-name="float32"[^>]*aria-pressed="true"', html)
    assert 'title="bfloat16 (half the memory of float32)"' in html
    value = json.dumps(["org/model", "auto", "auto", "int8", "auto"])
    seen: list[str] = []
    actions = ModelsActions(services, InventoryCache(services), seen.append)
    *_, dialog = actions.click(SearchResults(), LoadDialog(), pressed("choose", "int8", value))
    assert (dialog, seen) == ("", [])
    assert services.model == ModelChoice("org/model", quantisation="int8")
