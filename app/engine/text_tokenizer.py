"""A tokenizer as something that reads texts which go on, and says what tokens say behind others.

Draft models with another tokenizer than their target's need both directions (`lookahead/retokenised_line.py`). Many
tokenizers put a space before every text, also where it goes on with half a word. What tells them that it does is
a text before it, whose tokens are cut off:

    "Jap" + "an"     alone "_an"     behind a line break "_ \\n an", of which "an" is left
"""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

HALF = "\N{REPLACEMENT CHARACTER}"
LONGEST_CHARACTER = 8
"""Tokens after which half a character is taken as it is: its bytes mean nothing."""
FEWEST_BEFORE, MOST_BEFORE = 4, 12
"""Tokens that stand before others when these are decoded, until what they say is whole."""
BEFORE = ("", "\n")
"""What may tell a tokenizer that a text goes on."""
TRIALS = (
    "Here is how to make a soup: chop 12 onions, 3.5 carrots (don't peel them!) and a stick of celery.",
    "def halved(number):\n    if number % 2:\n        return None\n\n    return number // 2  # a comment\n",
    'Ein Stück Käse; «déjà vu» — 你好。 Привет!\n\n- "One"\n-\ttwo 🙂 three',
)
"""What is to come back as it was."""


class LossyTokenizer(ValueError):
    """Texts do not come back from its tokens as they were."""


class TextTokenizer:
    """Texts to tokens and back, control tokens apart. Raises LossyTokenizer where that changes them."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self.begin: list[int] = list(tokenizer("").input_ids)
        """What stands before every text."""
        added = tokenizer.added_tokens_decoder.items()
        self.controls = {number: token.content for number, token in added if token.special}
        """The control tokens and how they are spelled; texts say none of them."""
        self._before: tuple[str, list[int]] = "", []
        self._before = self._fitting()

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The control tokens that begin and end texts, where there are any."""
        return self._tokenizer.bos_token_id, self._tokenizer.eos_token_id

    def first(self, text: str) -> list[int]:
        """Tokens of a text without those that stand before every text."""
        return list(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids)

    def following(self, text: str) -> list[int]:
        """Tokens of a text that another one stands before."""
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
        """What tokens add to the text of those before them; it ends with U+FFFD where a character is half there."""
        return self.decode([*before, *tokens])[len(self.decode(before)) :]

    def tail(self, tokens: Sequence[int]) -> list[int]:
        """The last few of these tokens, such that what others say behind them is what they say behind all."""
        for count in range(FEWEST_BEFORE, min(MOST_BEFORE, len(tokens))):
            found = tokens[-count:]
            if HALF not in self.decode(found):
                return list(found)
        return list(tokens[-MOST_BEFORE:])

    def _fitting(self) -> tuple[str, list[int]]:
        """What to put before texts that go on, and its tokens."""
        for before in BEFORE:
            self._before = before, self.first(before)
            if all(map(self._comes_back, TRIALS)):
                return self._before
        raise LossyTokenizer("texts do not come back from its tokens as they were")

    def _comes_back(self, text: str) -> bool:
        """Whether a text does that is read in two parts, wherever it is cut."""
        return all(
            self.decode([*self.first(text[:cut]), *self.following(text[cut:])]) == text
            for cut in range(1, len(text), 3)
        )
