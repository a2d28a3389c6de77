"""A request's reply as events: the prompt is read, then the text as it is written, then its end."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Protocol

from app.engine.block.step_profile import choose_buckets
from app.engine.loading.loading import LoadedModel
from app.engine.lookahead.decoder import ReplyContext
from app.engine.runner.step import FirstToken, StatisticsMeter, Step
from app.engine.sampling.constraint import Constraint
from app.engine.sampling.logits_processing import Texts
from app.engine.session.decoders import generate, make_decoder
from app.engine.session.reply_sampler import make_reply_sampler
from app.engine.session.request_tokens import RequestTokens
from app.engine.text.stopping import StoppingCriteria
from app.engine.text.text import Decode, ReplyText
from app.values.messages import (
    Decoding,
    Event,
    Finished,
    Options,
    Origin,
    Piece,
    Prefilling,
    Request,
    Statistics,
    StopReason,
)
from app.values.trace import NO_TRACE, StepTrace


class StopSignal(Protocol):
    """Checked after every step of a request."""

    @property
    def is_stopping(self) -> bool:
        """Whether the person asked to stop."""


class NeverStop:
    """Never stops a reply."""

    is_stopping = False


def reply_events(
    loaded: LoadedModel, request: Request, tokens: RequestTokens, stop: StopSignal, texts: Texts
) -> Iterator[Event]:
    """Reading the prompt, then the reply as it is written, then its end."""
    decoding = _supported(request.options.decoding, loaded)
    buckets = choose_buckets(loaded.profile) if decoding.same_text else ()
    prompt, before = tokens.prompt, tokens.begun
    decode = loaded.decode_with(request.control)
    stopper = _make_stopper(loaded, request.options, len(prompt), before, decode)
    text = ReplyText(decode, request.options.stop, before)
    meter = StatisticsMeter(len(prompt))
    reason: StopReason | None = None
    sampler = make_reply_sampler(loaded, request, len(prompt), before, texts)
    decoder = make_decoder(decoding, _reply_context(loaded, request, tokens, sampler.constraint))
    for item in generate(loaded.runner, prompt, decoder, sampler.sample, stopper, buckets):
        match item:
            case Prefilling():
                yield item
            case FirstToken(token, _, reason):
                piece = _piece(text, (token,), ("model",), meter.first_token(item), NO_TRACE)
                yield sampler.with_logprobs(piece)
            case Step(written, origins):
                reason = item.reason
                yield sampler.with_logprobs(_piece(text, written, origins, meter.add(item), item.trace))
        if stop.is_stopping:
            break
    if rest := text.flush():
        yield Piece(rest, (), (), meter.statistics)
    yield Finished(reason or "stopped", meter.statistics, loaded.current_info, decoding.decoder)


def _piece(
    text: ReplyText,
    tokens: tuple[int, ...],
    origins: tuple[Origin, ...],
    statistics: Statistics,
    trace: StepTrace,
) -> Piece:
    texts = text.push(tokens)
    ends = tuple(accumulate(map(len, texts)))
    return Piece("".join(texts), tokens, origins, statistics, ends, trace)


def _supported(decoding: Decoding, loaded: LoadedModel) -> Decoding:
    return decoding if loaded.can_draft else replace(decoding, decoder="plain")


def _reply_context(
    loaded: LoadedModel, request: Request, tokens: RequestTokens, constraint: Constraint
) -> ReplyContext:
    sampling, texts = request.options.sampling, (tokens.documents, tokens.prediction)
    budget = next((source.budget for source in loaded.draft_models), None)
    return ReplyContext(loaded.statistics, loaded.profile, sampling, *texts, constraint, budget)


def _make_stopper(
    loaded: LoadedModel, options: Options, prompt_tokens: int, before: Sequence[int], decode: Decode
) -> StoppingCriteria:
    return StoppingCriteria(
        eos_ids=frozenset() if options.ignore_eos else loaded.eos_ids,
        max_new_tokens=options.max_new_tokens,
        room=loaded.info.context - prompt_tokens,
        stops=options.stop,
        decode=decode,
        before=before,
    )
