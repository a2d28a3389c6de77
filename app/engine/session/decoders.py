"""Every decoder by its name, and generation: the prefill, its first token, then one decoder."""

from collections.abc import Iterator, Sequence

from app.engine.block.step_profile import Buckets
from app.engine.lookahead import make_lookahead
from app.engine.lookahead.decoder import ReplyContext
from app.engine.lookahead.jacobi import make_jacobi
from app.engine.lookahead.plain import plain
from app.engine.lookahead.prompt_lookup import prompt_lookup
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder, FirstToken, Step
from app.engine.sampling.sampling import Sampler
from app.engine.text.stopping import StoppingCriteria
from app.values.messages import Decoding, Prefilling


def make_decoder(decoding: Decoding, known: ReplyContext | None = None) -> Decoder:
    """The decoder of these settings."""
    match decoding.decoder:
        case "plain":
            return plain
        case "prompt-lookup":
            return prompt_lookup
        case "jacobi":
            return make_jacobi(decoding.window)
        case "lookahead" | "auto":
            return make_lookahead(decoding, known)


def generate(
    runner: ModelRunner,
    prompt: Sequence[int],
    decoder: Decoder,
    sampler: Sampler,
    stopper: StoppingCriteria,
    same_text_buckets: Buckets = (),
) -> Iterator[Prefilling | FirstToken | Step]:
    """The prompt's progress, the first token, then the decoder's steps. Closing it early is always safe."""
    logits = yield from runner.prefill(prompt, same_text_buckets)
    token = sampler(logits[None], positions=(len(prompt),)).choose(0, prompt)
    reason = stopper.cut((token,)).reason
    yield FirstToken(token, runner.reused, reason)
    if reason is None:
        yield from decoder(runner, [*prompt, token], sampler, stopper)
