"""On trained models lookahead says what plain says, and earns what it promises.

stories260K lies beside the checkout where there is one; the demo model ships with the app.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import pytest

from app.engine.block.context_entries import Packed
from app.engine.block.step_profile import StepProfile, StepTimes
from app.engine.decoders import make_decoder
from app.engine.decoders.lookahead_decoder import ReplyContext, make_lookahead
from app.engine.loading.loading import LoadedModel, load
from app.engine.lookahead.model_statistics import ModelStatistics, measure_first_successors, no_successors
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder, Step
from app.engine.sampling.sampling import Sampler
from app.engine.text.prompt import encode
from app.engine.text.stopping_criteria import StoppingCriteria
from app.settings import assets_dir
from app.values.messages import Decoding, Message, ModelChoice, ModelFolder, Sampling
from tests.engine.replies import reference, with_pool, write
from tests.engine.sources import only
from tests.engine.tiny import DEMO, STORIES
from tests.tiers import some, tiered

BEGINNINGS = (
    "Once upon a time, there was a little girl named Lily.",
    "Tom and Sam were playing in the garden when",
    "One day, a small dog found a big red ball",
    "The old tree in the park was very sad because",
    "Mia had a new kite. She wanted to",
    '"Mom, can I have a cookie?" asked Ben.',
)
QUESTIONS = (
    "Hello, who are you?",
    "What can you do?",
    "How do I list the files of a folder?",
    "Thank you!",
    "Tell me about lookahead decoding.",
    "How do I find the largest files on my disk?",
)
WIDE = Decoding("lookahead", window=15, ngram=5, guesses=15)
NARROW = Decoding("lookahead", window=5, ngram=4, guesses=5)
TUNED = StepProfile(StepTimes((1, 8, 32, 128), (0.004, 0.0042, 0.006, 0.02)))
DECODERS = {
    "narrow": (NARROW, StepProfile()),
    "auto-8": (Decoding(rows=8), StepProfile()),
    "auto-64": (Decoding(rows=64), StepProfile()),
    "tuned": (Decoding(), TUNED),
}

SAMPLINGS = {"greedy": Sampling(), "sampled": Sampling(temperature=0.8, top_p=0.95, seed=3)}
LANES = {
    "auto-32": (Decoding(rows=32), 3.0, 32),
    "auto-64": (Decoding(rows=64), 3.5, 64),
    "auto-96": (Decoding(rows=96), 3.9, 96),
    "W15-N5-G15": (WIDE, 3.1, 61 + 59),
    "W5-N4-G5": (NARROW, 2.2, 16 + 14),
}
"""Each with the tokens per step that it earns, and the rows that it may take."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model, and what it says behind each token alone."""

    loaded: LoadedModel
    first: Packed

    @property
    def vocabulary(self) -> int:
        return len(self.first)

    def known(self, profile: StepProfile, sampling: Sampling) -> ReplyContext:
        """What the session knows of a freshly loaded model."""
        special = frozenset(self.loaded.tokenizer.all_special_ids) | self.loaded.eos_ids
        statistics = ModelStatistics(self.vocabulary, 0, self.first, special)
        return ReplyContext(statistics, profile, sampling)

    def ids(self, prompt: str | tuple[Message, ...]) -> list[int]:
        """The prompt as the app would send it."""
        return encode(self.loaded.tokenizer, prompt, self.loaded.info.context)


def prepared(folder: ModelFolder) -> Trained:
    loaded = load(folder, ModelChoice(folder.name, "float32", "cpu"))
    nothing, start = no_successors(loaded.tokenizer.vocab_size), loaded.tokenizer.bos_token_id or 0
    return Trained(
        loaded, measure_first_successors(loaded.runner, nothing, start, lambda _done, _total: None)
    )


@pytest.fixture(scope="module")
def stories() -> Trained:
    if not STORIES.exists():
        pytest.skip("the trained model stories260K is not beside this checkout")
    return prepared(ModelFolder(STORIES, "stories260K"))


@pytest.fixture(scope="module")
def demo() -> Trained:
    return prepared(ModelFolder(DEMO, "demo", "demo"))


@pytest.mark.shared
@tiered(lambda *ids: ids == ("auto-64", "sampled"), decoder=DECODERS, sampling=SAMPLINGS)
def test_lookahead_tells_the_same_stories_as_plain(
    stories: Trained, decoder: tuple[Decoding, StepProfile], sampling: Sampling
) -> None:
    decoding, profile = decoder
    says_the_same(
        stories, BEGINNINGS[::2], make_lookahead(decoding, stories.known(profile, sampling)), sampling
    )


@tiered(lambda *ids: ids == ("tuned", "sampled"), decoder=DECODERS, sampling=SAMPLINGS)
def test_lookahead_gives_the_same_answers_as_plain(
    demo: Trained, decoder: tuple[Decoding, StepProfile], sampling: Sampling
) -> None:
    """The pool and what was learned of the model stay from one answer to the next."""
    decoding, profile = decoder
    questions = [(Message("user", question),) for question in QUESTIONS[:2]]
    says_the_same(demo, questions, make_lookahead(decoding, demo.known(profile, sampling)), sampling)


