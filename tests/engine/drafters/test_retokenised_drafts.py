"""A draft model with another tokenizer changes how a reply is written, and never what it says."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from app.engine.session.session import NeverStop, Session
from app.values.logits import LogitsSettings
from app.values.messages import Decoding, Message, Options, Request, Sampling
from tests.engine.drafters.test_draft_models import (
    CPU,
    DECODINGS,
    LIMIT,
    LOGITS,
    QUESTION,
    SAMPLINGS,
    ask,
    ids_of,
    origins_of,
    text_of,
)
from tests.engine.places import Places
from tests.engine.tiny import DEMO, STORIES, write_tiny
from tests.engine.tokenizers_made import bytes_of_words, with_a_space_before
from tests.tiers import named, pairwise, some

DRAFTS = {"bytes": bytes_of_words, "spaced": with_a_space_before}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    base = tmp_path_factory.mktemp("retokenised")
    write_tiny(base / "target")
    for name, make in DRAFTS.items():
        write_draft(base / name, make())
    folders = {folder.name: folder for folder in base.iterdir()}
    opened = {name: Session(Places(folders), base / "measurements") for name in ("none", *DRAFTS)}
    yield opened
    for session in opened.values():
        session.close()


def write_renumbered_demo(folder: Path) -> Path:
    """The demo model with other numbers for its tokens: another tokenizer, and it says the same."""
    shutil.copytree(DEMO, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    controls, vocabulary = len(tokenizer["added_tokens"]), tokenizer["model"]["vocab"]
    order = [*range(controls), *reversed(range(controls, len(vocabulary)))]
    tokenizer["model"]["vocab"] = {token: order[number] for token, number in vocabulary.items()}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    model = AutoModelForCausalLM.from_pretrained(folder)
    weight = model.get_input_embeddings().weight  # the head's, too
    weight.data = weight.data[order]
    model.save_pretrained(folder)
    return folder


def write_draft(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    write_tiny(folder, vocabulary=len(tokenizer), seed=5)
    tokenizer.save_pretrained(folder)


@pairwise(draft=named(DRAFTS), decoding=DECODINGS, sampling=SAMPLINGS, logits=LOGITS, deep=())
def test_the_text_is_plains(
    sessions: dict[str, Session], draft: str, decoding: Decoding, sampling: Sampling, logits: LogitsSettings
) -> None:
    options = Options(sampling, Decoding("plain"), LIMIT)
    expected, ended = ask(sessions["none"], CPU, options, logits)
    options, choice = replace(options, decoding=decoding), replace(CPU, draft_model=draft)
    for _ in range(2):
        found, finished = ask(sessions[draft], choice, options, logits)
        assert (ids_of(found), finished.reason) == (ids_of(expected), ended.reason)


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_chat_that_goes_on_goes_back_and_is_stopped_says_what_plain_says(
    sessions: dict[str, Session], draft: str
) -> None:
    options = Options(Sampling(0.8, seed=3), Decoding(rows=12), 12)
    choice, plainly = replace(CPU, draft_model=draft), replace(options, decoding=Decoding("plain"))
    said, finished = ask(sessions[draft], choice, options, LogitsSettings())
    differs = f"The tokenizer of {draft} differs from that of target, so its words are re-tokenised."
    assert finished.model.note("draft-model") == differs
    stopped = sessions[draft].events(Request(choice, QUESTION, options), lambda *_: None, NeverStop())
    for _ in range(5):
        next(stopped)
    stopped.close()
    reply = Message("assistant", text_of(said))
    for turn in ((*QUESTION, reply, Message("user", "And then?")), (Message("user", "Once upon"),), QUESTION):
        found, _ = ask(sessions[draft], choice, options, LogitsSettings(), *turn)
        assert ids_of(found) == ids_of(ask(sessions["none"], CPU, plainly, LogitsSettings(), *turn)[0])


SAMPLED_TOO = some({name: SAMPLINGS[name] for name in ("greedy", "sampled")}, "greedy")


@pytest.mark.parametrize("sampling", SAMPLED_TOO)
def test_one_that_says_what_the_target_says_is_nearly_always_right(
    tmp_path: Path, sampling: Sampling
) -> None:
    session = Session(Places({"target": DEMO, "twin": write_renumbered_demo(tmp_path / "twin")}))
    choice, question = replace(CPU, draft_model="twin"), Message("user", "What is a cat?")
    options = Options(sampling, Decoding("plain"), 40, ignore_eos=True)
    expected, _ = ask(session, choice, options, LogitsSettings(), question)
    options = replace(options, decoding=Decoding("lookahead", window=0, ngram=6, guesses=3))
    found, finished = ask(session, choice, options, LogitsSettings(), question)
    assert ids_of(found) == ids_of(expected)
    assert "draft" in origins_of(found)
    assert sampling.temperature or finished.statistics.tokens_per_step > 3


@pytest.mark.skipif(not STORIES.exists(), reason="the story model is not beside the checkout")
@pytest.mark.parametrize("sampling", SAMPLED_TOO)
def test_two_trained_models_write_what_one_writes(sampling: Sampling) -> None:
    session, choice = Session(Places({"target": STORIES, "draft": DEMO})), replace(CPU, draft_model="draft")
    options = Options(sampling, Decoding("plain"), 40)
    story = (Message("user", "Once upon a time, there was a fox"),)
    expected, _ = ask(session, choice, options, LogitsSettings(), *story)
    found, _ = ask(session, choice, replace(options, decoding=Decoding(rows=12)), LogitsSettings(), *story)
    assert ids_of(found) == ids_of(expected)
