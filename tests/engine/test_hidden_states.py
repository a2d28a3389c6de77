"""What a model hands to its LM head is kept for the rows that were committed, wherever they come from."""

import torch

from app.engine.block import chain_block
from app.engine.decoders import make_decoder
from app.engine.hidden_states import hidden_states_of, write_hidden_states
from app.engine.loading import LoadedModel
from app.engine.prefix_cache import PrefixCache
from app.engine.rotary import rotary_of
from app.engine.runner import BlockRunner
from app.engine.step_graphs import GraphSteps
from app.messages import Decoding
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


def expected(runner: BlockRunner, text: list[int]) -> torch.Tensor:
    """transformers' own, of the whole text in one pass."""
    runner.model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        states: torch.Tensor = runner.model.get_decoder()(torch.tensor([text])).last_hidden_state
    runner.model.set_attn_implementation("foresight")
    return states


def read(runner: BlockRunner, text: list[int]) -> None:
    for _ in runner.prefill(text):
        pass


def assert_kept(runner: BlockRunner, text: list[int]) -> None:
    states = hidden_states_of(runner)
    assert len(states) == len(text)
    torch.testing.assert_close(states.rows(0, len(text)), expected(runner, text), atol=1e-4, rtol=1e-4)


def test_they_follow_the_prefix() -> None:
    runner = runner_of(load(LLAMA.make()))
    handle = write_hidden_states(runner.model)
    read(runner, TEXT[:60])
    assert_kept(runner, TEXT[:60])
    wrong = [(TEXT[60] + 1) % VOCABULARY, *TEXT[60:62]]
    runner.forward(chain_block([TEXT[60], *wrong], 60, (0,)))
    runner.commit((0,))
    assert_kept(runner, TEXT[:61])
    block = chain_block([TEXT[61], 0, TEXT[62]], 61, (0,))
    runner.forward(type(block)(block.tokens, (61, 62, 62), (-1, 0, 0), (0, 2)))
    runner.commit((0, 2))
    assert_kept(runner, TEXT[:63])
    read(runner, TEXT[:40])
    assert_kept(runner, TEXT[:40])
    other = list(numbers(50, seed=3))
    read(runner, other)
    assert_kept(runner, other)
    read(runner, TEXT[:45])
    assert runner.reused == 40, "a prefix that was kept has its states with it"
    assert_kept(runner, TEXT[:45])
    handle.remove()


def test_recorded_steps_write_them_to_their_slots() -> None:
    eager = runner_of(load(LLAMA.make()))
    handle, capturer = write_hidden_states(eager.model), SimulatedCapturer()
    steps = GraphSteps(eager.model, BY_PATHS, capturer, eager.context)
    runner = BlockRunner(
        eager.model, eager.context, rotary_of(eager.model.config, eager.context), BY_PATHS, steps
    )
    prompt = numbers(20)
    said = write(runner, prompt, make_decoder(Decoding("lookahead", window=0, ngram=4, guesses=2))).tokens
    assert_kept(runner, [*prompt, *said][: len(hidden_states_of(runner))])
    assert len(hidden_states_of(runner)) > len(prompt) + 20
    assert capturer.replays > 10
    handle.remove()
