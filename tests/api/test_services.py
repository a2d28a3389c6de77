"""Which models clients see, and by which names."""

from pathlib import Path

from app.api.ollama import tags
from app.api.services import ApiServices, InstalledModels, served_model
from app.engine import Engine
from app.values.messages import ModelChoice
from app.values.model import InstalledModel
from tests.fake_models import DEMO_MODEL, HALF, MINE, SMALL


def test_models_that_can_be_loaded_are_listed_and_the_disk_is_not_read_each_time() -> None:
    looks = []
    here = InstalledModels(lambda: looks.append(1) or [DEMO_MODEL, SMALL, HALF, MINE])  # type: ignore[func-returns-value]
    assert [model.id for model in here()] == ["demo", "org/small", "mine"]
    assert [model.choice.name for model in here()] == ["demo", "org/small", str(MINE.path)]
    assert len(looks) == 1


def test_another_model_runs_where_the_served_one_does(engine: Engine) -> None:
    """With `serve --device cpu` no request brings a model to a card."""
    here, current = InstalledModels(lambda: [SMALL]), served_model(ModelChoice("org/served", device="cpu"))
    services = ApiServices(engine, lambda: current, here, lambda: None)
    assert services.find("org/small").choice == ModelChoice("org/small", device="cpu")
    assert services.find("") is current


def test_a_gguf_file_is_described_as_one(engine: Engine, tmp_path: Path) -> None:
    """Also the current model of this name, and before it is loaded."""
    file = tmp_path / "tiny.Q4_K_M.gguf"
    file.touch()
    here = InstalledModels(lambda: [InstalledModel("org/tiny/tiny.Q4_K_M", file, "hub-gguf", 1), SMALL])
    for current in ("org/tiny/tiny.Q4_K_M", "org/tiny:tiny.Q4_K_M.gguf"):
        model = served_model(ModelChoice(current))
        services = ApiServices(engine, lambda model=model: model, here, lambda: None)  # type: ignore[misc]
        found = {one["name"]: one["details"] for one in tags(services)["models"]}
        assert found[current]["format"] == "gguf"
        assert found[current]["quantization_level"] == "Q4_K_M"
        assert found["org/small"]["format"] == "safetensors"
