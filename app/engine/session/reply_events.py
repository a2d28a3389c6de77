"""Writes the reply to a request as events: makes the decoder and the sampler of the reply, and runs them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate

from app.engine.block.step_profile import Buckets, choose_buckets
from app.engine.decoders import make_decoder
from app.engine.decoders.lookahead_decoder import ReplyContext
from app.engine.loading.loading import LoadedModel
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder, FirstToken, StatisticsMeter, Step
from app.engine.sampling.penalties import Constraint, Process, biases, penalties, unconstrained
from app.engine.sampling.sampling import Sampler, make_sampler
from app.engine.sampling.thought_budget import thought_budget
from app.engine.session.logprobs import LogprobsRecorder, Spell, prompt_logprobs
from app.engine.text.detokenizer import PLAIN
from app.engine.text.prompt import RequestTokens
from app.engine.text.stopping_criteria import ReplyText, StoppingCriteria
from app.values.messages import (
    Event,
    Finished,
    Origin,
    Piece,
    Prefilling,
    Request,
    Statistics,
    StopReason,
)  # fmt: skip
from app.values.reply_statistics import NO_TRACE, StepTrace


def never_stop() -> bool:
    """Return False, so that no reply is stopped early."""
    return False


def reply_events(
    loaded: LoadedModel,
    request: Request,
    tokens: RequestTokens,
    is_stopping: Callable[[], bool],
    spell: Spell,
) -> Iterator[Event]:
    """Read the prompt, then write the reply until it ends, or until `is_stopping` returns True after an event.

    If the request wants the same text from every decoder, the runner pads blocks to fixed row counts (buckets);
    otherwise it does so only for CUDA graphs."""
    options, prompt = request.options, tokens.prompt
    decoding = options.decoding if loaded.can_draft else replace(options.decoding, decoder="plain")
    buckets = choose_buckets(loaded.profile) if decoding.same_text else ()
    form = loaded.info.chat_format.reply if request.is_chat else PLAIN
    decode = loaded.decode_with((*form.thought_markers, *request.control))
    make_text = partial(ReplyText, decode, options.stop, tokens.begun, form, tokens.opens_thought)
    stopper = StoppingCriteria(
        frozenset() if options.ignore_eos else loaded.eos_ids,
        options.max_new_tokens,
        loaded.info.context - len(prompt),
        make_text() if options.stop else None,
    )
    text = make_text()
    meter = StatisticsMeter(len(prompt), partial(loaded.profile.cost, buckets))
    reason: StopReason | None = None
    sampler, constraint = make_reply_sampler(loaded, request, tokens)
    wanted = request.logits
    recorder = LogprobsRecorder(sampler, wanted.top_logprobs, len(prompt), spell)
    decoder = make_decoder(decoding, _reply_context(loaded, request, tokens, constraint))
    sample = recorder if wanted.top_logprobs >= 0 else sampler
    if wanted.of_prompt:
        yield from prompt_logprobs(loaded.runner, prompt, wanted.top_logprobs, spell, is_stopping)
    for item in generate(loaded.runner, prompt, decoder, sample, stopper, buckets):
        match item:
            case Prefilling(done, total):
                yield item
                if request.only_prompt and done == total:
                    reason = "max_tokens"
                    break
            case FirstToken(token, _, reason):
                first = replace(item, reused=0) if wanted.of_prompt else item
                piece = _piece(text, (token,), ("model",), meter.first_token(first), NO_TRACE)
                yield recorder.added_to(piece)
            case Step(written, origins):
                reason = item.reason
                yield recorder.added_to(_piece(text, written, origins, meter.add(item), item.trace))
        if is_stopping():
            break
    if rest := text.flush():
        yield Piece(rest, (), (), meter.statistics)
    yield Finished(reason or "stopped", meter.statistics, loaded.current_info, decoding.decoder)


def _reply_context(
    loaded: LoadedModel, request: Request, tokens: RequestTokens, constraint: Constraint
) -> ReplyContext:
    sampling, texts = request.options.sampling, (tokens.documents, tokens.prediction)
    budget = next((source.budget for source in loaded.draft_models), None)
    return ReplyContext(loaded.statistics, loaded.profile, sampling, *texts, constraint, budget)


def generate(
    runner: ModelRunner,
    prompt: Sequence[int],
    decoder: Decoder,
    sampler: Sampler,
    stopper: StoppingCriteria,
    same_text_buckets: Buckets = (),
) -> Iterator[Prefilling | FirstToken | Step]:
    """Yield the progress of reading the prompt, the first token, then the decoder's steps."""
    logits = yield from runner.prefill(prompt, same_text_buckets)
    token = sampler(logits[None], positions=(len(prompt),)).choose(0, prompt)
    reason = stopper.cut((token,)).reason
    yield FirstToken(token, runner.reused, reason)
    if reason is None:
        yield from decoder(runner, [*prompt, token], sampler, stopper)


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


def make_reply_sampler(
    loaded: LoadedModel, request: Request, tokens: RequestTokens
) -> tuple[Sampler, Constraint]:
    """Make the sampler of a reply, and the constraint that limits its drafts to what the grammar allows.

    Raises GrammarRefused for a grammar that cannot be used."""
    sampling, wanted = request.options.sampling, request.logits
    prompt_tokens, begun = len(tokens.prompt), tokens.begun
    constraint: Constraint = unconstrained
    processes = list[Process]()
    if wanted.frequency_penalty or wanted.presence_penalty:
        processes.append(penalties(wanted, prompt_tokens))
    if wanted.logit_bias:
        processes.append(biases(wanted, loaded.vocabulary))
    chat_format, thinking = loaded.info.chat_format, request.options.thinking
    budget = thinking.budget if chat_format.reply.thought_end else 0
    reads_logits = bool(processes or wanted.grammar or budget) or wanted.top_logprobs >= 0
    sampler = loaded.runner.sampler(sampling, reads_logits)
    if wanted.grammar:
        tokenizer, eos_ids = loaded.tokenizer, loaded.eos_ids
        may_think = request.is_chat and chat_format.mode(thinking.level).level != "off"
        form = chat_format.reply if may_think or tokens.opens_thought else PLAIN
        mask = loaded.grammars().compile(
            wanted.grammar, tokenizer, eos_ids, prompt_tokens, begun, form, tokens.opens_thought
        )
        constraint = mask.constraint(loaded.vocabulary)
        processes.append(mask)
    if budget:
        processes.append(_thought_budget(loaded, tokens, budget, bool(wanted.grammar)))
    if processes:
        sampler = make_sampler(sampling, loaded.info.device, processes=processes)
    return sampler, constraint


def _thought_budget(loaded: LoadedModel, tokens: RequestTokens, budget: int, has_grammar: bool) -> Process:
    """Make the process that forces the end of the model's thought after `budget` tokens (`thought_budget.py`).

    With a grammar it forces only the text up to the thought's closing marker, because the grammar decides about the
    text after the marker."""
    tokenizer, prompt, reply = loaded.tokenizer, len(tokens.prompt), loaded.info.chat_format.reply
    if has_grammar:
        end = reply.thought_end.partition(reply.thought_closing)[0] + reply.thought_closing
        reply = replace(reply, thought_end=end)
    return thought_budget(
        budget,
        reply,
        tokens.opens_thought,
        prompt - len(tokens.begun),
        prompt,
        lambda text: tokenizer(text, add_special_tokens=False).input_ids,
        lambda ids: str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)),
    )
