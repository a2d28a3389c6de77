"""Prompts as they come from the command line: one text, or a file with one JSON object a line."""

import json
from pathlib import Path
from typing import Any

from app.errors import BadOption
from app.messages import Message

Prompt = tuple[Message, ...] | str


def read_prompts(text: str | None, file: Path | None, raw: bool) -> list[Prompt]:
    """The prompts of --prompt or --prompts, exactly one of which must be given."""
    if (text is None) == (file is None):
        raise BadOption("Give either --prompt TEXT or --prompts FILE.jsonl.")
    if file is None:
        return [_as_prompt(text or "", raw, "--prompt")]
    prompts = [
        _parse(line, raw, f"{file}, line {number}")
        for number, line in enumerate(_lines(file), start=1)
        if line.strip()
    ]
    if not prompts:
        raise BadOption(f'{file} has no prompts: write one object such as {{"prompt": "Hello"}} a line.')
    return prompts


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadOption(f"The prompts file {file} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise BadOption(f"The prompts file {file} is not UTF-8 text.") from error


def _parse(line: str, raw: bool, where: str) -> Prompt:
    try:
        item = json.loads(line)
    except ValueError as error:
        raise BadOption(f"{where} is not JSON: write one object a line.") from error
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
            return Message(role, content)
        case _:
            raise BadOption(f"{where}: a message needs a role (system, user or assistant) and a content.")


def _as_prompt(text: str, raw: bool, where: str) -> Prompt:
    if not text.strip():
        raise BadOption(f"{where}: the prompt is empty.")
    return text if raw else (Message("user", text),)
