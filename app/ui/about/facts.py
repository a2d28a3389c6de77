"""Versions, hardware and paths, asked without importing torch."""

import os
import platform
import sqlite3
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import app
from app.conversation.machine import processor_name
from app.messages import EngineStatus, ModelInfo
from app.model_messages import Memory, gigabytes
from app.ui.about.surroundings import Surroundings
from app.ui.top_bar import describe

PACKAGES = ("torch", "transformers", "gradio", "huggingface_hub", "safetensors")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something about the app, and what it is."""

    name: str
    value: str


def versions() -> list[Fact]:
    """The app's version and those of what it is made of."""
    return [
        Fact("Foresight", app.__version__),
        Fact("Python", platform.python_version()),
        *(Fact(package, _installed(package)) for package in PACKAGES),
        Fact("SQLite", sqlite3.sqlite_version),
    ]


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def hardware(memories: list[Memory], status: EngineStatus) -> list[Fact]:
    """The processor, memory of each device, and what the loaded model runs on."""
    facts = [
        Fact("System", f"{platform.system()} {platform.release()}"),
        Fact("Processor", processor_name()),
        Fact("Cores", str(os.cpu_count() or 1)),
    ]
    facts += [
        Fact(_memory_name(one), f"{gigabytes(one.free)} free of {gigabytes(one.total)}") for one in memories
    ]
    if status.model is None:
        return [*facts, Fact("Model", status.note or "none is loaded")]
    return [*facts, Fact("Model", describe(status.model)), *_notes(status.model)]


def _notes(model: ModelInfo) -> list[Fact]:
    notes = {
        "Device": model.device_note,
        "Lookahead": model.lookahead_note,
        "Attention": model.attention_note,
        "Step graphs": model.graphs_note,
        "Layers": model.fused_note,
        "Same text": model.same_text_note,
    }
    return [Fact(name, note) for name, note in notes.items() if note]


def _memory_name(memory: Memory) -> str:
    return "Memory" if memory.device == "cpu" else f"Memory of {memory.device}"


def paths(surroundings: Surroundings) -> list[Fact]:
    """Where files are, and what became of one that could not be read."""
    return [
        Fact("Data", str(surroundings.data_dir)),
        Fact("Hub cache", str(surroundings.hub_cache)),
        Fact("Log", str(surroundings.log)),
        *([Fact("Chats", surroundings.note)] if surroundings.note else []),
    ]
