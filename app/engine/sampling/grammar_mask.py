"""Restricts replies to a grammar, with llguidance: a row's logits are masked when verification reaches the row.

The draft tree is grown with a separate matcher: guesses that the grammar forbids get no row, and tokens that the
grammar forces, such as the names of a schema's properties, are drafted first.

A grammar describes an answer. A model may think before the answer:

    {"type": "object"}    ->    start: (<think> thought)? @answer    thought: any text </think>
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from app.engine.machine.hardware import uploaded
from app.engine.sampling.penalties import AllowedTokens, Constraint
from app.engine.text.sandbox import refused_grammar
from app.engine.text.sandbox_main import grammar_source
from app.errors import GrammarRefused
from app.values.chat_format import ReplyFormat
from app.values.logits import CONTROL_RULE, Grammar, control_rule, lark_text

NO_THOUGHT = ReplyFormat()
SUFFIX = r'\[suffix=("(?:[^"\\]|\\.)*")\]: (.+)'
"""Matches a rule of text in a Lark grammar. The groups are the suffix that ends the text, and its pattern."""


class Grammars:
    """Compiles grammars for one model. The tokenizer is prepared once, when the first grammar is compiled."""

    def __init__(self) -> None:
        self._tokens: LLTokenizer | None = None

    def compile(
        self,
        grammar: Grammar,
        tokenizer: PreTrainedTokenizerBase,
        eos_ids: frozenset[int],
        prompt_tokens: int,
        begun: Sequence[int] = (),
        reply: ReplyFormat = NO_THOUGHT,
        is_open: bool = False,
    ) -> "GrammarMask":
        """Make a mask for logits after a prompt of `prompt_tokens` tokens, which ends with a `begun` reply, if any.

        If the format of the `reply` has thoughts, the answer may follow a thought; with `is_open` the prompt has
        opened the thought. Raises GrammarRefused, with the reason, for a grammar that cannot be used."""
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise GrammarRefused(
                "The tokenizer of this model cannot be used with a grammar: choose another model, or ask "
                "without JSON, without response_format and without a forced tool."
            )
        if self._tokens is None:
            self._tokens = from_tokenizer(tokenizer, eos_token=sorted(eos_ids) or None)
        tokens = self._tokens
        try:
            source = _source(grammar, tokenizer.get_vocab(), reply, is_open)
        except ValueError as error:
            raise refused_grammar(grammar.kind, str(error)) from error
        if problem := LLMatcher.validate_grammar(source, tokens):
            raise refused_grammar(grammar.kind, problem)
        matcher = LLMatcher(tokens, source, log_level=0)
        if not matcher.consume_tokens(list(begun)):
            raise GrammarRefused("The grammar does not allow the reply so far: regenerate it.")
        return GrammarMask(matcher, prompt_tokens, tokens.vocab_size)


class GrammarMask:
    """Masks the logits of tokens that the grammar forbids. Rows may be masked in any order."""

    def __init__(self, matcher: LLMatcher, prompt_tokens: int, vocabulary: int) -> None:
        """Take a matcher at the reply's beginning, and the tokenizer's number of tokens."""
        self._movable = _MovableMatcher(matcher, vocabulary)
        self._prompt_tokens = prompt_tokens

    def __call__(self, logits: Tensor, history: Sequence[int]) -> Tensor:
        """Return the logits [vocab] after these tokens, with -inf for each token that is not allowed.

        Logits after tokens that the grammar forbids stay unchanged. Raises GrammarRefused if no token is
        allowed."""
        matcher = self._movable.at(history[self._prompt_tokens :])
        if matcher is None:  # the row follows a wrong guess, so its token is not accepted
            return logits
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.zeros(len(logits), dtype=bool)
        known = np.unpackbits(bits, bitorder="little")[: len(logits)]
        allowed[: len(known)] = known
        if not allowed.any():
            raise GrammarRefused(
                "The model has no token that the grammar allows next "
                f"({matcher.get_error() or 'nothing fits'}): simplify the grammar."
            )
        return logits.masked_fill(uploaded(~allowed, logits.device), -torch.inf)

    def constraint(self, vocabulary: int) -> Constraint:
        """Make a constraint for drafts, with a copy of the matcher. The model has `vocabulary` tokens."""
        return DraftConstraint(self._movable.copy(), self._prompt_tokens, vocabulary)


class DraftConstraint:
    """Returns the tokens that the grammar allows after a path of a draft tree; remembers them for a step."""

    def __init__(self, movable: "_MovableMatcher", prompt_tokens: int, vocabulary: int) -> None:
        self._movable = movable
        self._prompt_tokens = prompt_tokens
        self._vocabulary = vocabulary
        self._known: dict[tuple[int, ...], AllowedTokens] = {}
        self._length = 0

    def __call__(self, text: Sequence[int], added: Callable[[], Sequence[int]]) -> AllowedTokens:
        """Return the tokens that may come after the text and the guesses in `added`."""
        if len(text) != self._length:
            self._length, self._known = len(text), {}
        path = tuple(added())
        if path not in self._known:
            matcher = self._movable.at([*text[self._prompt_tokens :], *path])
            allowed = AllowedTokens(b"", [])
            if matcher is not None:
                forced = [token for token in matcher.compute_ff_tokens()[:1] if token < self._vocabulary]
                allowed = AllowedTokens(matcher.compute_bitmask(), forced)
            self._known[path] = allowed
        return self._known[path]


class _MovableMatcher:
    """A matcher that can be moved to any position of a reply."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._taken: list[int] = []

    def copy(self) -> "_MovableMatcher":
        """Move the matcher to the reply's beginning, and copy it."""
        self._matcher.rollback(len(self._taken))
        self._taken = []
        return _MovableMatcher(self._matcher.deep_copy(), self._vocabulary)

    def at(self, reply: Sequence[int]) -> LLMatcher | None:
        """Move the matcher to the position after these tokens and return it; None if the grammar forbids them."""
        path, taken = list(reply), self._taken
        if path[: len(taken)] != taken:
            same = next(index for index, token in enumerate(taken) if path[index : index + 1] != [token])
            self._matcher.rollback(len(taken) - same)
            taken = taken[:same]
        rest = path[len(taken) :]
        # A token that is forbidden, or that the tokenizer does not have, would end the matcher.
        possible = list(takewhile(lambda token: token < self._vocabulary, rest))
        known = self._matcher.validate_tokens(possible) if possible else 0
        self._matcher.consume_tokens(rest[:known])
        self._taken = path[: len(taken) + known]
        return self._matcher if known == len(rest) else None


