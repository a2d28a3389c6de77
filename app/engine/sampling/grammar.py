"""Restricts replies to a grammar, through llguidance: which tokens may come next after the tokens before a row.

Verification follows the accepted path, so the matcher consumes the tokens before each row and then masks that
row's logits. A draft does not change the result: a token that the grammar forbids is never drawn, even if it
was drafted.

The draft tree is grown with a separate matcher: guesses that the grammar forbids get no row, and tokens that it
forces, such as the names of a schema's properties, are drafted first.
"""

import json
import re
from collections.abc import Callable, Sequence

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from app.engine.machine.hardware import uploaded
from app.engine.sampling.logits_processing import AllowedTokens, Constraint
from app.engine.text.sandbox import refused_grammar
from app.engine.text.sandbox_main import grammar_source
from app.errors import GrammarRefused
from app.values.logits import CONTROL_RULE, Grammar


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
    ) -> "GrammarMask":
        """Make a mask for logits after a prompt of `prompt_tokens` tokens, the last of which are the `begun`
        reply.

        Raises GrammarRefused, with the reason, for a grammar that cannot be used."""
        tokens = self._tokens = self._tokens or _prepared(tokenizer, eos_ids)
        try:
            source = _source(grammar, tokenizer)
        except ValueError as error:
            raise refused_grammar(grammar.kind, str(error)) from error
        if problem := LLMatcher.validate_grammar(source, tokens):
            raise refused_grammar(grammar.kind, problem)
        matcher = LLMatcher(tokens, source, log_level=0)
        if not matcher.consume_tokens(list(begun)):
            raise GrammarRefused(
                "The reply so far is not a beginning that the grammar allows: regenerate it."
            )
        return GrammarMask(matcher, prompt_tokens)


class GrammarMask:
    """Masks the logits of tokens that the grammar forbids. Rows may be masked in any order."""

    def __init__(self, matcher: LLMatcher, prompt_tokens: int) -> None:
        self._places = _Places(matcher)
        self._prompt_tokens = prompt_tokens

    def __call__(self, logits: Tensor, history: Sequence[int]) -> Tensor:
        """Return the logits [vocab] after these tokens, with -inf for each token that is not allowed."""
        matcher = self._places.at(history[self._prompt_tokens :])
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.zeros(len(logits), dtype=bool)
        known = np.unpackbits(bits, bitorder="little")[: len(logits)]
        allowed[: len(known)] = known
        if not allowed.any():
            raise GrammarRefused(
                "The model has no token that continues the grammar "
                f"({matcher.get_error() or 'nothing fits'}): simplify the grammar."
            )
        return logits.masked_fill(uploaded(~allowed, logits.device), -torch.inf)

    def constraint(self, vocabulary: int) -> Constraint:
        """Make a constraint for drafts, with a copy of the matcher.

        `vocabulary` is the number of tokens that the model has weights for."""
        return DraftConstraint(_Places(self._places.at(()).deep_copy()), self._prompt_tokens, vocabulary)


class DraftConstraint:
    """Returns what the grammar allows on the paths of a draft tree. Each path is computed once per step."""

    def __init__(self, places: "_Places", prompt_tokens: int, vocabulary: int) -> None:
        self._places = places
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
            matcher = self._places.at([*text[self._prompt_tokens :], *path])
            forced = [token for token in matcher.compute_ff_tokens()[:1] if token < self._vocabulary]
            self._known[path] = AllowedTokens(matcher.compute_bitmask(), forced)
        return self._known[path]


class _Places:
    """Moves a matcher from one position of a reply to another."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self._taken: list[int] = []

    def at(self, reply: Sequence[int]) -> LLMatcher:
        """Move the matcher to the position after these tokens and return it.

        It is rolled back to the longest common prefix and consumes the rest."""
        path, taken = list(reply), self._taken
        if path[: len(taken)] != taken:
            same = next(index for index, token in enumerate(taken) if path[index : index + 1] != [token])
            self._matcher.rollback(len(taken) - same)
            taken = taken[:same]
        self._matcher.consume_tokens(path[len(taken) :])
        self._taken = path
        return self._matcher


def _prepared(tokenizer: PreTrainedTokenizerBase, eos_ids: frozenset[int]) -> LLTokenizer:
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise GrammarRefused(
            "The tokenizer of this model cannot be used with a grammar: choose another model, or ask for no JSON, "
            "response_format or forced tool."
        )
    return from_tokenizer(tokenizer, eos_token=sorted(eos_ids) or None)


def _source(grammar: Grammar, tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the grammar in llguidance's own form, with the ids of the control tokens that the model has.

    Raises ValueError."""

    def by_id(found: re.Match[str]) -> str:
        number = tokenizer.get_vocab().get(found[1])
        return json.dumps(found[1]) if number is None else f"<[{number}]>"

    is_lark = grammar.kind == "lark"
    source = re.sub(CONTROL_RULE, by_id, grammar.source) if is_lark else grammar.source
    return grammar_source(grammar.kind, source)
