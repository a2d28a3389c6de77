"""A model's chat template, read without its tokenizer: to learn what it says of tools. It is never filled here."""

from pathlib import Path

from app.values.dataclass_json import parse_json
from app.values.gguf_header import is_gguf, read_gguf_header

NAMES = ("additional_chat_templates/tool_use.jinja", "chat_template.jinja")
CONFIGS = ("chat_template.json", "tokenizer_config.json")
LARGEST = 20_000_000
"""Bytes of a file that is read: a tokenizer_config.json may hold a large vocabulary."""


def chat_template(path: Path) -> str:
    """The template of the model in this folder or GGUF file, the one for tools if there are more; "" for none."""
    try:
        if path.is_file():
            return (
                _text(read_gguf_header(path).values.get("tokenizer.chat_template")) if is_gguf(path) else ""
            )
        files = [path / name for name in NAMES if (path / name).is_file()]
        if files:
            return files[0].read_text(encoding="utf-8")
        found = [_in_config(path / name) for name in CONFIGS]
        return next((one for one in found if one), "")
    except (OSError, ValueError):
        return ""


def _in_config(file: Path) -> str:
    if not file.is_file() or file.stat().st_size > LARGEST:
        return ""
    config = parse_json(file.read_bytes())
    given = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(given, list):
        named = {one.get("name"): one.get("template") for one in given if isinstance(one, dict)}
        given = named.get("tool_use", named.get("default"))
    return _text(given)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
