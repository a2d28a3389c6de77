"""Commands run in a data folder of the tests' own."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all commands of a run: each model's step is measured once."""
    return tmp_path_factory.mktemp("data-home")


@pytest.fixture(autouse=True)
def own_data_folder(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is measured of the model's step is not kept in the folder of whoever runs the tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(data_home))
    yield