def test_the_turns_of_a_chat_say_the_same_as_plain_and_draft_from_history(demo: Trained) -> None:
    decoder = make_lookahead(Decoding(), demo.known(TUNED, Sampling()))
    runner, chat, origins = demo.loaded.runner, list[Message](), set[str]()
    for question in (QUESTIONS[2], QUESTIONS[5], QUESTIONS[2]):
        chat.append(Message("user", question))
        prompt = demo.ids(tuple(chat))
        expected = reference(runner, prompt, limit=30)
        said = write(runner, prompt, decoder, limit=30)
        assert said.tokens == expected.tokens
        chat.append(Message("assistant", demo.loaded.decode(list(said.tokens))))
        origins = {origin for step in said.steps for origin in step.origins}
    assert "history" in origins


def test_a_document_is_drafted_from_and_changes_nothing(demo: Trained) -> None:
    prompt = demo.ids((Message("user", QUESTIONS[4]),))
    expected = reference(demo.loaded.runner, prompt, limit=60)
    statistics = ModelStatistics(demo.vocabulary)  # asked nothing: the document is all there is
    known = ReplyContext(statistics, documents=((3, 4, 5), expected.tokens))
    demo.loaded.runner.forget()
    said = write(demo.loaded.runner, prompt, make_lookahead(Decoding(rows=24), known), limit=60)
    assert said.tokens == expected.tokens
    assert sum(step.origins.count("document") for step in said.steps) > len(said.tokens) / 2


def says_the_same(
    model: Trained, prompts: Sequence[str | tuple[Message, ...]], decoder: Decoder, sampling: Sampling
) -> None:
    runner = model.loaded.runner
    for prompt in map(model.ids, prompts):
        expected = reference(runner, prompt, sampling, limit=40)
        runner.forget()
        assert write(runner, prompt, decoder, sampling, limit=40).tokens == expected.tokens


@pytest.mark.shared
@pytest.mark.parametrize("lane", some(LANES, "auto-64"))
def test_stories_take_few_steps(stories: Trained, lane: tuple[Decoding, float, int]) -> None:
    """Measured: 3.36, 3.96, 4.38, 3.50 and 2.55, each story with a pool of its own."""
    decoding, promised, budget = lane
    known = stories.known(StepProfile(), Sampling())

    def decode(
        runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        known.statistics.forget()
        return make_lookahead(decoding, known)(runner, tokens, sampler, stopper)

    earned, rows = tokens_and_rows_per_step(stories, decode, limit=200)
    assert (earned >= promised, rows <= budget) == (True, True), (earned, rows)


@pytest.mark.shared
@pytest.mark.thorough
@pytest.mark.parametrize("lane", [(WIDE, 1.9), (NARROW, 1.6)], ids=["W15-N5-G15", "W5-N4-G5"])
def test_the_windows_ngrams_earn_tokens_alone(stories: Trained, lane: tuple[Decoding, float]) -> None:
    """Measured: 2.17 and 1.82, with every other source off; plain decoding earns 1."""
    decoding, promised = lane

    def decode(
        runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        return with_pool(only("window", stories.vocabulary), decoding)(runner, tokens, sampler, stopper)

    earned, _ = tokens_and_rows_per_step(stories, decode, limit=100)
    assert earned >= promised


def tokens_and_rows_per_step(stories: Trained, decoder: Decoder, limit: int) -> tuple[float, float]:
    """Over five beginnings, each story to its limit; the prefill's token counts as no step's."""
    lines = (assets_dir() / "bench" / "stories.jsonl").read_text(encoding="utf-8").splitlines()
    earned, rows = [], []
    for prompt in [stories.ids(json.loads(line)["prompt"]) for line in lines[:5]]:
        stories.loaded.runner.forget()
        said = write(stories.loaded.runner, prompt, decoder, limit=limit)
        earned.append((len(said.tokens) - 1) / len(said.steps))
        rows.append(fmean(step.rows for step in said.steps))
    return fmean(earned), fmean(rows)


@pytest.mark.parametrize(
    "chain", some({"lookup": (Decoding("prompt-lookup"), 1.2), "jacobi": (Decoding("jacobi"), 1.02)})
)
def test_on_a_trained_model_a_chain_earns_something_and_changes_nothing(
    demo: Trained, chain: tuple[Decoding, float]
) -> None:
    """Measured: 1.32 and 1.06 tokens per step, half of them greedy and half sampled."""
    decoding, earned = chain
    tokens = steps = 0
    for question in ("Who are you?", "Write a Python function that counts the words of a text."):
        prompt = demo.ids((Message("user", question),))
        for sampling in (Sampling(), Sampling(temperature=0.8, top_p=0.95, seed=3)):
            expected = reference(demo.loaded.runner, prompt, sampling, limit=60)
            demo.loaded.runner.forget()
            said = write(demo.loaded.runner, prompt, make_decoder(decoding), sampling, limit=60)
            assert said.tokens == expected.tokens
            tokens, steps = tokens + len(said.tokens) - 1, steps + len(said.steps)
    assert tokens / steps >= earned
