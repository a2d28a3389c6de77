"""Grammars that a reply has to match, through llguidance: which tokens may come next on a row's own path.

Verification walks down the accepted path, so the matcher takes the tokens before each row and masks that row's
logits. A draft changes nothing: a token that the grammar refuses is never drawn, whoever drafted it.

The draft tree is grown with a matcher of its own: guesses that the grammar refuses get no row, and what it forces,
such as the names of a schema's properties, is drafted first.
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
    """Compiles grammars for one model. Its tokenizer is prepared once, with the first grammar."""

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
        """Make a mask for logits after a prompt of this many tokens, which ends with what is `begun` of the reply.

        Raises GrammarRefused for a grammar that cannot be used, with the reason."""
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
                "What is written of the reply so far is no beginning of what the grammar allows: regenerate it."
            )
        return GrammarMask(matcher, prompt_tokens)


class GrammarMask:
    """Takes what the grammar does not allow out of logits. Rows may be asked for on any path."""

    def __init__(self, matcher: LLMatcher, prompt_tokens: int) -> None:
        self._places = _Places(matcher)
        self._prompt_tokens = prompt_tokens

    def __call__(self, logits: Tensor, history: Sequence[int]) -> Tensor:
        """Set the logits [vocab] after these tokens to -inf for each token that is not allowed."""
        matcher = self._places.at(history[self._prompt_tokens :])
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.zeros(len(logits), dtype=bool)
        known = np.unpackbits(bits, bitorder="little")[: len(logits)]
        allowed[: len(known)] = known
        if not allowed.any():
            raise GrammarRefused(
                "The model has no token with which the grammar could go on "
                f"({matcher.get_error() or 'nothing fits'}): simplify the grammar."
            )
        return logits.masked_fill(uploaded(~allowed, logits.device), -torch.inf)

    def constraint(self, vocabulary: int) -> Constraint:
        """Tell drafts what the grammar allows, by a matcher of their own.

        `vocabulary` are the tokens that the model has weights for."""
        return DraftConstraint(_Places(self._places.at(()).deep_copy()), self._prompt_tokens, vocabulary)


class DraftConstraint:
    """What the grammar allows on the paths of a draft tree. Each place is looked at once a step."""

    def __init__(self, places: "_Places", prompt_tokens: int, vocabulary: int) -> None:
        self._places = places
        self._prompt_tokens = prompt_tokens
        self._vocabulary = vocabulary
        self._known: dict[tuple[int, ...], AllowedTokens] = {}
        self._length = 0

    def __call__(self, text: Sequence[int], added: Callable[[], Sequence[int]]) -> AllowedTokens:
        """Return what may come after both."""
        if len(text) != self._length:
            self._length, self._known = len(text), {}
        path = tuple(added())
        if path not in self._known:
            matcher = self._places.at([*text[self._prompt_tokens :], *path])
            forced = [token for token in matcher.compute_ff_tokens()[:1] if token < self._vocabulary]
            self._known[path] = AllowedTokens(matcher.compute_bitmask(), forced)
        return self._known[path]


class _Places:
    """Moves a matcher from one place of a reply to another."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self._taken: list[int] = []

    def at(self, reply: Sequence[int]) -> LLMatcher:
        """Move the matcher to the place after these tokens: back to where the paths part, and on from there."""
        path, taken = list(reply), self._taken
        if path[: len(taken)] != taken:
            same = next(place for place, token in enumerate(taken) if path[place : place + 1] != [token])
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
    """Return the grammar in llguidance's own form, with the control tokens that are known by their ids.

    Raises ValueError."""

    def by_id(found: re.Match[str]) -> str:
        number = tokenizer.get_vocab().get(found[1])
        return json.dumps(found[1]) if number is None else f"<[{number}]>"

    is_lark = grammar.kind == "lark"
    source = re.sub(CONTROL_RULE, by_id, grammar.source) if is_lark else grammar.source
    return grammar_source(grammar.kind, source)
