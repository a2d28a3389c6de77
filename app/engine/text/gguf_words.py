"""How a vocabulary cuts a text into words before it merges them, by the name that a GGUF file gives (`pre`).

    "llama-bpe"    "It's 1234 o'clock"    ->    It | 's |   | 123 | 4 |  o | 'clock

`assets/gguf-words.toml` lists the rules: llama.cpp's names and the patterns of the models' own tokenizers.
llama.cpp approximates some of them, because its patterns know no case beyond ASCII and no accents.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from app.settings import assets_dir


@dataclass(frozen=True, slots=True)
class WordRule:
    """The patterns cut a text in turn: each match of a pattern is a word, and so is the text between matches."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a word of the vocabulary is one token, whatever its merges would make of it
    begins: bool = False  # texts begin with BOS unless the file says otherwise
    composes: bool = False  # letters and accents are composed (NFC)
    byte_level: bool = True  # otherwise spaces are written as ▁, and unknown characters as <0x..>


@lru_cache(maxsize=1)
def word_rules() -> Mapping[str, WordRule]:
    """Return the rules of all known names."""
    rules = dict[str, WordRule]()
    for listed in tomllib.loads((assets_dir() / "gguf-words.toml").read_text(encoding="utf-8"))["rule"]:
        names, patterns = listed.pop("names"), tuple(listed.pop("patterns"))
        rules |= dict.fromkeys(names.split(), WordRule(patterns, **listed))
    return rules
