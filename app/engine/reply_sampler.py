"""One reply's sampler: penalties, biases, a grammar, the sampling itself, and log probabilities."""

from collections.abc import Sequence
from dataclasses import replace

from app.engine.batched_sampling import sampler_for
from app.engine.loading import LoadedModel
from app.engine.logits_processing import (
    LogprobsRecorder,
    Process,
    Texts,
    biases,
    penalties,
    processed_sampler,
)
from app.engine.sampling import Sampler
from app.messages import Piece, Request


class ReplySampler:
    """A sampler without log probabilities."""

    def __init__(self, sample: Sampler) -> None:
        self.sample = sample

    def with_logprobs(self, piece: Piece) -> Piece:
        """The piece as it is."""
        return piece


class RecordingSampler(ReplySampler):
    """A sampler whose log probabilities are added to the pieces."""

    def __init__(self, recorder: LogprobsRecorder, prompt_tokens: int) -> None:
        super().__init__(recorder)
        self._recorder = recorder
        self._next = prompt_tokens

    def with_logprobs(self, piece: Piece) -> Piece:
        """The piece with those of its tokens; to be called with each piece in turn."""
        found = self._recorder.take(self._next, len(piece.token_ids))
        self._next += len(found)
        return replace(piece, logprobs=found)


def make_reply_sampler(
    loaded: LoadedModel, request: Request, prompt_tokens: int, begun: Sequence[int], texts: Texts
) -> ReplySampler:
    """What this request asks for; the prompt may end with the beginning of the reply.

    Raises BadOption for a grammar that cannot be used."""
    sampling, wanted = request.options.sampling, request.logits
    sample = sampler_for(sampling, loaded.info.device, loaded.runner.best_tokens)
    if wanted.changes_logits:
        sample = processed_sampler(sampling, _processes(loaded, request, prompt_tokens, begun))
    if wanted.top_logprobs < 0:
        return ReplySampler(sample)
    return RecordingSampler(LogprobsRecorder(sample, wanted.top_logprobs, texts), prompt_tokens)


def _processes(
    loaded: LoadedModel, request: Request, prompt_tokens: int, begun: Sequence[int]
) -> list[Process]:
    wanted, found = request.logits, list[Process]()
    if wanted.frequency_penalty or wanted.presence_penalty:
        found.append(penalties(wanted, prompt_tokens))
    if wanted.logit_bias:
        found.append(biases(wanted, loaded.vocabulary))
    if wanted.grammar:
        tokenizer, eos_ids = loaded.tokenizer, loaded.eos_ids
        found.append(loaded.grammars().compile(wanted.grammar, tokenizer, eos_ids, prompt_tokens, begun))
    return found
