"""Grammars that a reply has to match, through llguidance: which tokens may come next on a row's own path.

Verification walks down the accepted path, so the matcher takes the tokens before each row and masks that row's
logits. A draft changes nothing: a token that the grammar refuses is never drawn, whoever drafted it.
"""

import json
from collections.abc import Sequence

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from app.engine.logits_processing import Process
from app.errors import GrammarRefused
from app.logits_settings import Grammar

WHITESPACE = "[ \\n]?"
"""Between the parts of a JSON text. A small model may otherwise write spaces without end."""


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
    ) -> Process:
        """A mask for logits behind a prompt of so many tokens, which ends with what is `begun` of the reply.

        Raises GrammarRefused for a grammar that cannot be used, with the reason."""
        tokens = self._tokens = self._tokens or _prepared(tokenizer, eos_ids)
        try:
            source = _source(grammar)
        except ValueError as error:
            raise _refusal(grammar, str(error)) from error
        if problem := LLMatcher.validate_grammar(source, tokens):
            raise _refusal(grammar, problem)
        matcher = LLMatcher(tokens, source, log_level=0)
        if not matcher.consume_tokens(list(begun)):
            raise GrammarRefused(
                "What is written of the reply so far is no beginning of what the grammar allows: regenerate it."
            )
        return GrammarMask(matcher, prompt_tokens)


class GrammarMask:
    """Takes what the grammar does not allow out of logits. Rows may be asked for on any path."""

    def __init__(self, matcher: LLMatcher, prompt_tokens: int) -> None:
        self._matcher = matcher
        self._prompt_tokens = prompt_tokens
        self._taken: list[int] = []

    def __call__(self, logits: Tensor, history: Sequence[int]) -> Tensor:
        """Logits [vocab] behind these tokens, -inf where a token is not allowed."""
        self._go_to(list(history[self._prompt_tokens :]))
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.zeros(len(logits), dtype=bool)
        known = np.unpackbits(bits, bitorder="little")[: len(logits)]
        allowed[: len(known)] = known
        if not allowed.any():
            raise GrammarRefused(
                "The model has no token with which the grammar could go on "
                f"({self._matcher.get_error() or 'nothing fits'}): simplify the grammar."
            )
        return logits.masked_fill(~torch.from_numpy(allowed).to(logits.device), -torch.inf)

    def _go_to(self, path: list[int]) -> None:
        """Go back to where the paths part, and on from there."""
        taken = self._taken
        if path[: len(taken)] != taken:
            same = next(place for place, token in enumerate(taken) if path[place : place + 1] != [token])
            self._matcher.rollback(len(taken) - same)
            taken = taken[:same]
        self._matcher.consume_tokens(path[len(taken) :])
        self._taken = path


def _prepared(tokenizer: PreTrainedTokenizerBase, eos_ids: frozenset[int]) -> LLTokenizer:
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise GrammarRefused(
            "The tokenizer of this model cannot be used with a grammar: choose another model, or ask for no JSON, "
            "response_format or forced tool."
        )
    return from_tokenizer(tokenizer, eos_token=sorted(eos_ids) or None)


def _source(grammar: Grammar) -> str:
    """The grammar in llguidance's own form. Raises ValueError."""
    match grammar.kind:
        case "json_schema":
            return str(
                LLMatcher.grammar_from_json_schema(
                    json.loads(grammar.source), overrides={"whitespace_pattern": WHITESPACE}
                )
            )
        case "regex":
            return str(LLMatcher.grammar_from_regex(grammar.source))
        case "lark":
            return str(LLMatcher.grammar_from_lark(grammar.source))


def _refusal(grammar: Grammar, problem: str) -> GrammarRefused:
    what = {"json_schema": "JSON schema", "regex": "regular expression", "lark": "grammar"}[grammar.kind]
    reason = " ".join(problem.split())[:300].rstrip(".:")
    return GrammarRefused(f"The {what} cannot be used ({reason}): change it, or leave it out.")
