"""An EAGLE-3 head says what its weights mean, is right where it knows its target, and never changes a text."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from app.engine.drafters.mixed_tree import DraftModelSource
from app.engine.loading.draft_loading import with_draft_model
from app.engine.loading.loading import LoadedModel, load
from app.engine.runner.runner import BlockRunner
from app.engine.session.session import Session, no_progress
from app.values.messages import Decoding, Finished, Message, ModelChoice, Options, Request, Sampling
from tests.engine.asking import tokens_and_end
from tests.engine.eagle_heads import (
    KINDS,
    NAMED,
    TAUGHT,
    VOCABULARY,
    Kind,
    Weights,
    random_turns,
    random_weights,
    taught_weights,
    write_head,
    write_target,
)
from tests.engine.head_replies import drafted, require_counted_on, require_sampled
from tests.engine.heads import Taught
from tests.engine.places import Places
from tests.engine.replies import Reply
from tests.tiers import named, pairwise, some, tiered

CHOICE = ModelChoice("target", dtype="float32", device="cpu", draft_model="head")
DEPTH = 5
DECODINGS = {"auto": Decoding(), "8 rows": Decoding(rows=8), "W5 N4 G5": Decoding("lookahead")}
SAMPLINGS = {
    "greedy": Sampling(),
    "sampled": Sampling(0.8, top_k=30, seed=4),
    "penalised": Sampling(0.7, top_p=0.9, repetition_penalty=1.2, seed=5),
}
QUESTION = (Message("user", "Once upon a time there was a fox"),)
PLAIN = Decoding("plain")


def opened(
    base: Path, kind: Kind, weights: Weights, turns: Tensor | None = None, is_hybrid: bool = False
) -> LoadedModel:
    """A target and this head."""
    target = load(write_target(base / "target", turns, is_hybrid=is_hybrid), CHOICE)
    return with_draft_model(target, write_head(base / "head", kind.config, weights), CHOICE)


def runner_and_source(loaded: LoadedModel) -> tuple[BlockRunner, DraftModelSource]:
    assert isinstance(loaded.runner, BlockRunner)
    (source,) = loaded.draft_models
    return loaded.runner, source


def said_by(kind: Kind, weights: Weights, target: BlockRunner, text: list[int], guesses: list[int]) -> Tensor:
    """What the head's weights mean behind a text and guesses, in plain torch: [vocab], minus infinity for no logit.

    Behind guesses its own output takes the place of what it reads of the target."""
    config, model = kind.config, target.model
    model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        of_target = model.get_decoder()(torch.tensor([text[:-1]]), output_hidden_states=True).hidden_states
    model.set_attn_implementation("foresight")
    table = weights.get("embed_tokens.weight", model.get_input_embeddings().weight)
    read = [of_target[layer][0] for layer in config["eagle_aux_hidden_state_layer_ids"]]
    states, embedded = joined(config, weights, read), table[torch.tensor([*text[1:], *guesses])]
    for rows in range(len(text) - 1, len(embedded) + 1):
        output = states
        for number in range(config["transformer_layer_config"]["num_hidden_layers"]):
            output = layer_output(config, weights, number, embedded[:rows], output)
        normed = rms_norm(output[-1:], weights["norm.weight"])
        states = torch.cat([states, normed if config.get("norm_output") else output[-1:]])
    own = weights["lm_head.weight"] @ normed[0]
    if kind.names_all:
        return own
    logits = torch.full((VOCABULARY,), -torch.inf)
    logits[NAMED] = own
    return logits


def joined(config: dict[str, Any], weights: Weights, read: list[Tensor]) -> Tensor:
    if config.get("fc_norm"):
        read = [rms_norm(one, weights[f"fc_norm.{place}.weight"]) for place, one in enumerate(read)]
    states = torch.cat(read, dim=-1)
    if config.get("norm_before_fc"):
        states = rms_norm(states, weights["input_norm.weight"])
    return states @ weights["fc.weight"].t()


def layer_output(
    config: dict[str, Any], weights: Weights, number: int, embedded: Tensor, states: Tensor
) -> Tensor:
    """A decoder layer's output [n, width]; the first one reads the embeddings, too."""
    own = {
        name.removeprefix(f"layers.{number}."): weight
        for name, weight in weights.items()
        if name.startswith(f"layers.{number}.")
    }
    read = rms_norm(embedded if number == 0 else states, own["input_layernorm.weight"])
    if number == 0:
        normed = rms_norm(states, own["hidden_norm.weight"])
        read = torch.cat([read, normed], dim=-1)
        states = normed if config["norm_before_residual"] else states
    states = states + attended(config["transformer_layer_config"], own, read)
    read = rms_norm(states, own["post_attention_layernorm.weight"])
    gate, up = (read @ own[f"mlp.{name}_proj.weight"].t() for name in ("gate", "up"))
    return states + (functional.silu(gate) * up) @ own["mlp.down_proj.weight"].t()


def attended(layer: dict[str, Any], own: Weights, read: Tensor) -> Tensor:
    size, found = layer["head_dim"], {}
    for name in "qkv":
        bias = own.get(f"self_attn.{name}_proj.bias")
        heads = functional.linear(read, own[f"self_attn.{name}_proj.weight"], bias).unflatten(-1, (-1, size))
        norm = own.get(f"self_attn.{name}_norm.weight")
        found[name] = (heads if norm is None else rms_norm(heads, norm)).transpose(0, 1)
    turned = [in_place(found[name]) for name in "qk"]
    shared = layer["num_attention_heads"] // layer["num_key_value_heads"]
    keys, values = (one.repeat_interleave(shared, dim=0) for one in (turned[1], found["v"]))
    scores = turned[0] @ keys.transpose(1, 2) / size**0.5
    scores = scores.masked_fill(torch.ones_like(scores[0], dtype=torch.bool).triu(1), -torch.inf)
    mixed = (scores.softmax(-1) @ values).transpose(0, 1).flatten(1)
    return functional.linear(mixed, own["self_attn.o_proj.weight"], own.get("self_attn.o_proj.bias"))


