"""What was found out is remembered for exactly what it was found out about, and never stands in the way."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedModel

from app.engine.measuring import measurement_cache
from app.engine.measuring.measurement_cache import MeasurementCache, cache_key_of
from app.values.messages import ModelInfo
from tests.engine.tiny import tiny_config

SUBJECT = {"model": "demo", "dtype": "bfloat16", "device": "a processor"}
CARD = torch.device("cuda")
NOTE = {"widths": [1, 16, 32], "text": "found something"}
INFO = ModelInfo("demo", "", "main", "LlamaForCausalLM", 1000, 256, "bfloat16", "cpu")


def read(notes: MeasurementCache, kind: str = "step", subject: dict[str, str] = SUBJECT) -> Any:
    return notes.read(kind, subject, lambda note: note, None)


def test_a_note_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    MeasurementCache(folder).write("step", SUBJECT, NOTE)
    assert read(MeasurementCache(folder)) == NOTE
    assert [file.suffix for file in folder.iterdir()] == [".json"]


def test_a_note_of_another_kind_is_another_note(tmp_path: Path) -> None:
    notes = MeasurementCache(tmp_path)
    notes.write("step", SUBJECT, NOTE)
    notes.write("chances", SUBJECT, [1, 2])
    assert (read(notes), read(notes, "chances"), read(notes, "successors")) == (NOTE, [1, 2], None)


@pytest.mark.parametrize("name", SUBJECT)
def test_another_model_dtype_or_device_is_another_subject(tmp_path: Path, name: str) -> None:
    notes = MeasurementCache(tmp_path)
    notes.write("step", SUBJECT, NOTE)
    assert read(notes, subject={**SUBJECT, name: "another"}) is None
    assert read(notes) == NOTE


@pytest.mark.parametrize(
    "garbage", ["", "{", "[]", "null", "7", '{"subject": {}}', '{"subject": 1, "note": {}}', "\x00\xff"]
)
def test_a_file_that_makes_no_sense_is_found_out_anew_and_replaced(tmp_path: Path, garbage: str) -> None:
    notes = MeasurementCache(tmp_path)
    notes.write("step", SUBJECT, NOTE)
    (file,) = tmp_path.iterdir()
    file.write_bytes(garbage.encode("latin-1"))
    assert read(notes) is None
    notes.write("step", SUBJECT, NOTE)
    assert read(notes) == NOTE


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, IndexError, AttributeError])
def test_a_note_that_cannot_be_decoded_is_not_believed(tmp_path: Path, error: type[Exception]) -> None:
    notes = MeasurementCache(tmp_path)
    notes.write("step", SUBJECT, NOTE)

    def decode(note: object) -> str:
        raise error(note)

    assert notes.read("step", SUBJECT, decode, "nothing") == "nothing"


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    notes = MeasurementCache(tmp_path / "file" / "steps")
    notes.write("step", SUBJECT, NOTE)
    assert read(notes) is None


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path) -> None:
    notes = MeasurementCache(tmp_path)
    notes.write("step", SUBJECT, NOTE)
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.mkdir()  # a folder of this name cannot be replaced by a file
    notes.write("step", SUBJECT, NOTE)
    assert list(tmp_path.iterdir()) == [file], "the draft beside it is taken away again"
    assert read(notes) is None


def test_without_a_folder_nothing_is_kept() -> None:
    notes = MeasurementCache(None)
    notes.write("step", SUBJECT, NOTE)
    assert read(notes) is None


def test_a_subject_is_the_model_its_config_its_layers_the_device_and_the_libraries() -> None:
    model = LlamaForCausalLM(tiny_config())
    subject = cache_key_of(model, INFO)
    assert subject == cache_key_of(LlamaForCausalLM(tiny_config()), INFO)
    assert subject != cache_key_of(model, replace(INFO, revision="other"))
    assert subject != cache_key_of(model, replace(INFO, dtype="float32"))
    assert subject != cache_key_of(model, replace(INFO, quantisation="int4"))
    assert subject != cache_key_of(LlamaForCausalLM(tiny_config(context=512)), INFO)
    assert f"torch {torch.__version__}" in subject["libraries"]


def test_another_number_of_threads_is_another_subject() -> None:
    model = LlamaForCausalLM(tiny_config())
    before, threads = cache_key_of(model, INFO), torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert cache_key_of(model, INFO) != before
    finally:
        torch.set_num_threads(threads)


def test_a_gpus_measurements_belong_to_its_kernels_their_compiler_and_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    source = tmp_path / "kernel.py"
    versions = {"triton": "3.6.0", "driver": "580.95.05"}
    monkeypatch.setattr(measurement_cache, "driver_version", lambda: versions["driver"])
    monkeypatch.setattr(measurement_cache, "version", lambda name: versions[name])
    monkeypatch.setattr(measurement_cache, "triton_sources", lambda: [source])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a card")

    def key() -> dict[str, str]:
        model = cast(PreTrainedModel, SimpleNamespace(device=CARD, config=tiny_config(), modules=lambda: ()))
        return cache_key_of(model, INFO)

    source.write_text("the first", encoding="utf-8")
    keys = [key()]
    source.write_text("the second", encoding="utf-8")
    keys.append(key())
    for name in versions:
        versions[name] = "another"
        keys.append(key())
    assert len({tuple(one.items()) for one in keys}) == 4
    assert keys[0] | {"kernels": ""} == keys[1] | {"kernels": ""}


def test_the_kernels_of_a_gpu_are_all_files_that_import_triton() -> None:
    folder = Path(measurement_cache.__file__).parents[1]
    importing = {file for file in folder.rglob("*.py") if "import triton" in file.read_text("utf-8")}
    assert importing <= set(measurement_cache.triton_sources())
