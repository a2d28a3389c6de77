"""What a model hands to its LM head, or to layers inside, is kept for the rows that were committed."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from app.engine.block.block import chain_block
from app.engine.decoders import make_decoder
from app.engine.graphs.captured_steps import GraphSteps
from app.engine.loading.loading import LoadedModel
from app.engine.runner.hidden_states import WrittenStates, write_last_states, write_layer_states
from app.engine.runner.model_config import rotary_of
from app.engine.runner.prefix_cache import PrefixCache
from app.engine.runner.runner import BlockRunner
from app.values.messages import Decoding
from tests.engine.architectures import LLAMA, VOCABULARY
from tests.engine.path_attention import BY_PATHS
from tests.engine.replies import load, numbers, write
from tests.engine.simulated_graphs import SimulatedCapturer

TEXT = list(numbers(80, seed=2))


def runner_of(loaded: LoadedModel) -> BlockRunner:
    assert isinstance(loaded.runner, BlockRunner)
    model, context = loaded.runner.model, loaded.runner.context
    rotary = rotary_of(model.config, context)
    return BlockRunner(model, context, rotary, others=PrefixCache(lambda _taken: 10**9))


def expected(runner: BlockRunner, text: list[int], layers: Sequence[int]) -> torch.Tensor:
    """transformers' own, of the whole text in one pass; without layers what is behind the final norm."""
    runner.model.set_attn_implementation("sdpa")
    decoder, last = runner.model.get_decoder(), list[torch.Tensor]()
    hook = decoder.norm.register_forward_pre_hook(lambda _norm, inputs: last.append(inputs[0]))
    with torch.inference_mode():
        output = decoder(torch.tensor([text]), output_hidden_states=True)
    hook.remove()
    runner.model.set_attn_implementation("foresight")
    states = [*output.hidden_states[:-1], *last]  # transformers' last one is behind the norm
    found = [states[layer] for layer in layers] or [output.last_hidden_state]
    return torch.cat(found, dim=-1)


def read(runner: BlockRunner, text: list[int]) -> None:
    for _ in runner.prefill(text):
        pass


@dataclass
class Kept:
    """What is to be there of a runner's text."""

    runner: BlockRunner
    written: WrittenStates
    layers: Sequence[int]

    def check(self, text: list[int]) -> None:
        states = self.written.of(self.runner.cache)
        assert len(states) == len(text)
        wanted = expected(self.runner, text, self.layers)
        torch.testing.assert_close(states.rows(0, len(text)), wanted, atol=1e-4, rtol=1e-4)


def kept(runner: BlockRunner, layers: Sequence[int]) -> Kept:
    model = runner.model
    return Kept(runner, write_layer_states(model, layers) if layers else write_last_states(model), layers)


@pytest.mark.parametrize("layers", [(), (1,), (2, 1, 1)], ids=str)
def test_they_follow_the_prefix(layers: Sequence[int]) -> None:
    runner = runner_of(load(LLAMA.make()))
    states = kept(runner, layers)
    read(runner, TEXT[:60])
    states.check(TEXT[:60])
    wrong = [(TEXT[60] + 1) % VOCABULARY, *TEXT[60:62]]
    runner.forward(chain_block([TEXT[60], *wrong], 60, (0,)))
    runner.commit((0,))
    states.check(TEXT[:61])
    block = chain_block([TEXT[61], 0, TEXT[62]], 61, (0,))
    runner.forward(type(block)(block.tokens, (61, 62, 62), (-1, 0, 0), (0, 2)))
    runner.commit((0, 2))
    states.check(TEXT[:63])
    read(runner, TEXT[:40])
    states.check(TEXT[:40])
    other = list(numbers(50, seed=3))
    read(runner, other)
    states.check(other)
    read(runner, TEXT[:45])
    assert runner.reused == 40, "a prefix that was kept has its states with it"
    states.check(TEXT[:45])
    states.written.end()


@pytest.mark.parametrize("layers", [(), (2, 1)], ids=str)
def test_recorded_steps_write_them_to_their_slots(layers: Sequence[int]) -> None:
    eager = runner_of(load(LLAMA.make()))
    capturer = SimulatedCapturer()
    steps = GraphSteps(eager.model, BY_PATHS, capturer, eager.context)
    runner = BlockRunner(
        eager.model, eager.context, rotary_of(eager.model.config, eager.context), BY_PATHS, steps
    )
    states, prompt = kept(runner, layers), numbers(20)
    said = write(runner, prompt, make_decoder(Decoding("lookahead", window=0, ngram=4, guesses=2))).tokens
    states.check([*prompt, *said][: runner.length])
    assert runner.length > len(prompt) + 20
    assert capturer.replays > 10
    states.written.end()


def test_layers_that_a_model_does_not_have_are_refused() -> None:
    model = runner_of(load(LLAMA.make())).model
    for layers in ((0,), (1, 3), (-1,)):
        with pytest.raises(ValueError, match="there are 2 layers"):
            write_layer_states(model, layers)
    assert not any(module._forward_hooks for module in model.modules())
