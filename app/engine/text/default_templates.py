"""Chooses a chat template for models without one, by the control tokens in their vocabulary.

`assets/default-templates.toml` lists how turns are written."""

import tomllib
from collections.abc import Collection

from app.settings import assets_dir
from app.values.dataclass_json import json_text

STARTS = "<|begin_of_text|>", "<bos>", "<BOS_TOKEN>", "<\uff5cbegin▁of▁sentence\uff5c>", "<s>"
"""The first of these tokens in the vocabulary begins a chat, unless the file's entry has its own `start`."""


def default_template(tokens: Collection[str]) -> str:
    """Return the chat template that fits a model with these control tokens; "" if none is known."""
    listed = tomllib.loads((assets_dir() / "default-templates.toml").read_text(encoding="utf-8"))
    turns = next(
        (one for one in listed["turns"] if all(token in tokens for token in one["tokens"].split())), None
    )
    if turns is None:
        return ""
    start = next((token for token in STARTS if token in tokens), "")
    turns = {"names": {}, "ends": {}, "start": start, "folds_system": False, **turns}
    body = (assets_dir() / "default-template.jinja").read_text(encoding="utf-8")
    return f"{{%- set turns = {json_text(turns)} %}}{body}"
