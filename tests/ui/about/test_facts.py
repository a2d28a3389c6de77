"""Versions, hardware and paths."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from app.machine_name import parse_cpuinfo
from app.messages import EngineStatus
from app.model_messages import Memory
from app.ui.about.about_html import facts_html
from app.ui.about.facts import Fact, hardware, versions
from tests.fakes import DEMO

CHECKOUT = Path(__file__).parents[3]
WITHOUT_TORCH = (
    "import sys; from app.ui.about.facts import versions; versions(); sys.exit('torch' in sys.modules)"
)


def test_versions_are_told_without_importing_torch() -> None:
    told = {fact.name: fact.value for fact in versions()}
    assert {"Foresight", "Python", "torch", "transformers", "gradio", "SQLite"} <= told.keys()
    assert told["torch"][0].isdigit()
    child = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], cwd=CHECKOUT, check=False, timeout=60)
    assert child.returncode == 0


def test_each_device_tells_its_memory_and_the_model_what_it_runs_on() -> None:
    memories = [Memory("cuda:0", 5_000_000_000, 8_000_000_000), Memory("cpu", 1, 2)]
    told = {fact.name: fact.value for fact in hardware(memories, EngineStatus("ready", model=DEMO))}
    assert told["Memory of cuda:0"] == "5.00 GB free of 8.00 GB"
    assert "demo" in told["Model"] and "cpu" in told["Model"]


def test_it_is_told_what_a_layer_does_in_kernels_of_our_own_and_why_a_card_is_not_used() -> None:
    model = replace(DEMO, fused_note="One kernel of our own each: 5 norms.", device_note="It is too old.")
    told = hardware([], EngineStatus("ready", model=model))
    assert Fact("Layers", model.fused_note) in told
    assert Fact("Device", model.device_note) in told
    assert "Layers" not in {fact.name for fact in hardware([], EngineStatus("ready", model=DEMO))}


def test_without_a_model_that_is_told() -> None:
    assert Fact("Model", "none is loaded") in hardware([], EngineStatus("ready"))


def test_the_processors_name_is_read() -> None:
    assert parse_cpuinfo("processor: 0\nmodel name\t: A Fast One\nmodel name: B") == "A Fast One"
    assert parse_cpuinfo("processor: 0") == ""


def test_facts_cannot_write_html() -> None:
    assert "<img" not in facts_html("<img>", [Fact("<img>", "<img>")])
