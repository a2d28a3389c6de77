"""What Privacy and About show: versions, hardware, folders and network contacts, found without importing torch."""

import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from markupsafe import Markup

import app
from app.system.machine_name import processor_name
from app.system.network_log import Contact
from app.ui.about.checks import Check
from app.ui.frame.app_context import AppContext
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.frame.top_bar import describe
from app.values.messages import EngineStatus, ModelInfo
from app.values.model import Memory, gigabytes

TEMPLATE = "about.html"
PACKAGES = ("torch", "transformers", "gradio", "huggingface_hub", "safetensors")
Facts = list[tuple[str, str]]
"""Names and values."""


def facts_html(services: Services, app_context: AppContext) -> Markup:
    """Versions, hardware and folders, with a button that copies them."""
    memories = {memory.device: memory for memory in map(services.models.memory, ("", "cpu"))}
    sections = {
        "Versions": versions(),
        "Hardware": hardware(list(memories.values()), services.engine.status()),
        "Folders": folders(app_context),
    }
    return render_macro(TEMPLATE, "facts", sections=sections, diagnostics=diagnostics(sections))


def diagnostics(sections: Mapping[str, Facts]) -> str:
    """The sections as lines of text, for a report of a problem."""
    parts = [[title, *(f"  {name}: {value}" for name, value in facts)] for title, facts in sections.items()]
    return "\n".join(line for part in parts for line in part)


def contacts_html(app_context: AppContext) -> Markup:
    """The network contacts."""
    return render_macro(TEMPLATE, "contacts", facts=contacts(app_context.outside.contacts()))


def checks_html(checks: Sequence[Check]) -> Markup:
    """The results of the self-check, and how many have passed."""
    passed = sum(check.verdict == "passed" for check in checks)
    return render_macro(TEMPLATE, "checks", checks=checks, passed=passed)


def checking_html() -> Markup:
    """What is shown while the self-check runs."""
    return render_macro(TEMPLATE, "checking")


def versions() -> Facts:
    """The versions of the app and of its main packages."""
    return [
        ("Foresight", app.__version__),
        ("Python", platform.python_version()),
        *((package, _installed_version(package)) for package in PACKAGES),
        ("SQLite", sqlite3.sqlite_version),
    ]


def _installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def hardware(memories: Sequence[Memory], status: EngineStatus) -> Facts:
    """The processor, each device's memory, and how the loaded model runs."""
    facts = [
        ("System", f"{platform.system()} {platform.release()}"),
        ("Processor", processor_name()),
        ("Cores", str(os.cpu_count() or 1)),
    ]
    for one in memories:
        name = "Memory" if one.device == "cpu" else f"Memory of {one.device}"
        facts.append((name, f"{gigabytes(one.free)} free of {gigabytes(one.total)}"))
    if status.model is None:
        return [*facts, ("Model", status.note or "none loaded")]
    return [*facts, ("Model", describe(status.model)), *_model_notes(status.model)]


def _model_notes(model: ModelInfo) -> Facts:
    notes = {
        "Device": model.note("device"),
        "Lookahead": model.note("lookahead", "chains"),
        "Attention": model.note("attention"),
        "Step graphs": model.note("graphs"),
        "Layers": model.note("fused"),
        "C compiler": model.note("compiler"),
        "Same text": model.note("same-text"),
        "Draft model": model.note("draft-model"),
        "Drafting heads": model.note("heads"),
    }
    return [(name, note) for name, note in notes.items() if note]


def folders(app_context: AppContext) -> Facts:
    """Where the app's files are, and what happened to a file that could not be read."""
    return [
        ("Data", str(app_context.data_dir)),
        ("Models", str(app_context.hub_cache)),
        ("Log", str(app_context.log)),
        *([("Chats", note)] if (note := app_context.note()) else []),
    ]


def contacts(hosts: Sequence[Contact]) -> Facts:
    """The hosts outside this computer that this process has contacted, how often, and why."""
    return [(one.host, f"{_times(one)}, {one.why or 'reason unknown'}") for one in hosts] or [
        ("None", "since Foresight was started")
    ]


def _times(contact: Contact) -> str:
    if not contact.times:
        return "name looked up"
    return "once" if contact.times == 1 else f"{contact.times} times"
