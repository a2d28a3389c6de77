"""Counts the tokens of a chat and decodes single tokens, on any thread, while the worker decodes.

A very long text is not tokenised. A lower bound of its count is computed from its length, because no token has more
bytes, or more letters and digits, than the vocabulary's maximum."""

import json
import re
import string
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from app.values.chat_format import DEFAULT_THINKING, Thinking
from app.values.messages import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Chat = tuple[Message, ...]

FAR = 2
"""If a chat is certain to have more than this many times the context's tokens, only a lower bound is computed."""
REMEMBERED = 256
"""Number of chats whose counts are cached, because a page asks for the same chats again and again."""


class CachedTokenReader:
    """Counts and decodes tokens as the loaded model's tokenizer does. `context` is in tokens."""

    def __init__(
        self,
        context: int = 0,
        count: Callable[[Chat, Thinking, str], int] = lambda _chat, _thinking, _tools: 0,
        spell: Callable[[int], bytes] = lambda _token: b"",
    ) -> None:
        """Cache the results of `count` and `spell`, which are called by one thread at a time."""
        self.context = context
        self._lock = threading.Lock()
        self._count = lru_cache(REMEMBERED)(count)
        self._spell = lru_cache(None)(spell)  # at most one entry for each token

    def count(self, chat: Chat, thinking: Thinking = DEFAULT_THINKING, tools: str = "") -> int:
        """Count the tokens of this chat's prompt; 0 without messages.

        `tools` is JSON of tools for the chat template. If the chat is certain to have more than FAR times the
        context's tokens, a lower bound is returned. Raises BadOption if the model's template refuses the chat."""
        with self._lock:
            return self._count(chat, thinking, tools) if chat else 0

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the text of each token. Special tokens are spelled, and a part of a character gives U+FFFD."""
        return tuple(one.decode(errors="replace") for one in self.spelled(ids))

    def spelled(self, ids: Sequence[int]) -> tuple[bytes, ...]:
        """Return the bytes of each token, which may be a part of a character."""
        with self._lock:
            return tuple(map(self._spell, ids))


def spelled_token(name: str, text: str) -> bytes:
    """Return the bytes of a token with this `name` in the vocabulary, whose decoded text is `text`."""
    if "\N{REPLACEMENT CHARACTER}" in text:
        if byte := re.fullmatch("<0x([0-9A-F]{2})>", name):
            return bytes.fromhex(byte[1])
        byte_of = {character: byte for byte, character in _spelled_bytes().items()}
        if all(character in byte_of for character in name):
            return bytes(byte_of[character] for character in name)
    return text.encode(errors="replace")


Count = Callable[[str], int]
"""(text) -> how many tokens it has."""

PARTS = 8192
"""Number of parts whose counts are cached. A chat has two or three parts for each message."""
TRIED = 8
"""Number of special tokens that are tried from each end of the list. Many models have hundreds of the same kind."""


def in_parts(whole: Count, borders: Sequence[str]) -> Count:
    """Return a function that counts the parts between special tokens separately and caches their counts.

    Returns `whole` itself if the counts of sample texts differ."""
    if not borders:
        return whole
    longest_first = sorted(borders, key=len, reverse=True)
    border = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
    known = lru_cache(PARTS)(whole)

    def count(text: str) -> int:
        return sum(known(part) for part in border.split(text) if part)

    # Texts whose counts show whether parts are tokenised differently by themselves.
    trials = (
        separator.join((first, second, "a", first, " a", second, "\n\na ", first))
        for first, second in zip(borders[:TRIED], borders[-TRIED:], strict=True)
        for separator in ("", "x", " ", "\n")
    )
    return count if all(count(text) == whole(text) for text in trials) else whole


ALPHANUMERIC = (string.ascii_letters + string.digits).encode()
BYTES_OF_NFC = 3
"""Composing (NFC) keeps at least 1/3 of a text's bytes: three Hangul letters (9 bytes) become one (3 bytes)."""
SHORT = 2**14
"""A text with fewer characters is tokenised so fast that no estimate is needed."""
SPLITTERS = frozenset({"ByteLevel", "Digits", "Metaspace", "Punctuation", "Split", "UnicodeScripts"})
"""Pre-tokenizers that keep every character, unless their behaviour is "Removed"."""


