"""Lookahead equals plain for prompts, shapes, samplings and drafts that nobody chose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.lookahead import make_lookahead
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import GEMMA3, LLAMA, VOCABULARY, Architecture
from tests.engine.oracle import Draft, Oracle, branching, half_right, right, wrong
from tests.engine.replies import Zoo, says_plainly, with_pool, write
from tests.tiers import examples

LIMIT = 20

both = pytest.mark.parametrize("architecture", (LLAMA, GEMMA3), ids=str)
drawn = examples(25, derandomize=True)

prompts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=40).map(tuple)
decodings = st.builds(
    Decoding,
    st.just("lookahead"),
    window=st.integers(0, 20),
    ngram=st.integers(2, 9),
    guesses=st.integers(0, 20),
)
samplings = st.one_of(
    st.just(Sampling()),
    st.builds(
        Sampling,
        temperature=st.sampled_from((0.0, 0.3, 1.0, 3.0)),
        top_k=st.sampled_from((0, 1, 7, 200)),
        top_p=st.sampled_from((0.1, 0.9, 1.0)),
        min_p=st.sampled_from((0.0, 0.02, 0.5)),
        repetition_penalty=st.sampled_from((0.8, 1.0, 1.5)),
        seed=st.integers(0, 2**63 - 1),
    ),
)
mixtures = st.lists(st.sampled_from((right, half_right, wrong, branching)), min_size=1, max_size=5).map(tuple)


@both
@drawn
@given(prompt=prompts, decoding=decodings, sampling=samplings)
def test_lookahead_equals_plain(
    zoo: Zoo, architecture: Architecture, prompt: tuple[int, ...], decoding: Decoding, sampling: Sampling
) -> None:
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, prompt, sampling, limit=LIMIT)
    runner.forget()
    said = write(runner, prompt, make_lookahead(decoding), sampling, limit=LIMIT)
    assert (said.tokens, said.reason) == (expected.tokens, expected.reason)


@both
@drawn
@given(prompt=prompts, decoding=decodings, sampling=samplings, drafts=mixtures)
def test_lookahead_equals_plain_whatever_is_drafted(
    zoo: Zoo,
    architecture: Architecture,
    prompt: tuple[int, ...],
    decoding: Decoding,
    sampling: Sampling,
    drafts: tuple[Draft, ...],
) -> None:
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, prompt, sampling, limit=LIMIT)
    runner.forget()
    oracle = Oracle((*prompt, *expected.tokens), drafts)
    said = write(runner, prompt, with_pool(oracle, decoding), sampling, limit=LIMIT)
    assert said.tokens == expected.tokens
