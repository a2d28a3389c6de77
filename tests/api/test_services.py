"""Which models clients see, and by which names."""

from app.api.services import ApiServices, InstalledModels, served_model
from app.engine import Engine
from app.values.messages import ModelChoice
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
