"""Models that take no draft trees accept chains, and say the same wherever a reply ends or goes on.

`test_exactness.py` has the table of what every decoder writes on them."""

from itertools import islice

import pytest
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, DynamicCache
from transformers.cache_utils import LinearAttentionCacheLayerMixin
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
)

from app.engine.attention import register
from app.engine.cpu_kernels import cpu_kernels
from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.decoders.plain import plain
from app.engine.loading.kernel_choice import choose_kernels
from app.engine.runner.step import Decoder
from app.values.messages import AttentionChoice, Decoding, ModelChoice
from tests.engine.architectures import LONG, OWN_ATTENTION, WINDOW, Architecture
from tests.engine.oracle import Draft, Oracle, half_right, right
from tests.engine.recurrent_architectures import (
    CHAINED,
    FAMILIES,
    ONE_OF_EACH,
    READ_BY_ROWS,
    RECURRENT,
    TREES,
)
from tests.engine.replies import Reply, Zoo, collect, numbers, reference, stream, with_pool, write
from tests.tiers import named, some

PROMPT = numbers(WINDOW + 9, seed=5) * 2  # twice, so that there is something to look up
LIMIT = 30
EVERY = named((*TREES, *CHAINED, *OWN_ATTENTION))

every_architecture = pytest.mark.parametrize("architecture", some(EVERY, *ONE_OF_EACH, "bloom", "llama4"))
two_architectures = pytest.mark.parametrize("architecture", some(EVERY, "qwen3-next", "falcon-h1"))


def knowing(prompt: tuple[int, ...], reply: Reply, *drafts: Draft) -> Decoder:
    """Lookahead that is told what comes, and errors."""
    return with_pool(Oracle((*prompt, *reply.tokens), drafts), Decoding(window=0, ngram=7))


def reusable(architecture: Architecture, prompt: tuple[int, ...]) -> int:
    """The tokens of a prompt that are not read again: a model that branches reads the last one for its logits."""
    return len(prompt) - (architecture in TREES)


@every_architecture
def test_right_drafts_are_accepted_several_at_once(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT, limit=LIMIT)
    said = write(runner, PROMPT, knowing(PROMPT, expected, right), limit=LIMIT)
    assert said.tokens == expected.tokens
    assert said.longest_run == 7, "six guesses and the model's own next token"
    assert all(step.rows <= 7 for step in said.steps), "nothing was fed again"


@two_architectures
def test_a_reply_ends_at_the_same_token_and_the_next_turn_says_what_a_cold_start_says(
    zoo: Zoo, architecture: Architecture
) -> None:
    runner = zoo.runner(architecture)
    unending = reference(runner, PROMPT, limit=LIMIT)
    for place in (0, 11):
        stops = (" {} {} ".format(*unending.tokens[place : place + 2]),)
        for limit, eos, stop in (
            (place + 1, (), ()),
            (LIMIT, {unending.tokens[place]}, ()),
            (LIMIT, (), stops),
        ):
            runner.forget()
            expected = write(runner, PROMPT, plain, limit=limit, eos=eos, stops=stop)
            runner.forget()
            decoder = knowing(PROMPT, unending, right, half_right)
            said = write(runner, PROMPT, decoder, limit=limit, eos=eos, stops=stop)
            assert (said.tokens, said.reason) == (expected.tokens, expected.reason)
            turn = (*PROMPT, *said.tokens, 7, 8)
            warm = write(runner, turn, plain, limit=6)
            assert runner.reused >= reusable(architecture, PROMPT)
            assert warm.tokens == reference(runner, turn, limit=6).tokens


@every_architecture
def test_a_stopped_reply_a_new_one_and_a_turn_go_on_from_what_was_read(
    zoo: Zoo, architecture: Architecture
) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT, limit=LIMIT)
    for events in (2, 3, 5):
        runner.forget()
        writing = stream(runner, PROMPT, knowing(PROMPT, expected, half_right, right), limit=LIMIT)
        begun = collect(islice(writing, events))
        writing.close()
        assert begun.tokens == expected.tokens[: len(begun.tokens)]
        assert write(runner, PROMPT, plain, limit=LIMIT).tokens == expected.tokens, "regenerated"
        assert runner.reused == reusable(architecture, PROMPT), "the state behind the prompt was kept"
        turn = (*PROMPT, *expected.tokens[: len(begun.tokens)])
        rest = knowing(PROMPT, expected, right)
        assert (
            begun.tokens + write(runner, turn, rest, limit=5).tokens
            == expected.tokens[: len(turn) - len(PROMPT) + 5]
        )


@pytest.mark.parametrize("architecture", some(named(RECURRENT), "mamba", "qwen3-next"))
def test_another_prompt_begins_anew(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    other = numbers(20, seed=6)
    expected = reference(runner, other, limit=12)
    write(runner, PROMPT, make_lookahead(Decoding(rows=8)) if zoo.loaded(architecture).can_draft else plain)
    assert write(runner, other, plain, limit=12).tokens == expected.tokens
    assert runner.reused == 0
    assert write(runner, other, plain, limit=12).tokens == expected.tokens
    assert runner.reused == (reusable(architecture, other) if zoo.loaded(architecture).can_draft else 0)


@pytest.mark.parametrize("architecture", some(named(TREES), "qwen3.5", "bamba", "lfm2"))
def test_our_attention_and_fused_layers_write_the_same_text(architecture: Architecture) -> None:
    if cpu_kernels() is None:
        pytest.skip("there is no C compiler here")
    register()
    texts = []
    attentions: tuple[AttentionChoice, ...] = ("sdpa", "native")
    for attention in attentions:
        chosen = choose_kernels(architecture.make(), ModelChoice("zoo", attention=attention), LONG)
        assert chosen.attention.name == attention
        assert chosen.fused == (attention == "native"), chosen.notes
        texts.append(write(chosen.runner, PROMPT, plain, limit=LIMIT).tokens)
        chosen.runner.forget()
        texts.append(write(chosen.runner, PROMPT, make_lookahead(Decoding(rows=24)), limit=LIMIT).tokens)
    assert len(set(texts)) == 1


def test_every_recurrent_architecture_that_reads_rows_is_known() -> None:
    assert {one.name for one in RECURRENT} >= READ_BY_ROWS


def test_every_recurrent_text_model_of_transformers_is_in_the_table() -> None:
    written = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES}
    kinds = {kind for kind in written if is_recurrent(kind)}
    assert len(kinds) >= 20
    known = {getattr(transformers, f"{family}Config", None) for family in FAMILIES}
    texts = {kind: CONFIG_MAPPING[kind]().get_text_config(decoder=True) for kind in kinds}
    assert {kind for kind, text in texts.items() if type(text) not in known} == set()


def is_recurrent(kind: str) -> bool:
    """Whether transformers keeps a recurrent state for a layer of this kind's usual config."""
    try:
        layers = DynamicCache(config=CONFIG_MAPPING[kind]().get_text_config(decoder=True)).layers
    except (
        AttributeError,
        KeyError,
        StrictDataclassError,
        ValueError,
    ):  # no layers, other layers, values that must be given
        return False
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in layers)
