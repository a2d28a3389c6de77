"""Prompt lookup (Saxena 2023): drafts the tokens that followed the latest earlier occurrence of the last tokens.

The draft is copied from prompt and reply: it begins after the latest earlier occurrence of the text's last three
tokens, else of its last two, else of its last one. The copy may run into itself, as in LZ77:

    text  1 2 3 9 1 2 3       the last three, 1 2 3, occurred four tokens before:   draft  9 1 2 3 9 1 2 ...
    text  5 6 7 8 6           only the last, 6, occurred before, three tokens ago:  draft  7 8 6 7 8 6 7 ...

Differences from transformers' `prompt_lookup_num_tokens`: the latest match is taken, not the oldest; contexts
have up to three tokens instead of two; and positions of matches are stored instead of searched for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.engine.lookahead.verification import most_drafts, try_chain
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step
from app.engine.sampling.sampling import Sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.largest_step import PROMPT_LOOKUP_DRAFTS
from app.values.messages import Origin

LONGEST_CONTEXT = 3


class Occurrences:
    """Maps each n-gram of up to three tokens of a text to the position of the token that last followed it."""

    def __init__(self) -> None:
        self._follower: dict[tuple[int, ...], int] = {}
        self._read = 1

    def __len__(self) -> int:
        return len(self._follower)

    def read(self, text: Sequence[int]) -> None:
        """Add the n-grams of the part of the text that was not read before."""
        for position in range(self._read, len(text)):
            for length in range(1, min(LONGEST_CONTEXT, position) + 1):
                self._follower[tuple(text[position - length : position])] = position
        self._read = max(self._read, len(text))

    def next_positions(self, text: Sequence[int], length: int) -> list[int]:
        """Return the positions from which the next `length` tokens are copied; [] if the last token is new.

        A copy that reaches the end of the text is repeated from the copy's first position."""
        for context in range(min(LONGEST_CONTEXT, len(text)), 0, -1):
            start = self._follower.get(tuple(text[-context:]))
            if start is not None:
                return [start + offset % (len(text) - start) for offset in range(length)]
        return []


def prompt_lookup(
    runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
) -> Iterator[Step]:
    """Yield the steps of a reply: each drafts up to ten tokens copied from the text, and commits the right ones."""
    prompt_tokens = len(tokens) - 1  # the last token is the reply's first
    occurrences = Occurrences()
    reason = None
    while reason is None:
        occurrences.read(tokens)
        length = min(PROMPT_LOOKUP_DRAFTS, most_drafts(runner, tokens, stopper))
        positions = occurrences.next_positions(tokens, length)
        origins: list[Origin] = ["prompt" if at < prompt_tokens else "output" for at in positions]
        guesses = [tokens[at] for at in positions]
        step, _ = try_chain(runner, tokens, guesses, origins, sampler, stopper)
        reason = step.reason
        yield replace(step, pool_size=len(occurrences))
