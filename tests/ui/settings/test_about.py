"""Versions, hardware, folders and network contacts."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.system.machine import parse_cpuinfo
from app.system.network_log import Contact
from app.ui import AppContext, Services
from app.ui.settings.about import checks_html, contacts, facts_html, hardware, versions
from app.ui.settings.self_check import Check
from app.values.messages import EngineStatus
from app.values.model import Memory
from tests.fakes import DEMO

CHECKOUT = Path(__file__).parents[3]
WITHOUT_TORCH = (
    "import sys; from app.ui.settings.about import versions; versions(); sys.exit('torch' in sys.modules)"
)


@pytest.mark.thorough
def test_versions_are_told_without_importing_torch() -> None:
    facts = dict(versions())
    assert {"Foresight", "Python", "torch", "transformers", "gradio", "SQLite"} <= facts.keys()
    assert facts["torch"][0].isdigit()
    child = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], cwd=CHECKOUT, check=False, timeout=60)
    assert child.returncode == 0


def test_each_device_tells_its_memory_and_the_model_what_it_runs_on() -> None:
    memories = [Memory("cuda:0", 5_000_000_000, 8_000_000_000), Memory("cpu", 1, 2)]
    facts = dict(hardware(memories, EngineStatus("ready", model=DEMO)))
    assert facts["Memory of cuda:0"] == "5.00 GB free of 8.00 GB"
    assert "demo" in facts["Model"] and "cpu" in facts["Model"]


def test_it_is_told_what_a_layer_does_in_kernels_of_our_own_and_why_a_card_is_not_used() -> None:
    notes = {"fused": "One kernel of our own each: 5 norms.", "device": "It is too old."}
    model = replace(DEMO, notes=notes)
    facts = hardware([], EngineStatus("ready", model=model))
    assert ("Layers", model.note("fused")) in facts
    assert ("Device", model.note("device")) in facts
    model = DEMO.with_note("compiler", "Drafts are made in Python: install gcc.")
    assert ("C compiler", model.note("compiler")) in hardware([], EngineStatus("ready", model=model))
    model = replace(DEMO, heads=True, notes={"heads": "Its own head drafts, too."})
    assert ("Drafting heads", model.note("heads")) in hardware([], EngineStatus("ready", model=model))
    assert "Layers" not in dict(hardware([], EngineStatus("ready", model=DEMO)))


def test_without_a_model_that_is_told() -> None:
    assert ("Model", "none loaded") in hardware([], EngineStatus("ready"))


def test_the_processors_name_is_read() -> None:
    assert parse_cpuinfo("processor: 0\nmodel name\t: A Fast One\nmodel name: B") == "A Fast One"
    assert parse_cpuinfo("processor: 0") == ""


def test_contacts_are_listed_with_their_reasons() -> None:
    hosts = (Contact("hub.example", 2, "the hub"), Contact("spy.example", 0, ""))
    assert contacts(hosts) == [
        ("hub.example", "2 times, the hub"), ("spy.example", "name looked up, reason unknown"),
    ]  # fmt: skip
    assert contacts(()) == [("None", "since Foresight was started")]


def test_all_sections_are_rendered_and_escaped(services: Services, app_context: AppContext) -> None:
    html = facts_html(services, replace(app_context, note=lambda: "<img> was damaged"))
    for title in ("Versions", "Hardware", "Folders"):
        assert f"<h4>{title}</h4>" in html
    assert "&lt;img&gt; was damaged" in html and "<img" not in html


def test_results_of_the_self_check_are_named_and_escaped() -> None:
    html = checks_html([Check("A", "passed", "fine"), Check("B", "failed", "<b>")])
    assert "1 of 2 checks passed" in html and 'aria-label="Failed"' in html and "&lt;b&gt;" in html
