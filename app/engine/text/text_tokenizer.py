"""A tokenizer that encodes and decodes a text in parts.

A draft model with another tokenizer than its target's needs both directions (`lookahead/retokenised_line.py`). Many
tokenizers put a space before every text, even before a part that begins in the middle of a word. To prevent that, a
part is encoded with a prefix, and the prefix's tokens are removed:

    "Jap" + "an"     "an" alone is "_an"     after a line break it is "_ \\n an", of which "an" is kept
"""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

HALF = "\N{REPLACEMENT CHARACTER}"
LONGEST_CHARACTER = 8
"""Tokens after which an incomplete character is taken as it is: its bytes are no character."""
FEWEST_BEFORE, MOST_BEFORE = 4, 12
"""How many preceding tokens are decoded with new ones: as many as begin with a whole character."""
BEFORE = ("", "\n")
"""The prefixes that are tried before a part of a text."""
TRIALS = (
    "Here is how to make a soup: chop 12 onions, 3.5 carrots (don't peel them!) and a stick of celery.",
    "def halved(number):\n    if number % 2:\n        return None\n\n    return number // 2  # a comment\n",
    'Ein Stück Käse; «déjà vu» — 你好。 Привет!\n\n- "One"\n-\ttwo 🙂 three',
)
"""Texts that must be the same after encoding and decoding."""


class LossyTokenizer(ValueError):
    """Encoding and decoding changes a text."""


class TextTokenizer:
    """Encodes and decodes text without control tokens. Raises LossyTokenizer where that changes a text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self.begin: list[int] = list(tokenizer("").input_ids)
        """The tokens that are put before every text."""
        added = tokenizer.added_tokens_decoder.items()
        self.controls = {number: token.content for number, token in added if token.special}
        """The control tokens and their spelling. Encoding a text never gives one of them."""
        self._before: tuple[str, list[int]] = "", []
        self._before = self._fitting()

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The control tokens at the beginning and the end of a text, where there are any."""
        return self._tokenizer.bos_token_id, self._tokenizer.eos_token_id

    def first(self, text: str) -> list[int]:
        """The tokens of a text, without those that are put before every text."""
        return list(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids)

    def following(self, text: str) -> list[int]:
        """The tokens of a text that continues another one."""
        before, known = self._before
        found = self.first(before + text)
        return found[len(known) :] if found[: len(known)] == known else self.first(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of these tokens, control tokens left out."""
        text = self._tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return str(text)

    def said(self, before: Sequence[int], tokens: Sequence[int]) -> str:
        """The text that tokens add to the preceding ones. It ends with U+FFFD where a character is incomplete."""
        return self.decode([*before, *tokens])[len(self.decode(before)) :]

    def tail(self, tokens: Sequence[int]) -> list[int]:
        """The last few of these tokens: those that follow decode to the same text after them as after all."""
        for count in range(FEWEST_BEFORE, min(MOST_BEFORE, len(tokens))):
            found = tokens[-count:]
            if HALF not in self.decode(found):
                return list(found)
        return list(tokens[-MOST_BEFORE:])

    def _fitting(self) -> tuple[str, list[int]]:
        """The prefix for a part of a text, and the prefix's tokens."""
        for before in BEFORE:
            self._before = before, self.first(before)
            if all(map(self._comes_back, TRIALS)):
                return self._before
        raise LossyTokenizer("encoding and decoding changes texts")

    def _comes_back(self, text: str) -> bool:
        """Whether a text stays the same when it is encoded in two parts, wherever it is cut."""
        return all(
            self.decode([*self.first(text[:cut]), *self.following(text[cut:])]) == text
            for cut in range(1, len(text), 3)
        )
