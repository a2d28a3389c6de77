"""Reads from the source files of the installed transformers which kinds of models it knows.

The files are only parsed, because importing transformers takes seconds."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

KINDS, MODULES = "CONFIG_MAPPING_NAMES", "SPECIAL_MODEL_TYPE_TO_MODULE_NAME"
MODELS = "MODEL_MAPPING_NAMES"
TEXT, MULTIMODAL = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES"
PICTURES = "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"
TRANSLATING, ENCODERS = "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"
SPEAKING, TRANSCRIBING = (
    "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
)
"""The names of transformers' tables of model types, of the folders that define them, and of their tasks."""


def is_known(model_type: str) -> bool:
    return is_in(model_type, KINDS, MODELS, TEXT)


def is_in(model_type: str, *tables: str) -> bool:
    return any(model_type in _table(name) for name in tables)


@cache
def default_values(model_type: str) -> Mapping[str, Any]:
    """Return the constant default values of a config.json of this kind of model; {} if they are not known."""
    module = _table(MODULES).get(model_type, model_type.replace("-", "_"))
    wanted = _table(KINDS).get(model_type)
    found = (
        node.body
        for node in _statements(f"models/{module}/configuration_{module}.py")
        if isinstance(node, ast.ClassDef) and node.name == wanted
    )
    return {
        one.target.id: one.value.value
        for one in next(found, [])
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and isinstance(one.value, ast.Constant)
    }


@cache
def _tables() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for file in ("auto_mappings", "modeling_auto"):
        for node in _statements(f"models/auto/{file}.py"):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, {}).update(_pairs(node.value))
    return found


def _table(name: str) -> Mapping[str, str]:
    return _tables().get(name, {})


def _pairs(value: ast.expr) -> Iterator[tuple[str, str]]:
    for node in ast.walk(value):
        match node:
            case ast.Tuple(elts=[ast.Constant(value=str(key)), ast.Constant(value=str(word))]):
                yield key, word
            case ast.Tuple(
                elts=[ast.Constant(value=str(key)), ast.Tuple(elts=[ast.Constant(value=str(word)), *_])]
            ):
                yield key, word


def _statements(file: str) -> list[ast.stmt]:
    spec = find_spec("transformers")
    path = Path(spec.origin).parent / file if spec and spec.origin else Path()
    return ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
