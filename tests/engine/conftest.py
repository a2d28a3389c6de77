"""One thread for tiny models, and those that are needed on disk, made once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from app.engine.text.sandbox import Sandbox
from tests.engine.places import write_exhausting
from tests.engine.replies import Zoo
from tests.engine.tiny import write_tiny


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small only lose time when they share their work among cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    """Every architecture's model, made when it is first asked for."""
    return Zoo()


class SharedSandbox(Sandbox):
    """Outlives the engines that use it: its process takes more than a second to start."""

    def close(self) -> None:
        """Leave the process to the next engine."""


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """One sandbox for tests of other things."""
    shared = SharedSandbox()
    yield shared
    Sandbox.close(shared)


@pytest.fixture(scope="session")
def measurements(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A measurement cache for tests of other things: each model is measured once."""
    return tmp_path_factory.mktemp("measurements")


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`tiny` and `other` work; `narrow` has too few embeddings for its tokenizer; `exhausting` needs memory."""
    root = tmp_path_factory.mktemp("models")
    tiny = write_tiny(root / "tiny").path
    return {
        "tiny": tiny,
        "other": write_tiny(root / "other", seed=1).path,
        "narrow": write_tiny(root / "narrow", vocabulary=200).path,
        "exhausting": write_exhausting(root / "exhausting", tiny),
        "empty": _empty(root / "empty"),
    }


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder
