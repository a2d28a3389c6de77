"""The continuation that a draft model with another tokenizer writes, in its target's tokens.

The draft model decodes greedily. A word is re-tokenised once the next word has begun, since until then its tokens
may still change. With | between tokens, and the lead of each token over the second likeliest one in logits:

    the draft model writes   " tr" 2.1 | "ip" 4.0 | " to" 3.2
    the target's tokens      " trip" 2.1                            " to" may still become " together"

Other likely tokens of the draft model are proposed, too, if they are a single token of the target.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

from torch import Tensor

from app.engine.block.entries import GAPS, LEADS
from app.engine.drafters.draft_model import PROPOSALS, Proposal, largest
from app.engine.drafters.retokenised_line import shared_controls
from app.engine.text.text_tokenizer import HALF, LONGEST_CHARACTER, TextTokenizer

WORD_END = re.compile(r"(?<=\S)(?= )|(?<=\w)(?=[^\w '\u2019])|(?<=\n)(?=\S)")
"""The end of a word, a punctuation mark or a line."""
LONGEST_WORD = 6
"""Tokens of the draft model after which a word is re-tokenised before it ends, without its last token: not all
scripts have spaces."""
MOST_WRITTEN = 64
"""The most tokens that the draft model writes after one text."""
REMEMBERED = 65_536
"""How many of the draft model's tokens are kept with their translation."""


class Translation:
    """Translates a draft model's tokens into those of its target."""

    def __init__(self, draft: TextTokenizer, target: TextTokenizer, vocabulary: int) -> None:
        """`vocabulary` is the target's: other tokens are not proposed."""
        self.draft, self.target, self.vocabulary = draft, target, vocabulary
        self.controls = shared_controls(draft, target)
        self._word = draft.first("word")
        self.single: Callable[[int], list[int]] = lru_cache(REMEMBERED)(self._single)
        """The target's token with the same text as a token of the draft model: [token], or [] if there is none."""

    def _single(self, token: int) -> list[int]:
        said = self.draft.said(self._word, [token])
        found = self.target.following(said) if said and HALF not in said else []
        return found if len(found) == 1 else []


class Continuation:
    """The continuation of one text. It is written as far as it is asked for."""

    def __init__(
        self,
        text: int,
        guesses: Sequence[int],
        line: Sequence[int],
        read: Callable[[list[int]], Tensor],
        translation: Translation,
    ) -> None:
        """`text` is how many of the target's tokens precede the guesses; `line` is both in the draft's tokens.

        `read` returns the logits [vocab] after a line, an empty tensor where the model cannot read it."""
        self.start = text + len(guesses)
        self._text_tokens, self._guesses = text, list(guesses)
        self.tokens: list[int] = []
        """The target's tokens."""
        self._proposals: list[list[Proposal]] = []  # in the place of each of them
        self._line, self._read, self._translation = list(line), read, translation
        self._before = translation.draft.tail(line)
        self._written: list[int] = []
        self._named: list[tuple[list[int], list[float]]] = []  # the likeliest tokens in the place of each
        self._ends: list[int] = []  # of each in the text
        self._text = ""
        self._given = 0  # characters of the text that the target's tokens say
        self._is_over = False

    def goes_on(self, line: Sequence[int]) -> bool:
        """Whether a line of the target's tokens agrees with this continuation, as far as the line goes."""
        said = list(line[self._text_tokens :])
        known = [*self._guesses, *self.tokens]
        return len(self._guesses) <= len(said) and said == known[: len(said)]

    def proposed(self, place: int) -> list[Proposal]:
        """The proposals for the token at this place, counted from `start`: the likeliest first, [] for none."""
        while len(self.tokens) <= place and not self._is_over:
            self._write()
        return self._proposals[place] if place < len(self.tokens) else []

    def _write(self) -> None:
        """Write one more token."""
        logits = self._read([*self._line, *self._written])
        if not len(logits):
            self._is_over = True
            return
        values, ids = largest(logits.float(), PROPOSALS)
        named = ids.tolist()
        self._written.append(named[0])
        self._named.append((named, values.tolist()))
        if named[0] in self._translation.draft.controls:
            self._end(named[0])
            return
        text = self._translation.draft.said(self._before, self._written)
        self._text = self._text if text.endswith(HALF) else text
        self._ends.append(len(self._text))
        for found in WORD_END.finditer(self._text, self._given + 1):
            self._give(found.start())
        says_nothing = self._ends[-LONGEST_CHARACTER:] == [len(self._text)] * LONGEST_CHARACTER
        self._is_over = self._is_over or says_nothing or len(self._written) >= MOST_WRITTEN
        if len(self._written) - bisect_right(self._ends, self._given) >= LONGEST_WORD:
            self._give_part()

    def _end(self, control: int) -> None:
        """End the continuation at a control token that the draft model wrote."""
        self._ends.append(len(self._text) + 1)
        if self._given < len(self._text):
            self._give(len(self._text))
        known = self._translation.controls.get(control)
        if known is not None:
            last = len(self._written) - 1
            self._propose([known], last, last + 1, self._others(last, known))
        self._is_over = True

    def _give_part(self) -> None:
        """Re-tokenise an unfinished long word, without its last token."""
        target = self._translation.target
        text = self._text[self._given :]
        *tokens, _ = target.following(text) or [0]
        said = target.decode(tokens)
        if not said or not text.startswith(said):
            self._is_over = True
            return
        self._give(self._given + len(said))

    def _give(self, end: int) -> None:
        """Re-tokenise the text up to this character."""
        first, last = bisect_right(self._ends, self._given), bisect_right(self._ends, end - 1)
        tokens = self._translation.target.following(self._text[self._given : end])
        if not tokens:  # the target has no tokens for these characters
            self._is_over = True
            return
        begins_with_it = self._given == (self._ends[first - 1] if first else 0)
        self._given = end
        self._propose(tokens, first, last + 1, self._others(first, tokens[0]) if begins_with_it else [])

    def _propose(self, tokens: Sequence[int], first: int, last: int, others: Sequence[Proposal]) -> None:
        """Add tokens, which the draft model wrote as its tokens `first` to before `last`, and other proposals."""
        if self._is_over or max(tokens) >= self._translation.vocabulary:
            self._is_over = True
            return
        lead = min(values[0] - values[1] if values[1:] else GAPS[-1] for _, values in self._named[first:last])
        expected = LEADS + bisect_right(GAPS, lead)
        self.tokens += tokens
        self._proposals += [[(token, expected)] for token in tokens]
        self._proposals[-len(tokens)] += others

    def _others(self, place: int, expected: int) -> list[Proposal]:
        """The other likely tokens of the draft model at a place."""
        ids, values = self._named[place]
        found = dict[int, int]()
        for token, value in zip(ids[1:], values[1:], strict=True):
            for known in self._translation.single(token):
                if known < self._translation.vocabulary and known != expected:
                    found.setdefault(known, bisect_right(GAPS, values[0] - value))
        return list(found.items())
