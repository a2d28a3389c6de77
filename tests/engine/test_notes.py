"""What was measured is remembered for exactly what it was measured on, and never stands in the way."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from app.engine.notes import NotesFolder, make_notes, subject_of
from app.engine.step_times import StepProfile, StepTimes
from app.messages import ModelInfo
from tests.engine.tiny import tiny_config

SUBJECT = {"model": "demo", "dtype": "bfloat16", "device": "a processor"}
TIMES = StepTimes((1, 16, 32), (0.004, 0.005, 0.0061))
PROFILE = StepProfile(TIMES, TIMES, ((1,), (16, 32)), "bfloat16: found something")
INFO = ModelInfo("demo", "", "main", "LlamaForCausalLM", 1000, 256, "bfloat16", "cpu")


def test_a_profile_comes_back_as_it_was(tmp_path: Path) -> None:
    NotesFolder(tmp_path / "new" / "folder").write(SUBJECT, PROFILE)
    assert NotesFolder(tmp_path / "new" / "folder").read(SUBJECT) == PROFILE
    assert [file.suffix for file in (tmp_path / "new" / "folder").iterdir()] == [".json"]


@pytest.mark.parametrize("name", SUBJECT)
def test_another_model_dtype_or_device_is_another_subject(tmp_path: Path, name: str) -> None:
    notes = NotesFolder(tmp_path)
    notes.write(SUBJECT, PROFILE)
    assert notes.read({**SUBJECT, name: "another"}) == StepProfile()
    assert notes.read(SUBJECT) == PROFILE


@pytest.mark.parametrize(
    "garbage", ["", "{", "[]", "null", '{"subject": {}}', '{"subject": 1, "profile": {}}', "\x00\xff"]
)
def test_a_file_that_makes_no_sense_is_measured_anew_and_replaced(tmp_path: Path, garbage: str) -> None:
    notes = NotesFolder(tmp_path)
    notes.write(SUBJECT, PROFILE)
    (file,) = tmp_path.iterdir()
    file.write_bytes(garbage.encode("latin-1"))
    assert notes.read(SUBJECT) == StepProfile()
    notes.write(SUBJECT, PROFILE)
    assert notes.read(SUBJECT) == PROFILE


@pytest.mark.parametrize(
    ("was", "now"), [('"seconds": [', '"seconds": [-'), ('"classes": [', '"classes": [[7],')]
)
def test_a_file_with_impossible_values_is_not_believed(tmp_path: Path, was: str, now: str) -> None:
    notes = NotesFolder(tmp_path)
    notes.write(SUBJECT, PROFILE)
    (file,) = tmp_path.iterdir()
    file.write_text(" ".join(file.read_text().split()).replace("[ ", "[").replace(was, now, 1))
    assert notes.read(SUBJECT) == StepProfile()


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    notes = NotesFolder(tmp_path / "file" / "steps")
    notes.write(SUBJECT, PROFILE)
    assert notes.read(SUBJECT) == StepProfile()


def test_without_a_folder_nothing_is_kept() -> None:
    notes = make_notes(None)
    notes.write(SUBJECT, PROFILE)
    assert notes.read(SUBJECT) == StepProfile()


def test_a_subject_is_the_model_its_config_its_layers_the_device_and_the_libraries() -> None:
    model = LlamaForCausalLM(tiny_config())
    subject = subject_of(model, INFO)
    assert subject == subject_of(LlamaForCausalLM(tiny_config()), INFO)
    assert subject != subject_of(model, replace(INFO, revision="other"))
    assert subject != subject_of(model, replace(INFO, dtype="float32"))
    assert subject != subject_of(LlamaForCausalLM(tiny_config(context=512)), INFO)
    assert f"torch {torch.__version__}" in subject["libraries"]


def test_another_number_of_threads_is_another_subject() -> None:
    model = LlamaForCausalLM(tiny_config())
    before, threads = subject_of(model, INFO), torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert subject_of(model, INFO) != before
    finally:
        torch.set_num_threads(threads)
