"""Logits changed before a token is drawn: by penalties, biases and a grammar. And log probabilities, as they are.

What changes a row depends on the tokens before it, so each row is changed only when verification gets to it, with
the row's own path. A drafted branch is thus checked under its own penalties and its own state of the grammar, and
the text is the same with lookahead on and off.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from app.engine.block.token_counts import TokenCounts
from app.engine.machine.hardware import uploaded
from app.engine.sampling.sampling import Choices, Process, Sampler
from app.values.logits import LikelyToken, LogitsSettings, TokenLogprobs

Texts = Callable[[Sequence[int]], tuple[str, ...]]


def penalties(settings: LogitsSettings, prompt_tokens: int) -> Process:
    """OpenAI's penalties, for one reply: for each time that it has the token, and for having it at all."""
    counts = TokenCounts(prompt_tokens)

    def process(logits: Tensor, history: Sequence[int]) -> Tensor:
        return counts.before(history, logits.device).changed(
            logits,
            lambda scores, times: scores - (settings.frequency_penalty * times + settings.presence_penalty),
        )

    return process


def biases(settings: LogitsSettings, vocabulary: int) -> Process:
    """Adds to the logits of tokens; ids that the model does not have are left out."""
    known = [(token, bias) for token, bias in settings.logit_bias if token < vocabulary]
    # One upload: ids are exact in float32, vocabularies being smaller than 2**24.
    both = np.array(known, dtype=np.float32).reshape(-1, 2).T

    @cache
    def on(device: torch.device) -> tuple[Tensor, Tensor]:
        ids, added = uploaded(both.copy(), device)
        return ids.long(), added

    def process(logits: Tensor, _history: Sequence[int]) -> Tensor:
        return logits.index_add(0, *on(logits.device))

    return process


class LogprobsRecorder:
    """Remembers the log probabilities of what a sampler chooses, by position."""

    def __init__(self, sampler: Sampler, top: int, texts: Texts) -> None:
        self._sampler = sampler
        self._top = top
        self._texts = texts
        self._found: dict[int, tuple[int, float, list[int], list[float]]] = {}

    def __call__(self, logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
        """As the sampler chooses."""
        choices = self._sampler(logits, likely, positions)

        def choose(row: int, history: Sequence[int]) -> int:
            token = choices.choose(row, history)
            values = logits[row].float().log_softmax(dim=-1)
            best = values.topk(self._top)
            # In one copy: ids are exact in float32, vocabularies being smaller than 2**24.
            chosen, *found = torch.cat([values[token, None], best.values, best.indices.float()]).tolist()
            ids = [int(likely_id) for likely_id in found[self._top :]]
            self._found[len(history)] = token, chosen, ids, found[: self._top]
            return token

        return Choices(choose, choices.ids, choices.logits)

    def take(self, start: int, count: int) -> tuple[TokenLogprobs, ...]:
        """Those of the tokens at these positions, which are then forgotten."""
        return tuple(self._shown(*self._found.pop(place)) for place in range(start, start + count))

    def _shown(self, token: int, logprob: float, ids: list[int], values: list[float]) -> TokenLogprobs:
        text, *texts = self._texts([token, *ids])
        return TokenLogprobs(LikelyToken(text, logprob), tuple(map(LikelyToken, texts, values)))
