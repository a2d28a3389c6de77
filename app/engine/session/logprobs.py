"""Log probabilities of the tokens that a reply's sampler chooses, and of the prompt's tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from app.engine.block.block import chain_block
from app.engine.runner.model_runner import ModelRunner
from app.engine.sampling.sampling import Choices, Sampler
from app.values.logits import LikelyToken, TokenLogprobs
from app.values.messages import Piece, Prefilling

Spell = Callable[[Sequence[int]], tuple[bytes, ...]]
"""(token ids) -> each token's bytes."""
SCORED_ROWS = 64
"""Maximum prompt tokens of a forward pass. It is low, because the logits of all rows are in memory at once."""


class LogprobsRecorder:
    """A sampler that records the log probabilities of the chosen tokens, and adds them to pieces."""

    def __init__(self, sampler: Sampler, top: int, prompt_tokens: int, spell: Spell) -> None:
        """Record, for each chosen token, its log probability and those of the `top` likeliest tokens."""
        self._sampler = sampler
        self._top = top
        self._next = prompt_tokens
        self._spell = spell
        self._found: dict[int, TokenLogprobs] = {}

    def __call__(self, logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
        choices = self._sampler(logits, likely, positions)

        def choose(row: int, history: Sequence[int]) -> int:
            token = choices.choose(row, history)
            self._found[len(history)] = token_logprobs(logits[row], token, self._top, self._spell)
            return token

        return Choices(choose, choices.ids, choices.logits)

    def added_to(self, piece: Piece) -> Piece:
        """Return the piece with the log probabilities of its tokens, and forget them; without records, the piece
        itself."""
        if not self._found:
            return piece
        positions = range(self._next, self._next + len(piece.token_ids))
        self._next = positions.stop
        return replace(piece, logprobs=tuple(map(self._found.pop, positions)))


def prompt_logprobs(
    runner: ModelRunner, prompt: Sequence[int], top: int, spell: Spell, is_stopping: Callable[[], bool]
) -> Iterator[Prefilling]:
    """Read the prompt in small blocks; yield its tokens' log probabilities (0 for the first token) with the
    progress. Ends early when `is_stopping` returns True."""
    logits = (yield from runner.prefill(prompt[:1]))[None]
    yield Prefilling(1, len(prompt), (TokenLogprobs(LikelyToken(spell(prompt[:1])[0], 0.0)),))
    done = 1
    while done < len(prompt) and not is_stopping():
        tokens = prompt[done : done + min(SCORED_ROWS, runner.max_rows)]
        rows = range(len(tokens))
        after = runner.forward(chain_block(tokens, done, tuple(rows)))
        before = torch.cat([logits, after[:-1]])
        found = tuple(token_logprobs(before[row], tokens[row], top, spell) for row in rows)
        logits = after[-1:].clone()
        runner.commit(rows)
        done += len(tokens)
        yield Prefilling(done, len(prompt), found)


def token_logprobs(logits: Tensor, token: int, top: int, spell: Spell) -> TokenLogprobs:
    """Return the log probabilities of a token and of the `top` likeliest tokens by these logits [vocab]."""
    values = logits.float().log_softmax(dim=-1)
    best = values.topk(top)
    # All values are copied to the host at once as float32, which holds ids below 2**24 exactly.
    chosen, *found = torch.cat([values[token, None], best.values, best.indices.float()]).tolist()
    one, *others = spell([token, *map(int, found[top:])])
    return TokenLogprobs(LikelyToken(one, chosen), tuple(map(LikelyToken, others, found)))
