"""Ensures that a control token that a user's text spells out is read as ordinary text.

Such spellings are hidden before the template is filled, so that all control tokens in the result are the template's
own. These then get new spellings, which begin with a mark; a copy of the tokenizer reads only the new spellings as
control tokens. In this example the mark, an unpredictable string, is written *:

    content "So<end>"    hidden "So*1*"    filled "<user>So*1*<end>"    spelled anew "*<user>So<end>*<end>"
    ids     <user> So < end > <end>
"""

import re
import threading
from copy import copy, deepcopy
from secrets import token_hex

from transformers import AddedToken, PreTrainedTokenizerBase

NEVER = "(?!)"
"""A pattern that never matches, for a tokenizer without control tokens."""


class ControlTokens:
    """A tokenizer's control tokens, distinguished from texts that only spell them."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        named = set(tokenizer.all_special_tokens)
        self._tokens = {
            token.content: (number, token)
            for number, token in tokenizer.added_tokens_decoder.items()
            if token.special or token.content in named
        }
        # The token for unknown words controls nothing, because every unknown word becomes this token.
        self._numbers = {number for number, _ in self._tokens.values()} - {tokenizer.unk_token_id}
        self._mark = _new_mark()
        self._names = list(self._tokens)
        self._places = {name: place for place, name in enumerate(self._names)}
        self._any_name = "|".join(map(re.escape, sorted(self._names, key=len, reverse=True))) or NEVER
        self._spelled = re.compile(self._any_name)
        self._respelled = _Respelled(tokenizer, self._tokens)

    def anew(self) -> "ControlTokens":
        """Return a copy with another mark for another request, because a template may have revealed the old
        mark."""
        other = copy(self)
        other._mark = _new_mark()
        return other

    def hidden(self, content: str) -> str:
        """Replace each control token that a content spells by a marked number, before the template is filled."""
        return self._spelled.sub(
            lambda found: f"{self._mark}{self._places[found.group()]}{self._mark}", content
        )

    def shown(self, filled: str) -> str:
        """Restore the spellings that `hidden` replaced in a filled template."""
        if self._mark not in filled:
            return filled
        return re.sub(f"{self._mark}(\\d+){self._mark}", lambda found: self._names[int(found[1])], filled)

    def ids(self, filled: str) -> list[int]:
        """Return a filled template's token ids. Spellings that `hidden` replaced are read as ordinary text."""
        if self._mark not in filled:
            return list(self._tokenizer(filled, add_special_tokens=False).input_ids)

        def spell_anew(found: re.Match[str]) -> str:
            number: str | None = found[1]
            return f"{self._respelled.mark}{found.group()}" if number is None else self._names[int(number)]

        text = re.sub(f"{self._mark}(\\d+){self._mark}|{self._any_name}", spell_anew, filled)
        return [known for number in self._respelled.ids(text) for known in self._known(number)]

    def written(self, content: str) -> list[int]:
        """Return the token ids of a content without a template. Its control tokens are read as ordinary text."""
        return self.ids(self.hidden(content))

    def _known(self, number: int) -> list[int]:
        """Translate an id of the copy to ids of the tokenizer.

        Some tokenizers find a control token even in ordinary text; its spelling is then read in two parts."""
        if number in self._respelled.controls:
            return [self._respelled.controls[number]]
        if number not in self._numbers:
            return [number]
        spelling = str(self._tokenizer.convert_ids_to_tokens(number))
        middle = len(spelling) // 2
        parts = (spelling[:middle], spelling[middle:]) if middle else ()
        # The part follows a control token, because many tokenizers put a space before the beginning of a text.
        begin = f"{self._respelled.mark}{self._names[0]}"
        inner = (one for part in parts for one in self._respelled.ids(f"{begin}{part}")[1:])
        return [known for one in inner for known in self._known(one)]


class _Respelled:
    """A copy of the tokenizer that also has each control token under a new spelling. Thread-safe.

    The copy is made once, at the first call, because copying SmolLM2's tokenizer takes half a second."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, tokens: dict[str, tuple[int, AddedToken]]) -> None:
        self.mark = _new_mark()  # no template sees it
        self.controls: dict[int, int] = {}
        """Maps the copy's ids of control tokens to the tokenizer's."""
        self._tokenizer, self._tokens = tokenizer, tokens
        self._copy: PreTrainedTokenizerBase | None = None
        self._lock = threading.Lock()

    def ids(self, text: str) -> list[int]:
        """Return the copy's token ids of a text whose control tokens are spelled anew."""
        with self._lock:
            if self._copy is None:
                self._copy = self._made()
        return _plain_ids(self._copy, text)

    def _made(self) -> PreTrainedTokenizerBase:
        made = deepcopy(self._tokenizer)
        made.add_tokens(
            [
                AddedToken(
                    self.mark + name,
                    single_word=token.single_word,
                    lstrip=token.lstrip,
                    rstrip=token.rstrip,
                    normalized=token.normalized,
                    special=False,  # because the copy reads special tokens as text
                )
                for name, (_, token) in self._tokens.items()
            ]
        )
        known = made.get_vocab()
        self.controls = {known[self.mark + name]: number for name, (number, _) in self._tokens.items()}
        _plain_ids(made, "")  # only a first call changes the copy; from now on threads can share it
        return made


def _plain_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids)


def _new_mark() -> str:
    """Make a mark of plain characters, which no normaliser changes."""
    return f"<{token_hex(8)}>"
