"""Computes a digest of a model's vocabulary from its tokenizer.json, to find models with the same tokenizer.

The file is not trusted. The digest of an invalid file is "", which must not be compared with other digests.
"""

from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from app.values.dataclass_json import parse_json

LARGEST = 100_000_000
"""Bytes of the largest accepted tokenizer.json; the file for 256,000 tokens has 33 million bytes."""


def vocabulary_digest(folder: Path) -> str:
    """Return a digest of all tokens and their ids; "" if the model has no valid tokenizer.json."""
    try:
        file = folder / "tokenizer.json"
        about = file.stat()
    except OSError:
        return ""
    return _digest(file, about.st_size, about.st_mtime_ns)


@lru_cache(64)
def _digest(file: Path, size: int, _changed: int) -> str:
    if size > LARGEST:
        return ""
    try:
        tokenizer = parse_json(file.read_bytes())
        tokens = tokenizer["model"]["vocab"]
        if isinstance(tokens, list):  # unigram models list their tokens
            known = {str(token): number for number, (token, _) in enumerate(tokens)}
        else:
            known = {str(token): int(number) for token, number in tokens.items()}
        added = {str(one["content"]): int(one["id"]) for one in tokenizer.get("added_tokens", [])}
        return digest_of(known | added)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""


def digest_of(vocabulary: dict[str, int]) -> str:
    listed = sorted((number, token) for token, number in vocabulary.items())
    return sha256("\0".join(f"{number} {token}" for number, token in listed).encode()).hexdigest()
