"""Prompts as they come from the command line: one text, or files with one JSON object a line.

{"prompt": "How do I count the lines of a file?"}
{"messages": [{"role": "user", "content": "Hi"}, ...]}
{"prompt": "plinth otter seven", "temperature": 1.5, "seed": 3}

What a line says about its sampling holds unless the command line says otherwise.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from app.errors import BadOption
from app.messages import Message, Options, Prompt, Sampling
from app.settings import assets_dir
from app.text_normalisation import without_surrogates

SHIPPED_SETS = ("chat", "tasks", "shell", "code", "quoting", "random")
"""The prompt sets in assets/bench, in the order in which `bench` runs them."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The temperature and the seed that were asked for; None: nothing was said."""

    temperature: float | None = None
    seed: int | None = None

    def over(self, other: "Draw") -> "Draw":
        """What both say, this one first."""
        return Draw(_first(self.temperature, other.temperature), _first(self.seed, other.seed))

    def apply(self, sampling: Sampling) -> Sampling:
        """The sampling, drawn so. Raises ValueError for impossible values."""
        return replace(
            sampling,
            temperature=sampling.temperature if self.temperature is None else self.temperature,
            seed=sampling.seed if self.seed is None else self.seed,
        )


T = TypeVar("T")


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and how its reply is to be drawn."""

    prompt: Prompt
    draw: Draw = field(default_factory=Draw)

    def options(self, options: Options) -> Options:
        """These options, drawn as this prompt asks."""
        return replace(options, sampling=self.draw.apply(options.sampling))


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of one file, under its name."""

    name: str
    prompts: tuple[Asked, ...]


def read_prompts(text: str | None, file: Path | None, raw: bool, draw: Draw) -> list[Asked]:
    """The prompts of --prompt or --prompts, exactly one of which is given, to be drawn so."""
    if (text is None) == (file is None):
        raise BadOption("Give either --prompt TEXT or --prompts FILE.jsonl.")
    if file is None:
        return [Asked(_as_prompt(text or "", raw, "--prompt"), draw)]
    asked = [
        _parse(line, raw, f"{file}, line {number}")
        for number, line in enumerate(_lines(file), start=1)
        if line.strip()
    ]
    if not asked:
        raise BadOption(f'{file} has no prompts: write one object such as {{"prompt": "Hello"}} a line.')
    return [replace(one, draw=draw.over(one.draw)) for one in asked]


def read_sets(files: Sequence[Path], raw: bool, draw: Draw) -> list[PromptSet]:
    """A prompt set for each file, or all the shipped ones; sets of one name are told apart by their paths."""
    paths = list(files) or [assets_dir() / "bench" / f"{name}.jsonl" for name in SHIPPED_SETS]
    stems = [path.stem for path in paths]
    return [
        PromptSet(stem if stems.count(stem) == 1 else str(path), tuple(read_prompts(None, path, raw, draw)))
        for stem, path in zip(stems, paths, strict=True)
    ]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadOption(f"The prompts file {file} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise BadOption(f"The prompts file {file} is not UTF-8 text.") from error


def _parse(line: str, raw: bool, where: str) -> Asked:
    try:
        item = json.loads(line)
    except ValueError as error:
        raise BadOption(f"{where} is not JSON: write one object a line.") from error
    return Asked(_prompt(item, raw, where), _draw(item, where))


def _draw(item: dict[str, Any], where: str) -> Draw:
    """What the line says about its sampling, checked at once so that its number can be told."""
    temperature, seed = item.get("temperature"), item.get("seed")
    if not isinstance(temperature, float | int | None) or not isinstance(seed, int | None):
        raise BadOption(f"{where}: a temperature must be a number and a seed a whole one.")
    draw = Draw(temperature, seed)
    try:
        draw.apply(Sampling())
    except ValueError as error:
        raise BadOption(f"{where}: {error}.") from error
    return draw


def _prompt(item: Any, raw: bool, where: str) -> Prompt:
    match item:
        case {"prompt": str(text)}:
            return _as_prompt(text, raw, where)
        case {"messages": _} if raw:
            raise BadOption(f"{where}: --raw takes texts, so give a prompt instead of messages.")
        case {"messages": [*messages]} if messages:
            return tuple(_message(message, where) for message in messages)
        case _:
            raise BadOption(f'{where} needs "prompt": "..." or "messages": [...].')


def _message(item: Any, where: str) -> Message:
    match item:
        case {"role": "system" | "user" | "assistant" as role, "content": str(content)}:
            return Message(role, without_surrogates(content))
        case _:
            raise BadOption(f"{where}: a message needs a role (system, user or assistant) and a content.")


def _as_prompt(text: str, raw: bool, where: str) -> Prompt:
    if not text.strip():
        raise BadOption(f"{where}: the prompt is empty.")
    readable = without_surrogates(text)
    return readable if raw else (Message("user", readable),)
