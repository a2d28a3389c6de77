"""Rules by which tokenizers cut a text into words before they merge characters. GGUF files name their rule (`pre`).

`assets/gguf-words.toml` lists the rules: llama.cpp's names and the patterns of the models' own tokenizers.
llama.cpp approximates some of them, because its patterns know no case beyond ASCII and no accents.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.errors import ModelBroken

CUT_FIRST = ("gpt2", "gemma4")
"""The kinds of vocabularies whose tokenizers cut a text into words before merging."""
KINDS = (*CUT_FIRST, "llama", "t5")


@dataclass(frozen=True, slots=True)
class WordRule:
    """The patterns cut a text in turn: each match of a pattern is a word, and so is the text between matches."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a word of the vocabulary is one token, even if its merges give several
    begins: bool = False  # texts begin with BOS unless the file says otherwise
    composes: bool = False  # letters and accents are composed (NFC)
    byte_level: bool = True  # otherwise spaces are written as ▁, and unknown characters as <0x..>


@lru_cache(maxsize=1)
def word_rules(assets: Path) -> Mapping[str, WordRule]:
    """Return the rules by name, read from gguf-words.toml in the folder of shipped files."""
    rules = dict[str, WordRule]()
    for listed in tomllib.loads((assets / "gguf-words.toml").read_text(encoding="utf-8"))["rule"]:
        names, patterns = listed.pop("names"), tuple(listed.pop("patterns"))
        rules |= dict.fromkeys(names.split(), WordRule(patterns, **listed))
    return rules


def rule_name(values: Mapping[str, Any]) -> str:
    """Return the name of the rule of a vocabulary, by the values of a GGUF header."""
    model = values.get("tokenizer.ggml.model")
    return "gemma4" if model == "gemma4" else str(values.get("tokenizer.ggml.pre") or "default")


def check_vocabulary(values: Mapping[str, Any], name: str, assets: Path) -> None:
    """Raise ModelBroken if the model called `name` has a vocabulary of an unknown kind or with an unknown rule."""
    kind = str(values.get("tokenizer.ggml.model") or KINDS[0])
    rule = rule_name(values)
    is_known = rule in word_rules(assets) if kind in CUT_FIRST else kind in KINDS
    if not is_known:
        unknown = (rule if kind in CUT_FIRST else kind)[:60]
        raise ModelBroken(
            f'The vocabulary of {name} is of a kind that this version of Foresight does not know ("{unknown}"): '
            "update Foresight, or choose the same model in safetensors."
        )
