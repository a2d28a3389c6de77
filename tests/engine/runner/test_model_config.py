"""Rotary tables that depend on the text's length: nothing may depend on blocks, chunks or earlier requests."""

from typing import Any

import numpy as np
import pytest
from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config

from app.engine.block.block import chain_block
from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.decoders.plain import plain
from app.engine.runner.model_config import Rotary, anchored, rotary_of
from app.engine.runner.runner import PREFILL_CHUNK
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import SWITCH, Architecture, llama_dynamic, phi3_longrope
from tests.engine.oracle import Oracle, branching
from tests.engine.replies import Zoo, load, numbers, says_plainly, transformers_says, with_pool, write
from tests.tiers import named, pairwise, tiered

FAR = PREFILL_CHUNK + 20
"""A switch that lies in a prompt's second chunk."""
LOOKAHEAD = make_lookahead(Decoding("lookahead", window=7, ngram=5, guesses=7))
REACH = 24

BY_TABLE = named((phi3_longrope(SWITCH), llama_dynamic(SWITCH)))
switching = pytest.mark.parametrize("architecture", (phi3_longrope(SWITCH), llama_dynamic(SWITCH)), ids=str)
switching_far = pytest.mark.parametrize("architecture", (phi3_longrope(FAR), llama_dynamic(FAR)), ids=str)
LENGTHS = (1, SWITCH - REACH, SWITCH - 2, SWITCH - 1, SWITCH, SWITCH + 1, SWITCH + 9)
AT_THE_SWITCH = {(str(SWITCH - 2), str(phi3_longrope(SWITCH))), (str(SWITCH - 2), str(llama_dynamic(SWITCH)))}
"""What runs by default."""


@pairwise(length=named(LENGTHS), architecture=BY_TABLE, deep=())
def test_plain_says_what_transformers_says_around_the_switch(
    zoo: Zoo, architecture: Architecture, length: int
) -> None:
    prompt = numbers(length, seed=5)
    expected = transformers_says(architecture, prompt, limit=2 * REACH)
    assert says_plainly(zoo.runner(architecture), prompt, limit=2 * REACH).tokens == expected


@tiered(lambda *ids: ids in AT_THE_SWITCH, length=named(LENGTHS), architecture=BY_TABLE)
def test_lookahead_says_what_plain_says_around_the_switch(
    zoo: Zoo, architecture: Architecture, length: int
) -> None:
    prompt = numbers(length, seed=5)
    for sampling in (Sampling(), Sampling(temperature=1.0, top_p=0.9, seed=8)):
        runner = zoo.runner(architecture)
        expected = says_plainly(runner, prompt, sampling, limit=2 * REACH)
        runner.forget()
        assert write(runner, prompt, LOOKAHEAD, sampling, limit=2 * REACH).tokens == expected.tokens


@switching
def test_right_drafts_are_cut_at_the_switch_and_nothing_else_changes(
    zoo: Zoo, architecture: Architecture
) -> None:
    prompt = numbers(SWITCH - 16, seed=6)
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, prompt)
    runner.forget()
    oracle = Oracle((*prompt, *expected.tokens), (branching,))
    said = write(runner, prompt, with_pool(oracle, Decoding(window=3, ngram=7)))
    assert said.tokens == expected.tokens
    assert said.longest_run == 7


@switching_far
@pytest.mark.parametrize(
    "length", [FAR + 30, FAR - 6], ids=["read with one table", "read anew at the switch"]
)
def test_several_chunks_say_what_transformers_says(architecture: Architecture, length: int) -> None:
    prompt = numbers(length, seed=7)
    expected = transformers_says(architecture, prompt, limit=16)
    runner = load(architecture.make()).runner
    assert write(runner, prompt, plain, limit=16).tokens == expected
    runner.forget()
    assert write(runner, prompt, LOOKAHEAD, limit=16).tokens == expected


@pairwise(
    lengths=named(((60, 8, 60), (8, 60, 8), (28, 33, 28), (33, 28, 33))), architecture=BY_TABLE, deep=()
)
def test_a_request_does_not_depend_on_the_lengths_before_it(
    zoo: Zoo, architecture: Architecture, lengths: tuple[int, ...]
) -> None:
    runner = zoo.runner(architecture)
    for length in lengths:
        prompt = numbers(length, seed=9)  # each is the beginning of the longer one
        expected = write(load(architecture.make()).runner, prompt, plain, limit=REACH)
        assert write(runner, prompt, LOOKAHEAD, limit=REACH).tokens == expected.tokens


@switching
def test_the_next_turn_says_the_same_warm_and_cold(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    prompt = numbers(SWITCH - 10, seed=10)
    for _ in range(3):
        reply = write(runner, prompt, LOOKAHEAD, limit=8)
        assert reply.tokens == write(load(architecture.make()).runner, prompt, plain, limit=8).tokens
        prompt = (*prompt, *reply.tokens, 5, 6)


def test_a_fixed_table_lets_a_block_reach_the_contexts_end() -> None:
    rotary = rotary_of(LlamaConfig(max_position_embeddings=64), 64)
    assert rotary == Rotary("fixed", 64)
    assert rotary.horizon(3, 64) == 64
    assert not rotary.is_long(64)


def test_a_switching_table_ends_a_block_where_it_changes() -> None:
    longrope, dynamic = Rotary("longrope", 32), Rotary("dynamic", 32)
    assert [longrope.horizon(position, 64) for position in (0, 31, 32, 50)] == [32, 32, 64, 64]
    assert [dynamic.horizon(position, 64) for position in (0, 31, 32, 50)] == [32, 32, 33, 51]
    assert [longrope.is_long(length) for length in (31, 32, 33)] == [False, False, True]


def test_the_config_tells_which_table_and_where_it_changes() -> None:
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    published: dict[str, Any] = {
        "hidden_size": 32,
        "num_attention_heads": 4,
        "original_max_position_embeddings": 16,
        "max_position_embeddings": 64,
        "rope_scaling": {"type": "longrope", **factors},
        "pad_token_id": 0,
    }
    assert rotary_of(Phi3Config(**published), 64) == Rotary("longrope", 16)
    stretched = LlamaConfig(
        max_position_embeddings=32, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    )
    assert rotary_of(stretched, 64) == Rotary("dynamic", 32)


def test_where_layers_differ_the_smallest_switch_counts() -> None:
    config = Gemma3TextConfig(
        max_position_embeddings=64,
        rope_parameters={
            "full_attention": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )
    assert rotary_of(config, 128) == Rotary("dynamic", 64)
    assert rotary_of(Gemma3TextConfig(max_position_embeddings=64), 64) == Rotary("fixed", 64)


def test_an_anchor_is_seen_by_nobody_and_asked_nothing() -> None:
    block = anchored(chain_block((7, 8, 9), 4, wanted=(2,)), 40)
    assert block.positions == (4, 5, 6, 40)
    assert block.wanted == (2,)
    assert not block.visible()[:3, 3].any()
    assert np.flatnonzero(block.visible()[3]).tolist() == [3]
