"""An assistant of Gemma 4 says what transformers' own use of it says, and never changes a text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma4ForCausalLM
from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator
from transformers.models.gemma4_assistant import Gemma4AssistantForCausalLM

from app.engine.drafters.mixed_tree import DraftModelSource
from app.engine.loading.draft_loading import with_draft_model
from app.engine.loading.loading import LoadedModel, load
from app.engine.runner.runner import BlockRunner
from app.engine.session.session import Session, no_progress
from app.errors import BadOption, ModelBroken
from app.values.messages import Decoding, Finished, Message, ModelChoice, Options, Request, Sampling
from tests.engine.asking import tokens_and_end
from tests.engine.assistants import (
    ASSISTANTS,
    TARGETS,
    VOCABULARY,
    WIDTH,
    WINDOW,
    write_assistant,
    write_target,
)
from tests.engine.eagle_heads import random_turns
from tests.engine.eagle_heads import write_target as write_llama
from tests.engine.head_replies import drafted, require_counted_on, require_sampled
from tests.engine.heads import Taught
from tests.engine.places import Places
from tests.engine.replies import Reply
from tests.tiers import named, pairwise, some

CHOICE = ModelChoice("target", dtype="float32", device="cpu", draft_model="assistant")
DECODINGS = {"auto": Decoding(), "8 rows": Decoding(rows=8), "W5 N4 G5": Decoding("lookahead")}
SAMPLINGS = {
    "greedy": Sampling(),
    "sampled": Sampling(0.8, top_k=30, seed=4),
    "penalised": Sampling(0.7, top_p=0.9, repetition_penalty=1.2, seed=5),
}
QUESTION = (Message("user", "Once upon a time there was a fox"),)
PLAIN = Decoding("plain")


def opened(base: Path, kind: str = "all tokens", target: str = "own keys", **about: Any) -> LoadedModel:
    """A target and its assistant, taught if angles are among what is told."""
    of_target = write_target(base / "target", target, about.get("turns"))
    assistant = write_assistant(base / "assistant", kind, target, **about)
    return with_draft_model(load(of_target, CHOICE), assistant, CHOICE)


def runner_and_source(loaded: LoadedModel) -> tuple[BlockRunner, DraftModelSource]:
    assert isinstance(loaded.runner, BlockRunner)
    (source,) = loaded.draft_models
    return loaded.runner, source


def tokens(count: int) -> list[int]:
    return [
        int(one) for one in torch.randint(VOCABULARY, (count,), generator=torch.Generator().manual_seed(1))
    ]


def transformers_guesses(target: Any, assistant: Any, text: Sequence[int], count: int) -> list[int]:
    """What transformers lets the assistant guess behind a text whose last token the model has not read."""
    assistant.generation_config.num_assistant_tokens = count
    target.generation_config.max_length = 256
    make: Any = SinglePositionMultiTokenCandidateGenerator
    older: Any = {"input_ids": torch.tensor([text]), "model_kwargs": {}}  # needed before transformers 5.19
    generator = make(
        assistant_model=assistant,
        target_model_input_embeddings=target.get_input_embeddings(),
        generation_config=target.generation_config,
        **older,
    )
    with torch.inference_mode():
        read = target(
            torch.tensor([text[:-1]]),
            output_hidden_states=True,
            return_shared_kv_states=True,
            use_cache=False,
        )
        found, _ = generator.get_candidates(torch.tensor([text]), {}, read, False, len(text) - 2)
    return found[0, len(text) :].tolist()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ASSISTANTS)
def test_it_guesses_what_transformers_lets_it_guess(tmp_path: Path, kind: str, target: str) -> None:
    runner, source = runner_and_source(opened(tmp_path, kind, target))
    theirs = [
        model.from_pretrained(tmp_path / name, attn_implementation="eager")
        for model, name in ((Gemma4ForCausalLM, "target"), (Gemma4AssistantForCausalLM, "assistant"))
    ]
    for length in (WINDOW // 2, WINDOW + 1, WINDOW + 2, 40):
        runner.forget()
        text, guesses = tokens(length), list[int]()
        for _ in runner.prefill(text[:-1]):
            pass
        for _ in range(4):
            known = len(text) + len(guesses) - 1 if guesses else 0
            guesses.append(int(source.model._reader.read([*text, *guesses], known).argmax()))
        assert guesses == transformers_guesses(*theirs, text, 4)
        again = source.model._reader.read([*text, *guesses[:2]], len(text))
        assert int(again.argmax()) == guesses[2], "whatever was asked before"


def reply(loaded: LoadedModel, prompt: range, sampling: Sampling) -> Reply:
    return drafted(*runner_and_source(loaded), prompt, sampling)


@pairwise(by=named(("token", "state")), target=named(TARGETS), deep=())
def test_one_that_knows_the_next_token_is_accepted_in_every_step(
    tmp_path: Path, target: str, by: Taught
) -> None:
    loaded = opened(tmp_path, target=target, taught=by, turns=random_turns())
    for start in (70, 1000, 3000):
        require_counted_on(reply(loaded, range(start, start + 20), Sampling()), start + 20)


def test_a_sampled_token_is_what_it_expects_too(tmp_path: Path) -> None:
    loaded = opened(tmp_path, taught="token", turns=random_turns())
    for seed in (1, 2):
        require_sampled(reply(loaded, range(70, 90), Sampling(0.9, top_k=40, seed=seed)), 90)


Open = Callable[[str, str], Session]
"""A kind of assistant or "taught", and a kind of target -> a session whose places have them."""


@pytest.fixture(scope="module")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Each is made when it is first asked for; the targets are measured once."""
    base, sessions = tmp_path_factory.mktemp("assistants"), list[Session]()

    @cache
    def opened(kind: str, target: str) -> Session:
        turns = random_turns() if kind == "taught" else None
        folder = base / f"{kind}-{target}"
        model = write_target(folder / "target", target, turns)
        made = write_assistant(
            folder / "assistant", "all tokens" if turns is not None else kind, target, "state", turns
        )
        sessions.append(
            Session(Places({"target": model.path, "assistant": made.path}), base / "measurements")
        )
        return sessions[-1]

    yield opened
    for session in sessions:
        session.close()


