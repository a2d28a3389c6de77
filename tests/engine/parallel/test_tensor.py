"""Which models are split, and what is said of the others before any rank reads them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.engine.machine.device_plan import Parallelism, no_estimate
from app.engine.parallel.tensor import check_can_split, does_split, reason_against_split
from app.errors import AppError
from app.values.messages import ModelChoice, ModelFolder
from app.values.model import Fit
from tests.engine.architectures import BRANCHING
from tests.engine.parallel.groups import on_a_cpu
from tests.engine.tiny import write_tiny
from tests.fake_models import make_fit

CPU = ModelChoice("tiny", "float32", "cpu")
TWO = ("cpu", "cpu")


def too_big(*_: object, **_named: object) -> Fit:
    return make_fit("too big")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return write_tiny(tmp_path_factory.mktemp("tiny"))


def test_a_model_is_split_by_its_plan_and_its_heads() -> None:
    configs = {each.name: each.make().config for each in BRANCHING if each.name in ("llama", "gpt2")}
    assert reason_against_split(configs["llama"], 2) == ""
    assert reason_against_split(configs["llama"], 4) == (
        "4 devices cannot share the attention heads of this model (4, and 2 for keys and values): 2 can, or "
        "use --parallel lookahead, or one device."
    )
    assert reason_against_split(configs["gpt2"], 2) == (
        "transformers has no plan to split the layers of gpt2 among devices: "
        "use --parallel lookahead, or one device."
    )


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (replace(CPU, quantisation="int8"), "Quantised weights are not split among devices"),
        (replace(CPU, attention="native"), "the model is split among devices"),
    ],
)
def test_what_goes_with_whole_models_alone_is_refused(
    folder: ModelFolder, choice: ModelChoice, words: str
) -> None:
    with pytest.raises(AppError, match=words):
        check_can_split(folder, choice, 2)
    assert not does_split("auto", folder, choice, TWO, too_big)


def test_a_gguf_file_and_a_broken_config_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(AppError, match="A GGUF file is not split among devices"):
        check_can_split(ModelFolder(file, "model"), CPU, 2)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(AppError, match="could not be loaded"):
        check_can_split(ModelFolder(tmp_path, "model"), CPU, 2)


@on_a_cpu
@pytest.mark.parametrize(
    ("parallel", "fits", "splits"),
    [("auto", True, False), ("auto", False, True), ("lookahead", False, False), ("tensor", True, True)],
)
def test_where_nobody_says_what_does_not_fit_is_split(
    folder: ModelFolder, parallel: Parallelism, fits: bool, splits: bool
) -> None:
    asked: list[tuple[str, str, int]] = []

    def estimate(*given: Any, **_named: object) -> Fit:
        _folder, precision, device, _context, copies = given
        asked.append((precision, device, copies))
        return make_fit("fits" if fits else "too big")

    assert does_split(parallel, folder, CPU, TWO, estimate) is splits
    assert asked == ([("float32", "cpu", 2)] if parallel == "auto" else [])


def test_one_device_holds_the_whole_model(folder: ModelFolder) -> None:
    assert not does_split("auto", folder, CPU, ("cpu",), too_big)
    assert not does_split("auto", folder, CPU, TWO, no_estimate)