class FewestTokens:
    """Computes a lower bound of a text's number of tokens. The vocabulary is read for the first long text.

    The bound is 0 for tokenizers that may remove characters, or make one token of several unknown characters."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._largest = cache(partial(_largest_tokens, tokenizer))

    def of(self, text: str) -> int:
        """Return a lower bound of the number of tokens; 0 for a short text, or if nothing is known."""
        if len(text) < SHORT or not (largest := self._largest()).most_bytes:
            return 0
        written = text.encode("utf-8", "replace").translate(None, largest.left_out)
        if largest.composes and not text.isascii():
            return len(written) // (BYTES_OF_NFC * largest.most_bytes)
        letters = len(written) - len(written.translate(None, ALPHANUMERIC))
        return max(len(written) // largest.most_bytes, letters // largest.most_letters)


@dataclass(frozen=True, slots=True)
class _Largest:
    """Maximum numbers of bytes and of ASCII letters and digits of a token; 0 if unknown. Bytes in `left_out` have
    no token.

    With `composes` letters are counted only in ASCII texts, because composing characters never changes these."""

    most_bytes: int = 0
    most_letters: int = 0
    composes: bool = False
    left_out: bytes = b""


def _largest_tokens(tokenizer: "PreTrainedTokenizerBase") -> _Largest:
    from transformers import PreTrainedTokenizerFast

    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return _Largest()
    backend, vocabulary = tokenizer.backend_tokenizer, tokenizer.get_vocab()
    normalizers, splitters = _parts(backend.normalizer), _parts(backend.pre_tokenizer)
    added = tokenizer.added_tokens_decoder.values()
    is_byte_level = any(one["type"] == "ByteLevel" for one in splitters)
    keeps_all = (
        all(map(_keeps_characters, normalizers))
        and all(one["type"] in SPLITTERS and one.get("behavior") != "Removed" for one in splitters)
        and not any(token.lstrip or token.rstrip for token in added)
        and _knows_bytes(backend.model, vocabulary, is_byte_level)
    )
    if not keeps_all:
        return _Largest()
    names = {token.content for token in added}
    lengths = (
        len(name) if is_byte_level and name not in names else len(name.encode("utf-8", "replace"))
        for name in vocabulary
    )
    left_out = [byte for byte, name in _spelled_bytes().items() if is_byte_level and name not in vocabulary]
    composes = any(one["type"] == "NFC" for one in normalizers)
    return _Largest(max(1, *lengths), max(1, *map(_letters, vocabulary)), composes, bytes(left_out))


def _letters(name: str) -> int:
    return sum(character.isascii() and character.isalnum() for character in name)


def _parts(component: Any) -> list[dict[str, Any]]:
    """Describe a normalizer or pre-tokenizer, or each part of a sequence, as in tokenizer.json."""

    def flat(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
        inner = described.get("normalizers") or described.get("pretokenizers")
        if described["type"] != "Sequence" or inner is None:
            yield described
        else:
            for one in inner:
                yield from flat(one)

    return [] if component is None else list(flat(json.loads(component.__getstate__())))


def _keeps_characters(normalizer: dict[str, Any]) -> bool:
    """Return whether a normalizer never reduces a text's bytes and letters, except by composing characters."""
    if normalizer["type"] != "Replace":
        return normalizer["type"] in ("NFC", "Prepend")
    replaced, content = normalizer["pattern"].get("String", ""), normalizer["content"]
    return bool(replaced) and not _letters(replaced) and len(content.encode()) >= len(replaced.encode())


def _knows_bytes(model: Any, vocabulary: Collection[str], is_byte_level: bool) -> bool:
    """Return whether no token stands for several unknown bytes: each byte has a token or is replaced by itself."""
    from tokenizers import models

    match model:
        case models.BPE() if is_byte_level:
            return not (model.unk_token and model.fuse_unk)
        case models.BPE():
            falls_back = bool(model.byte_fallback)
        case models.Unigram():
            falls_back = bool(json.loads(model.__getstate__()).get("byte_fallback"))
        case _:
            return False
    return falls_back and all(f"<0x{byte:02X}>" in vocabulary for byte in range(256))


def _spelled_bytes() -> dict[int, str]:
    """Map every byte to its character in byte-level tokens.

    Visible bytes stay as they are; the hidden bytes get the characters from 256 on, in order."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + at) for at, byte in enumerate(hidden)}