def ask(session: Session, options: Options, *chat: Message) -> tuple[list[int], Finished]:
    return tokens_and_end(session, Request(CHOICE, chat or QUESTION, options))


@pairwise(
    kind=named((*ASSISTANTS, "taught")),
    target=named(TARGETS),
    sampling=SAMPLINGS,
    decoding=DECODINGS,
    stops=named(((), (" t",))),
    deep=(),
)
def test_the_text_is_plains(
    open_model: Open, kind: str, target: str, sampling: Sampling, decoding: Decoding, stops: tuple[str, ...]
) -> None:
    session = open_model(kind, target)
    options = Options(sampling, decoding, 3 * WINDOW, stop=stops)
    expected, ended = ask(session, replace(options, decoding=PLAIN))
    for _ in ("written", "regenerated, with all that was learned"):
        found, finished = ask(session, options)
        assert (found, finished.reason) == (expected, ended.reason)
    assert finished.model.draft_model == "assistant"


@pytest.mark.parametrize("sampling", some(SAMPLINGS, "sampled"))
@pytest.mark.parametrize("target", some(named(TARGETS), "shared keys"))
def test_a_chat_that_goes_back_and_a_reply_that_was_stopped_say_what_plain_says(
    open_model: Open, target: str, sampling: Sampling
) -> None:
    session, options = open_model("taught", target), Options(sampling, Decoding(rows=12), 24, ignore_eos=True)
    for turn in ("Once upon", "Once upon a time there were two foxes", "Once"):
        replying = session.events(Request(CHOICE, (Message("user", turn),), options), no_progress)
        for _ in range(3):
            next(replying)
        replying.close()
        found, _ = ask(session, options, Message("user", turn))
        assert found == ask(session, replace(options, decoding=PLAIN), Message("user", turn))[0]
    _, finished = ask(session, replace(options, sampling=Sampling()))
    assert finished.statistics.tokens_per_step > 2


def test_a_conversation_that_is_returned_to_is_restored_with_its_states(tmp_path: Path) -> None:
    loaded = opened(tmp_path, target="shared keys", taught="state", turns=random_turns())
    runner, _ = runner_and_source(loaded)
    for start in (70, 1000, 70):
        require_counted_on(reply(loaded, range(start, start + 150), Sampling()), start + 150)
    assert runner.reused > 100
    assert runner.cache.capacity > 200, "layers without keys of their own do not count"


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "states": ({"backbone": 64}, "it reads hidden states of size 64, and the model's have size 32"),
    "vocabulary": ({"vocab_size": 5000}, "a vocabulary of 5,000 tokens, and the model's has 4,096"),
    "number of keys": (
        {"num_key_value_heads": 4},
        "it reads 4 keys of size 8 for each token, and the model has 2 of size 8",
    ),
    "size of keys": (
        {"global_head_dim": 32},
        "it reads 1 keys of size 32 for each token, and the model has 1 of size 16",
    ),
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_one_that_does_not_fit_is_refused(tmp_path: Path, unfit: tuple[dict[str, Any], str]) -> None:
    changes, words = unfit
    with pytest.raises(BadOption) as refused:
        opened(tmp_path, **changes)
    sentence = str(refused.value)
    assert sentence.startswith("assistant cannot draft for target, because "), sentence
    assert words in sentence
    assert sentence.endswith(": choose another draft model, or none."), sentence


def test_a_model_without_such_layers_is_not_its_target(tmp_path: Path) -> None:
    target = load(write_llama(tmp_path / "target"), CHOICE)
    with pytest.raises(BadOption, match="it reads keys of sliding attention, which the model does not have"):
        with_draft_model(target, write_assistant(tmp_path / "assistant"), CHOICE)


def test_weights_that_are_missing_are_named_and_the_model_stays_as_it_was(tmp_path: Path) -> None:
    target = load(write_target(tmp_path / "target"), CHOICE)
    folder = write_assistant(tmp_path / "assistant")
    weights = load_file(folder.path / "model.safetensors")
    del weights["pre_projection.weight"]
    save_file(weights, folder.path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelBroken, match=r"incomplete \(missing: 1, the first is pre_projection\.weight\)"):
        with_draft_model(target, folder, CHOICE)
    broken = {name: torch.full_like(one, torch.nan) for name, one in weights.items()}
    save_file(
        broken | {"pre_projection.weight": torch.zeros(WIDTH, 2 * WIDTH)},
        folder.path / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(BadOption, match="because its trial failed"):
        with_draft_model(target, folder, CHOICE)
    assert isinstance(target.runner, BlockRunner)
    assert not any(module._forward_hooks for module in target.runner.model.modules())


def test_the_assistant_of_a_quantised_model_drafts(tmp_path: Path) -> None:
    target = load(write_target(tmp_path / "target"), replace(CHOICE, quantisation="int8"))
    loaded = with_draft_model(target, write_assistant(tmp_path / "assistant"), CHOICE)
    assert loaded.info.draft_model == "assistant"
