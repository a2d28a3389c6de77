"""Each measurement still starts; the short ones run."""

import re
import runpy
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path
from random import Random
from time import perf_counter
from xml.etree import ElementTree

import pytest
import torch

from app.conversation.prompt_sources import question_with_sources
from app.engine.lookahead import priors
from labs.acceptance_priors import module, weights_in_use
from labs.demo_model.conversations import pair
from labs.demo_model.copying import CopyingTasks
from labs.demo_model.prepare import write_conversations
from labs.layer_launches import FAMILIES, layer_launches
from labs.page_cost import fill, opened
from labs.step_picture import curves, picture
from labs.step_sides import generate_step, make_stock, maker, our_step, stock_step
from labs.step_times import summary, table
from tests.engine.tiny import write_tiny

LABS = Path(__file__).parents[2] / "labs"
PROGRAMS = sorted(
    ".".join(file.relative_to(LABS.parent).with_suffix("").parts)
    for file in LABS.rglob("*.py")
    if "__main__" in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_explains_itself(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    monkeypatch.delitem(sys.modules, program, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(program, run_name="__main__")
    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out.lower()


def test_the_engine_and_the_stores_of_a_page_are_put_together(tmp_path: Path) -> None:
    with opened(tmp_path) as services:
        chats = services.conversations.stores.stored
        assert len(chats.thread(fill(chats, 4).chat).messages) == 4


def test_a_fused_layer_launches_a_kernel_where_torch_launches_many() -> None:
    """The numbers are those of docs/notes/2026-11-fused-layers.md."""
    counted = {family: layer_launches(family) for family in FAMILIES}
    assert counted == {"llama": (40, 9), "qwen3": (56, 9), "gemma3_text": (84, 13), "phi3": (41, 9)}


def test_steps_are_timed_on_every_side_and_drawn(tmp_path: Path) -> None:
    make = maker(str(write_tiny(tmp_path / "tiny").path), torch.float32)
    stock = make_stock(make)
    for step in (our_step(make, perf_counter), stock_step(stock, perf_counter)):
        assert all(step(rows) > 0 for rows in (1, 4, 1))
    assert isinstance(generate_step(stock, "eager", perf_counter)(1), float)
    times = {"foresight": {1: [3.0, 2.0], 8: [5.0]}, "llama.cpp": {1: [1.5], 128: [40.0]}}
    found = summary(Namespace(model="tiny", dtype="float32", rounds=1, clock="wall"), times)
    assert "| foresight | 2.5 (2.0) |" in table(found)
    assert len(ElementTree.fromstring(picture("tiny", curves([found]))).findall("{*}circle")) == 4


def test_the_demo_model_learns_from_tasks_in_the_apps_own_form(tmp_path: Path) -> None:
    book = ["The white rabbit carried a golden watch.", "Dorothy walked along the yellow road."]
    tasks = CopyingTasks([book], Counter(re.findall("[a-z]+", " ".join(book).lower())), Random(1))
    sources = tasks.sources(400)
    assert f"{sources.prompt()} Where?" == question_with_sources(sources.texts, "Where?")
    cited = [one for one in tasks.lookups(sources) if not one.answer.startswith("The sources do not mention")]
    assert all(one.answer[:-4] in sources.texts[int(one.answer[-2]) - 1] for one in cited)
    write_conversations([pair("greeting", "Hello", "Hello!")], tmp_path / "out.jsonl")
    assert '"content": "Hello!"' in (tmp_path / "out.jsonl").read_text(encoding="utf-8")


def test_the_file_of_priors_is_what_its_program_writes() -> None:
    assert module(weights_in_use()) == Path(priors.__file__).read_text(encoding="utf-8")
