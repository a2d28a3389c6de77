"""`python run.py models …` as a person types it, against a small hub on this machine."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_api

from app.database.data_folder import data_dir_or_default
from app.settings import ModelSettings, Settings, SettingsFile
from tests.commands.typed import CHECKOUT, Done, command, typed
from tests.models_registry.hub_server import COMMIT, FakeHub, running
from tests.models_registry.model_files import model_files, write
from tests.models_registry.test_installed_models import CONFIG
from tests.support.waiting import until

SECONDS = 300.0
Run = Callable[..., Done]


@pytest.fixture
def server() -> Iterator[FakeHub]:
    with running(FakeHub({"org/small": {**model_files(500_000), "config.json": CONFIG}})) as hub:
        yield hub


@pytest.fixture
def environment(server: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """That of a person who has never used the hub on this machine."""
    home = tmp_path / "hf"
    for name in [name for name in os.environ if name.startswith("HF_")]:
        monkeypatch.delenv(name)
    # The hub's client read its own while it was imported.
    for name, value in constants_of(server.endpoint, home).items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr(hf_api.api, "endpoint", server.endpoint)
    places = {"XDG_DATA_HOME": str(tmp_path / "data"), "HF_HOME": str(home)}
    return {**places, "HF_ENDPOINT": server.endpoint, "CUDA_VISIBLE_DEVICES": ""}


def constants_of(endpoint: str, home: Path) -> dict[str, object]:
    return {
        "HF_HUB_OFFLINE": False,
        "ENDPOINT": endpoint,
        "HUGGINGFACE_CO_URL_TEMPLATE": endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_STORED_TOKENS_PATH": str(home / "stored_tokens"),
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    def start(*arguments: str, answer: str = "") -> Done:
        return typed("models", *arguments, said=answer, environment=environment)

    return start


def seen(done: Done) -> Any:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_model_is_found_judged_downloaded_verified_and_deleted(server: FakeHub, run: Run) -> None:
    found = seen(run("search", "small", "--json"))
    assert [hit["repo"] for hit in found["hub"]] == ["org/small"] and found["note"] == ""
    model = seen(run("info", f"{server.endpoint}/org/small", "--json"))
    assert (model["commit"], model["parameters"], model["fit"]["verdict"]) == (COMMIT, 500_000, "fits")

    done = run("download", "org/small", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["state"] == "done" and lines[-1]["done"] == lines[-1]["size"] == model["size"]
    assert run("download", "org/small").stdout.startswith("org/small is already on this machine: ")

    listed = seen(run("list", "--json"))
    assert [(m["name"], m["state"]) for m in listed["models"]] == [("demo", "ready"), ("org/small", "ready")]
    assert "all checksums match" in run("verify", "org/small").stdout
    weights = Path(lines[-1]["folder"]) / "model.safetensors"
    weights.resolve().write_bytes(weights.read_bytes()[:-1] + b"x")
    damaged = run("verify", "org/small")
    assert damaged.returncode == 1 and "its checksum is wrong" in damaged.stderr

    asked = run("remove", "org/small", answer="n\n")
    assert asked.returncode == 1 and "This frees 2.00 MB. [y/N]" in asked.stdout and weights.exists()
    assert seen(run("remove", "org/small", "--yes", "--json"))["freed"] >= model["size"]
    assert len(seen(run("list", "--json"))["models"]) == 1


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="only there a process is sent Ctrl+C")
def test_ctrl_c_pauses_and_the_same_command_goes_on(
    server: FakeHub, run: Run, environment: dict[str, str]
) -> None:
    server.pace = 1e6
    with subprocess.Popen(
        command("models", "download", "org/small"),
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        encoding="utf-8",
        # What runs in the background ignores Ctrl+C, and so would this child of a suite that does.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:
        until(lambda: sum(sent.count for sent in server.sent) >= 500_000)
        child.send_signal(signal.SIGINT)
        _, words = child.communicate(timeout=SECONDS)
    assert child.returncode == 130
    assert words == "Paused. To continue: python run.py models download org/small\n"
    server.pace = 0
    server.asked.clear()
    assert run("download", "org/small").returncode == 0
    (request,) = server.gets("model.safetensors")
    assert int(request.split("bytes=")[1].rstrip("-")) >= 400_000


@pytest.mark.thorough
def test_a_gated_model_is_downloaded_after_a_login(server: FakeHub, run: Run) -> None:
    server.gated.add("org/small")
    server.tokens.add("hf_right")
    refused = run("download", "org/small")
    assert refused.returncode == 1
    assert f"accept its terms at {server.endpoint}/org/small" in refused.stderr
    wrong = run("login", answer="hf_wrong\n")
    assert wrong.returncode == 1 and "rejects the token that was sent" in wrong.stderr
    assert "hf_wrong" not in wrong.stdout + wrong.stderr
    right = run("login", answer="hf_right\n")
    assert right.returncode == 0, right.stderr
    assert right.stdout.endswith("Logged in as somebody.\n") and "hf_right" not in right.stdout + right.stderr
    assert run("download", "org/small").returncode == 0
    assert run("logout").returncode == 0


def test_the_levels_of_thinking_are_told(run: Run, tmp_path: Path) -> None:
    thinks = "{{ messages[0].content }}{% if enable_thinking is false %}<think></think>{% endif %}"
    place = write(
        tmp_path / "thinks", {**model_files(), "config.json": CONFIG, "chat_template.jinja": thinks.encode()}
    )
    assert "--thinking can be on, off; without it, the model uses on." in run("info", str(place)).stdout
    assert seen(run("info", str(place), "--json"))["thinking"] == ["on", "off"]


def test_a_folder_of_that_name_comes_before_the_hub(
    server: FakeHub, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write(tmp_path / "org" / "small", {**model_files(), "config.json": CONFIG})
    monkeypatch.chdir(tmp_path)
    assert seen(run("info", "org/small", "--json"))["model"] == {"name": "small", "path": str(place)}
    assert server.asked == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("download", "nonsense"), 1, "nonsense is not a model id"),
        (("download", "org/none"), 1, "no model org/none on Hugging Face: check the spelling"),
        (("info", "./none"), 1, "The folder ./none does not exist"),
        (("remove", "demo", "--yes"), 1, "ships with the app and stays"),
        (("verify", "org/none"), 1, "org/none is not installed"),
        (("info", "demo", "--context", "0"), 2, "--context"),
    ],
)
def test_a_mistake_is_one_sentence(run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = run(*arguments)
    assert done.returncode == code and words in done.stderr and "Traceback" not in done.stderr


def test_without_a_hub_the_catalogue_still_answers(
    run: Run, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment["HF_ENDPOINT"] = "http://127.0.0.1:9"
    monkeypatch.setattr(constants, "ENDPOINT", environment["HF_ENDPOINT"])
    found = run("search", "granite")
    assert found.returncode == 0 and "ibm-granite/granite-4.1-3b" in found.stdout
    assert "Can't reach Hugging Face" in found.stderr
    known = run("info", "Qwen/Qwen3-8B")
    assert (
        "8.2B parameters" in known.stdout and "so these are from the catalogue: Can't reach" in known.stdout
    )


def test_offline_asks_nothing(server: FakeHub, run: Run, tmp_path: Path) -> None:
    offline = Settings(library=ModelSettings(is_offline=True))
    SettingsFile(data_dir_or_default(tmp_path / "data" / "foresight")).save(offline)
    for arguments in (("search", "small"), ("info", "org/small"), ("download", "org/small"), ("list",)):
        done = run(*arguments)
        assert arguments == ("list",) or "Foresight is set to offline" in done.stderr
    assert server.asked == []


def test_the_catalogue_is_listed_by_what_fits(run: Run) -> None:
    listed = seen(run("list", "--catalogue", "--json"))
    assert sum(len(group["entries"]) for group in listed["groups"]) >= 20
    assert "Qwen/Qwen3-32B" in run("list", "--catalogue").stdout
