"""One reply's sampler: penalties, biases, a grammar, the sampling itself, and log probabilities."""

from collections.abc import Sequence
from dataclasses import replace

from app.engine.loading.loading import LoadedModel
from app.engine.sampling.batched_sampling import sampler_for
from app.engine.sampling.constraint import Constraint, unconstrained
from app.engine.sampling.logits_processing import LogprobsRecorder, Texts, biases, penalties
from app.engine.sampling.sampling import Process, Sampler
from app.values.messages import Piece, Request


class ReplySampler:
    """A sampler without log probabilities. `constraint` is what the reply's grammar allows, for drafts."""

    def __init__(self, sample: Sampler, constraint: Constraint = unconstrained) -> None:
        self.sample = sample
        self.constraint = constraint

    def with_logprobs(self, piece: Piece) -> Piece:
        """The piece as it is."""
        return piece


class RecordingSampler(ReplySampler):
    """A sampler whose log probabilities are added to the pieces."""

    def __init__(self, recorder: LogprobsRecorder, prompt_tokens: int, constraint: Constraint) -> None:
        super().__init__(recorder, constraint)
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
    constraint: Constraint = unconstrained
    processes = _processes(loaded, request, prompt_tokens)
    reads_logits = bool(processes or wanted.grammar) or wanted.top_logprobs >= 0
    sample = loaded.runner.sampler(sampling, reads_logits)
    if wanted.grammar:
        tokenizer, eos_ids = loaded.tokenizer, loaded.eos_ids
        mask = loaded.grammars().compile(wanted.grammar, tokenizer, eos_ids, prompt_tokens, begun)
        constraint = mask.constraint(loaded.vocabulary)
        processes.append(mask)
    if processes:
        sample = sampler_for(sampling, loaded.info.device, processes=processes)
    if wanted.top_logprobs < 0:
        return ReplySampler(sample, constraint)
    recorder = LogprobsRecorder(sample, wanted.top_logprobs, texts)
    return RecordingSampler(recorder, prompt_tokens, constraint)


def _processes(loaded: LoadedModel, request: Request, prompt_tokens: int) -> list[Process]:
    """Penalties and biases."""
    wanted, found = request.logits, list[Process]()
    if wanted.frequency_penalty or wanted.presence_penalty:
        found.append(penalties(wanted, prompt_tokens))
    if wanted.logit_bias:
        found.append(biases(wanted, loaded.vocabulary))
    return found
