"""Which models decode blocks, which chains, which plainly and why; plain decoding is what transformers says."""

from itertools import islice
from typing import Any

import pytest
from torch import Tensor
from transformers import Cache, LlamaForCausalLM

from app.engine.decoders.plain import plain
from app.engine.drafters.draft_model import prefilled
from app.engine.layers.model_trial import tree_block, trial_blocks
from app.engine.machine.hardware import is_close
from app.engine.runner.runner import PREFILL_CHUNK, BlockRunner
from app.engine.runner.sequential_runner import LONGEST_CHAIN, SequentialRunner
from tests.engine.architectures import BRANCHING, LLAMA, OWN_ATTENTION, WINDOW, Architecture
from tests.engine.recurrent_architectures import CHAINED, ONE_OF_EACH, READ_BY_ROWS, RECURRENT, TREES
from tests.engine.replies import Zoo, load, numbers, transformers_says, write
from tests.tiers import named, some

LONG = numbers(3 * WINDOW)
SHORT = numbers(3, seed=1)
UNBRANCHED = (*(one for one in RECURRENT if one not in TREES), *OWN_ATTENTION)
DEFAULT = ("mamba", *ONE_OF_EACH, *map(str, OWN_ATTENTION))
EVERY = (*BRANCHING, *RECURRENT, *OWN_ATTENTION)


@pytest.mark.parametrize("architecture", (*BRANCHING, *TREES), ids=str)
def test_attention_that_knows_who_sees_whom_earns_lookahead(zoo: Zoo, architecture: Architecture) -> None:
    loaded = zoo.loaded(architecture)
    assert loaded.info.note("lookahead") == ""
    assert loaded.can_draft
    assert isinstance(loaded.runner, BlockRunner)


@pytest.mark.parametrize(
    "architecture", some(named(UNBRANCHED), "mamba", "rwkv", "qwen4-exp", *map(str, OWN_ATTENTION))
)
def test_other_models_take_chains_or_decode_plainly_and_a_sentence_says_why(
    zoo: Zoo, architecture: Architecture
) -> None:
    loaded = zoo.loaded(architecture)
    info, runner = loaded.info, loaded.runner
    assert isinstance(runner, SequentialRunner)
    if architecture.name in READ_BY_ROWS:
        assert (loaded.can_draft, runner.max_rows, info.note("chains")) == (False, 1, "")
        assert info.note("lookahead").endswith("so it decodes plainly, token by token.")
        assert "and loses its state when it is fed several tokens at once" in info.note("lookahead")
    else:
        assert (loaded.can_draft, runner.max_rows, info.note("lookahead")) == (True, LONGEST_CHAIN, "")
        assert info.note("chains").endswith("so lookahead guesses one chain of tokens, not a tree.")
    note = info.note("lookahead") or info.note("chains")
    assert note.startswith("This model")
    if architecture in RECURRENT and architecture.name not in (
        "rwkv",
        "xlstm",
    ):  # their configs name no layers
        assert "keeps more than keys and values" in note


@pytest.mark.parametrize("architecture", some(named(EVERY), "llama", "gemma4", *DEFAULT))
def test_plain_says_what_transformers_says(zoo: Zoo, architecture: Architecture) -> None:
    for prompt in (LONG, SHORT):
        expected = transformers_says(architecture, prompt, limit=16)
        assert write(zoo.runner(architecture), prompt, plain, limit=16).tokens == expected


@pytest.mark.parametrize(
    "architecture", some(named((*OWN_ATTENTION, *CHAINED)), "qwen4-exp", *map(str, OWN_ATTENTION))
)
def test_a_model_that_failed_the_trial_keeps_its_own_attention_and_layers(architecture: Architecture) -> None:
    model = architecture.make()
    stock, layers = model.config._attn_implementation, list(map(type, model.modules()))
    load(model)
    assert model.config._attn_implementation == stock
    assert list(map(type, model.modules())) == layers


@pytest.mark.parametrize("architecture", some(named(RECURRENT), "mamba", *ONE_OF_EACH))
def test_a_recurrent_model_reads_a_prompt_of_any_length(zoo: Zoo, architecture: Architecture) -> None:
    prompt = numbers(PREFILL_CHUNK + 77)
    expected = transformers_says(architecture, prompt, limit=12)
    assert write(zoo.runner(architecture), prompt, plain, limit=12).tokens == expected


@pytest.mark.parametrize("architecture", some(named(RECURRENT), "mamba", "qwen3-next"))
def test_a_recurrent_model_reads_a_long_prompt_in_chunks_and_tells_how_far_it_is(
    zoo: Zoo, architecture: Architecture
) -> None:
    """So that a person sees progress and can stop; Mamba takes no chunk behind another, so it reads row by row."""
    runner, prompt = zoo.runner(architecture), numbers(PREFILL_CHUNK + 20)
    done = [event.done for event in runner.prefill(prompt)]
    if architecture.name in READ_BY_ROWS:
        assert done == [512, 528, 532]
    else:
        assert done == ([512, 531, 532] if architecture in TREES else [512, 532])
    runner.forget()
    stopped = [event.done for event in islice(runner.prefill(prompt), 1)]
    assert stopped == [PREFILL_CHUNK]
    if isinstance(runner, SequentialRunner):
        expected = runner.feed(prompt, 0)[0]
        runner.forget()
        assert is_close(prefilled(runner, prompt), expected)


class Deaf(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """A model whose forward hands nothing on that it does not know."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Cache | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        **_ignored: Any,
    ) -> Any:
        held = cache if past_key_values is None else past_key_values
        return super().forward(input_ids, attention_mask, position_ids, held, use_cache=use_cache)


class Talkative(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """A model that gives the logits of all rows, whichever are wanted."""

    def forward(self, *args: Any, logits_to_keep: Any = 0, **rest: Any) -> Any:
        del logits_to_keep
        return super().forward(*args, **rest)


@pytest.mark.parametrize("kind", (Deaf, Talkative))
def test_a_forward_that_does_not_take_part_is_found_out(kind: type[LlamaForCausalLM]) -> None:
    stock: Any = LLAMA.make()
    model = kind(stock.config)
    model.load_state_dict(stock.state_dict())
    loaded = load(model.train(False))
    assert loaded.info.note("chains").startswith("This model has its own attention code")
    assert write(loaded.runner, LONG, plain).tokens == transformers_says(LLAMA, LONG)


def test_the_trial_asks_of_no_control_tokens() -> None:
    """Behind those that begin SmolLM2's vocabulary two ways to round bfloat16 were a standard deviation apart."""
    model = LLAMA.make()
    blocks = [tree_block(model), *trial_blocks(model)]
    tokens = {token for block in blocks for token in block.tokens}
    assert min(tokens) >= model.config.vocab_size // 10
    assert max(tokens) < model.config.vocab_size
