"""Connect: the API is turned on and off, its key is renewed, and the examples are those of docs/api.md."""

import json
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from app.api.access import AccessCheck, ApiSwitch
from app.api.api_key import KeyFile
from app.errors import SettingsNotSaved
from app.ui import Endpoint, Services
from app.ui.settings.connect import ConnectActions, client_examples
from tests.ui.chat.people import pressed

DOCS = Path(__file__).parents[3] / "docs" / "api.md"
ADDRESS = "http://127.0.0.1:7861"


@pytest.fixture
def api(tmp_path: Path) -> ApiSwitch:
    return ApiSwitch(lambda key: AccessCheck(PlainTextResponse("here"), key), KeyFile(tmp_path))


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def actions(services: Services, api: ApiSwitch, seen: list[str]) -> ConnectActions:
    return ConnectActions(services, api, Endpoint("127.0.0.1", 7861), seen.append)


def status(api: ApiSwitch, key: str) -> int:
    """What a client with this key gets."""
    client = TestClient(api, base_url=ADDRESS)
    return client.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code


def test_the_switch_adds_the_api_takes_it_away_and_is_remembered(
    actions: ConnectActions, api: ApiSwitch, services: Services, tmp_path: Path
) -> None:
    assert (status(api, "any"), actions.open(), list(tmp_path.glob("api-key"))) == (404, (False, ""), [])
    is_on, html = actions.turn(True)
    assert is_on and f"{ADDRESS}/v1" in html and api.key.read() in html
    assert (status(api, api.key.read()), status(api, "another")) == (200, 401)
    assert services.settings.has_api
    assert actions.turn(False) == (False, "")
    assert status(api, api.key.read()) == 404 and not services.settings.has_api


def test_web_apps_are_allowed_and_remembered(actions: ConnectActions, services: Services) -> None:
    box, fault = actions.allow("http://localhost:3000, app://obsidian.md")
    assert box == "http://localhost:3000 app://obsidian.md" and "not an origin" not in fault
    assert services.settings.api_origins == ("http://localhost:3000", "app://obsidian.md")
    box, fault = actions.allow("localhost:3000")
    assert box == "localhost:3000" and "is not an origin" in fault
    assert len(services.settings.api_origins) == 2
    assert actions.allow("")[0] == "" and services.settings.api_origins == ()


def test_a_renewed_key_holds_at_once_and_the_old_one_does_not(
    actions: ConnectActions, api: ApiSwitch, seen: list[str]
) -> None:
    actions.turn(True)
    old = api.key.read()
    html = actions.click(pressed("renew-key"))
    assert old not in html and api.key.read() in html
    assert (status(api, old), status(api, api.key.read())) == (401, 200)
    assert "The key was renewed. Programs with the old one are refused." in html and seen == []
    assert "was renewed" not in actions.open()[1]


def test_a_key_that_another_process_renewed_holds_at_once(api: ApiSwitch, tmp_path: Path) -> None:
    api.turn(True)
    old, new = api.key.read(), KeyFile(tmp_path).renew()
    assert (status(api, old), status(api, new)) == (401, 200)


def test_a_key_that_cannot_be_written_leaves_the_switch_off(
    services: Services, tmp_path: Path, seen: list[str]
) -> None:
    (tmp_path / "file").touch()
    api = ApiSwitch(lambda _key: PlainTextResponse(""), KeyFile(tmp_path / "file"))
    actions = ConnectActions(services, api, Endpoint("127.0.0.1", 7861), seen.append)
    with pytest.raises(SettingsNotSaved):
        api.turn(True)
    assert actions.turn(True) == (False, "")
    assert "--data-dir" in seen[0] and len(seen) == 1


def test_the_examples_are_those_of_the_documentation() -> None:
    documented = DOCS.read_text(encoding="utf-8")
    for program, _, text in client_examples(f"{ADDRESS}/v1", "KEY", "demo", 1024):
        assert program in documented and text in documented


def test_any_name_of_a_model_is_one_string_in_the_examples() -> None:
    name = 'C:\\models\\a "model"'
    texts = {program: text for program, _, text in client_examples(ADDRESS, "KEY", name, 1024)}
    zed = json.loads("{" + texts["Zed"] + "}")
    [model] = zed["language_models"]["openai_compatible"]["Foresight"]["available_models"]
    assert model == {"name": name, "max_tokens": 1024}
    assert f"model={json.dumps(name)}," in texts["openai-python"]
