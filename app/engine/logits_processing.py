"""Logits changed before a token is drawn: by penalties, biases and a grammar. And log probabilities, as they are.

What changes a row depends on the tokens before it, so each row is changed only when verification gets to it, with
the row's own path. A drafted branch is thus checked under its own penalties and its own state of the grammar, and
the text is the same with lookahead on and off.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from app.engine.sampling import Choices, Sampler, draw, likeliest
from app.logits_settings import LikelyToken, LogitsSettings, TokenLogprobs
from app.messages import Sampling

Process = Callable[[Tensor, Sequence[int]], Tensor]
"""(logits [vocab], every token before them) -> logits [vocab]."""
Texts = Callable[[Sequence[int]], tuple[str, ...]]


def penalties(settings: LogitsSettings, prompt_tokens: int) -> Process:
    """OpenAI's penalties: for each time that the reply has the token, and for having it at all."""

    def process(logits: Tensor, history: Sequence[int]) -> Tensor:
        counts = Counter(history[prompt_tokens:])
        if not counts:
            return logits
        ids = torch.tensor(list(counts), device=logits.device)
        times = torch.tensor(list(counts.values()), device=logits.device, dtype=logits.dtype)
        taken = settings.frequency_penalty * times + settings.presence_penalty
        return logits.index_add(0, ids, -taken)

    return process


def biases(settings: LogitsSettings, vocabulary: int) -> Process:
    """Adds to the logits of tokens; ids that the model does not have are left out."""
    known = [(token, bias) for token, bias in settings.logit_bias if token < vocabulary]
    ids = torch.tensor([token for token, _ in known], dtype=torch.long)
    added = torch.tensor([bias for _, bias in known], dtype=torch.float32)

    def process(logits: Tensor, _history: Sequence[int]) -> Tensor:
        return logits.index_add(0, ids.to(logits.device), added.to(logits.device))

    return process


def processed_sampler(sampling: Sampling, processes: Sequence[Process]) -> Sampler:
    """Draws row by row from logits that these have changed in turn."""

    def sample(logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
        del positions

        def choose(row: int, history: Sequence[int]) -> int:
            scores = logits[row].float()
            for process in processes:
                scores = process(scores, history)
            return draw(scores, history, sampling)

        return Choices(choose, *likeliest(logits, likely))

    return sample


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
            found = token, float(values[token]), best.indices.tolist(), best.values.tolist()
            self._found[len(history)] = found
            return token

        return Choices(choose, choices.ids, choices.logits)

    def take(self, start: int, count: int) -> tuple[TokenLogprobs, ...]:
        """Those of the tokens at these positions, which are then forgotten."""
        return tuple(self._shown(*self._found.pop(place)) for place in range(start, start + count))

    def _shown(self, token: int, logprob: float, ids: list[int], values: list[float]) -> TokenLogprobs:
        text, *texts = self._texts([token, *ids])
        return TokenLogprobs(LikelyToken(text, logprob), tuple(map(LikelyToken, texts, values)))
