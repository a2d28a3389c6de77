"""From a prompt to steps: the prefill, its first token, then one decoder. Nothing else decodes."""

from collections.abc import Iterator, Sequence

from app.engine.runner import Runner
from app.engine.sampling import Sampler
from app.engine.step import Decoder, FirstToken, Step
from app.engine.stopping import Stopper
from app.messages import Prefilling


def generate(
    runner: Runner, prompt: Sequence[int], decoder: Decoder, sampler: Sampler, stopper: Stopper
) -> Iterator[Prefilling | FirstToken | Step]:
    """The prompt's progress, the first token, then the decoder's steps. Closing it early is always safe."""
    logits = yield from runner.prefill(prompt)
    token = sampler(logits[None], positions=(len(prompt),)).choose(0, prompt)
    reason = stopper.cut((token,)).reason
    yield FirstToken(token, runner.reused, reason)
    if reason is None:
        yield from decoder(runner, [*prompt, token], sampler, stopper)