def _source(grammar: Grammar, vocabulary: Mapping[str, int], reply: ReplyFormat, is_open: bool) -> str:
    """Return the grammar in llguidance's format. If the reply's format has thoughts, the answer follows a thought.
    Raises ValueError if the grammar cannot be converted."""
    is_lark = grammar.kind == "lark"
    source = grammar_source(grammar.kind, _by_id(grammar.source, vocabulary) if is_lark else grammar.source)
    if not reply.thought_closing:
        return source
    answer: dict[str, Any] = {"lark_grammar": source} if is_lark else json.loads(source)["grammars"][0]
    begin = {"lark_grammar": _by_id(_begin(reply, is_open, is_lark, vocabulary), vocabulary)}
    return json.dumps({"grammars": [begin, {**answer, "name": "answer"}]})


def _begin(reply: ReplyFormat, is_open: bool, is_call: bool, vocabulary: Collection[str]) -> str:
    """Write the rules for the text before an answer or a call: a thought, and the marks after it."""
    closing = reply.thought_closing
    marks = reply.thought_end.partition(closing)[2].strip()
    header = next((one for one in reply.marks if one != marks and marks.startswith(one)), "")
    after, first = (header, "") if is_call else (marks, marks.removeprefix(header))
    before, after, first = (
        control_rule(text) if text in vocabulary else lark_text(text) or '""'
        for text in (reply.thought_opening, after.strip(), first.strip())
    )
    thought = f"thought /[ \\n]{{1,4}}/? ({after})?"
    if not is_open:
        thought = f"(/\\n/? {before} {thought})? ({first})?"
    return f"start: {thought} @answer\nthought[suffix={json.dumps(closing)}]: /(.|\\n)*/"


def _by_id(source: str, vocabulary: Mapping[str, int]) -> str:
    """Replace control tokens in a Lark grammar by their ids, or by their text if the vocabulary lacks them."""

    def named(found: re.Match[str]) -> str:
        number = vocabulary.get(found[1])
        return json.dumps(found[1]) if number is None else f"<[{number}]>"

    def ended(found: re.Match[str]) -> str:
        """Move a control token from a rule's suffix to the end of the rule, because a suffix matches only text."""
        ending = json.loads(found[1])
        rule = control_rule(ending) if ending in vocabulary else lark_text(ending.lstrip())
        first = re.match(CONTROL_RULE, rule)
        return f": {found[2]} {rule}" if first and first[1] in vocabulary else found[0]

    return re.sub(CONTROL_RULE, named, re.sub(SUFFIX, ended, source))
