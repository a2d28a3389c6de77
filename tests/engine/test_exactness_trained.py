"""On trained models lookahead says what plain says, and earns what it promises.

stories260K lies beside the checkout where there is one; the demo model ships with the app.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.engine.loading import LoadedModel, load
from app.engine.lookahead import make_lookahead
from app.engine.lookahead.pool import Candidate, NGramPool
from app.engine.prompt import encode
from app.engine.step import Decoder
from app.messages import Decoding, Message, ModelChoice, ModelFolder, Origin, Sampling
from app.settings import assets_dir
from tests.engine.replies import says_plainly, with_pool, write

STORIES = Path(__file__).parents[3] / "shared" / "models" / "stories260K"
BEGINNINGS = (
    "Once upon a time, there was a little girl named Lily.",
    "Tom and Sam were playing in the garden when",
    "One day, a small dog found a big red ball",
    "The old tree in the park was very sad because",
    "Mia had a new kite. She wanted to",
    '"Mom, can I have a cookie?" asked Ben.',
    "It was a sunny day and the cat",
    "A bird lived in a nest high up in the",
    "Anna went to the zoo with her dad. They saw",
    "There once was a boat that was afraid of",
)
QUESTIONS = (
    "Hello, who are you?",
    "What can you do?",
    "How do I list the files of a folder?",
    "Thank you!",
    "Tell me about lookahead decoding.",
    "How do I find the largest files on my disk?",
)

both_samplings = pytest.mark.parametrize(
    "sampling", (Sampling(), Sampling(temperature=0.8, top_p=0.95, seed=3)), ids=("greedy", "sampled")
)


@dataclass(frozen=True, slots=True)
class WindowOnly:
    """A pool whose prompt and output sources are off: it learns from the window alone."""

    pool: NGramPool

    def __len__(self) -> int:
        return len(self.pool)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        if origin == "window":
            self.pool.learn(text, new, origin)

    def candidates(self, context: Sequence[int]) -> list[Candidate]:
        return self.pool.candidates(context)

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        return self.pool.continuation(context, length)


@pytest.fixture(scope="module")
def stories() -> LoadedModel:
    if not STORIES.exists():
        pytest.skip("the trained model stories260K is not beside this checkout")
    return load(ModelFolder(STORIES, "stories260K"), ModelChoice("stories260K", "float32", "cpu"))


@pytest.fixture(scope="module")
def demo() -> LoadedModel:
    folder = ModelFolder(assets_dir() / "demo-model", "demo", "demo")
    return load(folder, ModelChoice("demo", "float32", "cpu"))


@pytest.mark.shared
@both_samplings
def test_lookahead_tells_the_same_stories_as_plain(stories: LoadedModel, sampling: Sampling) -> None:
    for prompt in ids_of(stories, BEGINNINGS[:6]):
        expected = says_plainly(stories.runner, prompt, sampling, limit=100)
        stories.runner.forget()
        said = write(stories.runner, prompt, make_lookahead(Decoding()), sampling, limit=100)
        assert said.tokens == expected.tokens


@both_samplings
def test_lookahead_gives_the_same_answers_as_plain(demo: LoadedModel, sampling: Sampling) -> None:
    for prompt in ids_of(demo, [(Message("user", question),) for question in QUESTIONS]):
        expected = says_plainly(demo.runner, prompt, sampling, limit=100)
        demo.runner.forget()
        said = write(demo.runner, prompt, make_lookahead(Decoding()), sampling, limit=100)
        assert said.tokens == expected.tokens


@pytest.mark.shared
@pytest.mark.parametrize(
    ("decoding", "promised"),
    ((Decoding(window=15, ngram=5, guesses=15), 2.3), (Decoding(window=5, ngram=4, guesses=5), 1.9)),
    ids=("W15-N5-G15", "W5-N4-G5"),
)
def test_stories_take_few_steps(stories: LoadedModel, decoding: Decoding, promised: float) -> None:
    """Measured: 2.93 and 2.37."""
    earned = mean_tokens_per_step(stories, lambda: make_lookahead(decoding), limit=200)
    assert earned >= promised


@pytest.mark.shared
@pytest.mark.parametrize(
    ("decoding", "promised"),
    ((Decoding(window=15, ngram=5, guesses=15), 2.0), (Decoding(window=5, ngram=4, guesses=5), 1.5)),
    ids=("W15-N5-G15", "W5-N4-G5"),
)
def test_the_windows_ngrams_earn_tokens_alone(
    stories: LoadedModel, decoding: Decoding, promised: float
) -> None:
    """Measured: 2.33 and 1.73, with the prompt and output sources off; plain decoding earns 1."""

    def window_only() -> Decoder:
        return with_pool(WindowOnly(NGramPool(decoding.ngram, decoding.guesses)), decoding)

    earned = mean_tokens_per_step(stories, window_only, limit=100)
    assert earned >= promised


def mean_tokens_per_step(stories: LoadedModel, make_decoder: Callable[[], Decoder], limit: int) -> float:
    """Over the ten beginnings, each story to its limit; the prefill's token counts as no step's."""
    earned = []
    for prompt in ids_of(stories, BEGINNINGS):
        stories.runner.forget()
        said = write(stories.runner, prompt, make_decoder(), limit=limit)
        earned.append((len(said.tokens) - 1) / len(said.steps))
    return sum(earned) / len(earned)


def ids_of(loaded: LoadedModel, prompts: Sequence[str | tuple[Message, ...]]) -> list[list[int]]:
    """The prompts as the app would send them."""
    return [encode(loaded.tokenizer, prompt, loaded.info.context) for prompt in prompts]