def in_place(heads: Tensor) -> Tensor:
    """Turned by their rows' positions [heads, n, size]; where they begin is no matter."""
    size = heads.shape[-1]
    angles = torch.arange(heads.shape[1])[:, None] * 10_000.0 ** -(torch.arange(0, size, 2) / size)
    one, other = heads.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


def rms_norm(states: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(states, weight.shape, weight, 1e-6)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_it_says_what_its_weights_mean(tmp_path: Path, kind: Kind) -> None:
    weights = random_weights(kind)
    runner, source = runner_and_source(opened(tmp_path, kind, weights))
    text = [
        int(token) for token in torch.randint(VOCABULARY, (40,), generator=torch.Generator().manual_seed(1))
    ]
    for _ in runner.prefill(text[:-1]):
        pass
    for guesses in ([], [3], [3, 4, 5]):
        found = source.model._reader.read([*text, *guesses], len(text) if guesses else 0)
        expected = said_by(kind, weights, runner, text, guesses)
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=2e-3)


def reply(loaded: LoadedModel, prompt: range, sampling: Sampling) -> Reply:
    return drafted(*runner_and_source(loaded), prompt, sampling)


@tiered(
    lambda is_hybrid, by: (is_hybrid == "hybrid") == (by == "token"),
    is_hybrid={"transformer": False, "hybrid": True},
    by={"token": "token", "state": "state"},
)
def test_a_head_that_knows_the_next_token_is_accepted_in_every_step(
    tmp_path: Path, by: Taught, is_hybrid: bool
) -> None:
    turns = random_turns()
    loaded = opened(tmp_path, TAUGHT[by], taught_weights(by, turns), turns, is_hybrid)
    for start in (70, 1000, 2950):
        require_counted_on(reply(loaded, range(start, start + 20), Sampling()), start + 20)


def test_a_sampled_token_is_what_the_head_expects_too(tmp_path: Path) -> None:
    turns = random_turns()
    loaded = opened(tmp_path, TAUGHT["token"], taught_weights("token", turns), turns)
    for seed in range(2):
        require_sampled(reply(loaded, range(70, 90), Sampling(0.9, top_k=40, seed=seed)), 90)


def test_a_token_that_a_head_never_names_is_written_all_the_same(tmp_path: Path) -> None:
    turns = random_turns()
    loaded = opened(tmp_path, TAUGHT["state"], taught_weights("state", turns), turns)
    found = reply(loaded, range(2000, 2030), Sampling())
    assert list(found.tokens) == list(range(2030, 2090))
    drafted = [
        token
        for step in found.steps
        for token, origin in zip(step.tokens, step.origins, strict=True)
        if origin == "draft"
    ]
    assert drafted
    assert max(drafted) < 2048


Open = Callable[[str], Session]
"""A kind of head, or "taught" -> a session whose places have it."""


@pytest.fixture(scope="module")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Each is made when it is first asked for; the target is measured once."""
    base, sessions = tmp_path_factory.mktemp("eagle"), list[Session]()
    target = write_target(base / "target").path

    @cache
    def opened(name: str) -> Session:
        if name == "taught":
            turns = random_turns()
            model = write_target(base / "counting", turns).path
            head = write_head(base / name, TAUGHT["state"].config, taught_weights("state", turns))
        else:
            model, head = target, write_head(base / name, KINDS[name].config, random_weights(KINDS[name]))
        sessions.append(Session(Places({"target": model, "head": head.path}), base / "measurements"))
        return sessions[-1]

    yield opened
    for session in sessions:
        session.close()


def ask(session: Session, options: Options, *chat: Message) -> tuple[list[int], Finished]:
    return tokens_and_end(session, Request(CHOICE, chat or QUESTION, options))


@pairwise(
    kind={name: name for name in KINDS},
    sampling=SAMPLINGS,
    decoding=DECODINGS,
    stops=named(((), (" t",))),
    deep=(),
)
def test_the_text_is_plains(
    open_model: Open, kind: str, sampling: Sampling, decoding: Decoding, stops: tuple[str, ...]
) -> None:
    session = open_model(kind)
    options = Options(sampling, decoding, 24, stop=stops)
    expected, ended = ask(session, replace(options, decoding=PLAIN))
    for _ in ("written", "regenerated, with all that was learned"):
        found, finished = ask(session, options)
        assert (found, finished.reason) == (expected, ended.reason)
    assert finished.model.draft_model == "head"


@pytest.mark.parametrize("sampling", some(SAMPLINGS, "sampled"))
def test_a_chat_that_goes_back_and_a_reply_that_was_stopped_say_what_plain_says(
    open_model: Open, sampling: Sampling
) -> None:
    session, options = open_model("taught"), Options(sampling, Decoding(rows=12), 24, ignore_eos=True)
    for turn in ("Once upon", "Once upon a time there were two foxes", "Once"):
        replying = session.events(Request(CHOICE, (Message("user", turn),), options), no_progress)
        for _ in range(3):
            next(replying)
        replying.close()
        found, _ = ask(session, options, Message("user", turn))
        assert found == ask(session, replace(options, decoding=PLAIN), Message("user", turn))[0]
    _, finished = ask(session, replace(options, sampling=Sampling()))
    assert finished.statistics.tokens_per_step > 2
