"""Several ranks write what one writes, in as many steps. Real processes."""

from collections.abc import Callable, Iterator

import pytest

from app.engine.block.block import chain_block
from app.engine.decoders import make_decoder
from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.decoders.plain import plain
from app.engine.runner.step import Decoder
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import BRANCHING, LLAMA, WINDOW, Architecture
from tests.engine.oracle import Oracle, branching, half_right, right, wrong
from tests.engine.parallel.groups import Group, say
from tests.engine.replies import GREEDY, numbers, with_pool
from tests.tiers import named, some, tiered

PROMPT = numbers(WINDOW + 18)
SAMPLINGS = {
    "greedy": GREEDY,
    "T0.7": Sampling(temperature=0.7, seed=1),
    "T1.3": Sampling(temperature=1.3, top_k=20, top_p=0.9, seed=2),
    "penalised": Sampling(temperature=2.0, min_p=0.05, repetition_penalty=1.2, seed=4),
}
ONCE = ("gemma3", "deepseek-v3", "gemma4")
DECODINGS = {
    "W5-N4-G8": Decoding("lookahead", 5, 4, 8),
    "W15-N5-G15": Decoding("lookahead", 15, 5, 15),
    "W3-N2-G4": Decoding("lookahead", 3, 2, 4),
    "24-rows": Decoding("auto", rows=24),
}


@pytest.fixture(scope="module", params=some({"2": 2, "4": 4}, "2"))
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    group = Group(request.param, tmp_path_factory.mktemp("zoo"))
    yield group
    group.ranks.close()


def is_default(architecture: str, decoding: str, sampling: str) -> bool:
    """One of each kind of attention and cache once, one with all else."""
    if architecture == str(LLAMA):
        return (decoding == "W5-N4-G8") != (sampling == "T0.7")
    return architecture in ONCE and (decoding, sampling) == ("24-rows", "T0.7")


@tiered(is_default, architecture=named(BRANCHING), decoding=DECODINGS, sampling=SAMPLINGS)
def test_ranks_say_what_plain_says_in_as_many_steps_as_one(
    group: Group, architecture: Architecture, decoding: Decoding, sampling: Sampling
) -> None:
    alone, shared = group.share(architecture)
    expected = say(alone, PROMPT, lambda: plain, sampling)
    alone.forget()
    one = say(alone, PROMPT, lambda: make_lookahead(decoding), sampling)
    shared.forget()
    said = say(shared, PROMPT, lambda: make_lookahead(decoding), sampling)
    assert said.tokens == expected.tokens == one.tokens
    assert len(said.steps) == pytest.approx(len(one.steps), rel=0.02)


@pytest.mark.parametrize("sampling", some(SAMPLINGS, "greedy", "T1.3"))
def test_what_needs_logits_gets_those_of_every_rank(group: Group, sampling: Sampling) -> None:
    alone, shared = group.share(LLAMA)
    expected = say(alone, PROMPT, lambda: plain, sampling).tokens
    shared.forget()
    decoding = DECODINGS["W5-N4-G8"]
    assert (
        say(shared, PROMPT, lambda: make_lookahead(decoding), sampling, from_logits=True).tokens == expected
    )


def test_each_rank_feeds_a_part_of_the_rows(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, shared = group.share(LLAMA)
    fed, forward = list[int](), alone.forward
    monkeypatch.setattr(alone, "forward", lambda block: fed.append(len(block)) or forward(block))
    said = say(shared, PROMPT, lambda: make_lookahead(DECODINGS["W15-N5-G15"]), GREEDY)
    rows = sum(step.rows for step in said.steps)
    assert sum(fed) < rows * (1 / group.ranks.size + 0.2), "the ancestors of its rows are fed as well"


DRAFTS = {"right": (right,), "branching": (branching,), "mixed": (wrong, right, half_right, branching, wrong)}


@pytest.mark.parametrize("drafts", some(DRAFTS, *DRAFTS))
def test_accepted_rows_of_other_ranks_are_fed_again(
    group: Group, drafts: tuple[Callable[..., object], ...]
) -> None:
    alone, shared = group.share(LLAMA)
    expected = say(alone, PROMPT, lambda: plain, GREEDY, limit=60).tokens

    def oracle() -> Decoder:
        return with_pool(Oracle((*PROMPT, *expected), drafts), Decoding(window=4, ngram=12))

    shared.forget()
    said = say(shared, PROMPT, oracle, GREEDY, limit=60)
    assert said.tokens == expected
    assert said.longest_run > 5


@pytest.mark.parametrize("name", ["plain", "jacobi", "prompt-lookup"])
def test_decoders_without_branches_need_no_other_rank(group: Group, name: str) -> None:
    alone, shared = group.share(LLAMA)
    sampling = SAMPLINGS["T0.7"]
    expected = say(alone, PROMPT * 2, lambda: plain, sampling)
    shared.forget()
    assert say(shared, PROMPT * 2, lambda: make_decoder(Decoding(name)), sampling).tokens == expected.tokens


def test_ranks_follow_a_text_that_was_written_alone(group: Group) -> None:
    alone, shared = group.share(LLAMA)
    sampling = SAMPLINGS["T0.7"]
    text = (*PROMPT, *say(alone, PROMPT, lambda: plain, sampling, limit=90).tokens)
    shared.forget()
    sampler = shared.sampler(sampling)
    for _ in shared.prefill(PROMPT):
        pass
    for place in range(len(PROMPT), len(PROMPT) + 60):
        shared.forward(chain_block(text[place : place + 1], place, (0,)))
        shared.commit((0,))
    decode = make_lookahead(DECODINGS["W5-N4-G8"])
    tokens = list(text[: len(PROMPT) + 61])
    stopper = StoppingCriteria(frozenset(), 29, shared.context)
    for _ in decode(shared, tokens, sampler, stopper):
        pass
    assert tuple(tokens) == text


def test_a_stopped_reply_and_the_next_turns_leave_all_ranks_together(group: Group) -> None:
    alone, shared = group.share(LLAMA)
    sampling, decoding = SAMPLINGS["T0.7"], DECODINGS["W5-N4-G8"]
    prompt = PROMPT
    for limit in (3, 11, 5):
        alone.forget()
        expected = say(alone, prompt, lambda: plain, sampling, limit=limit)
        said = say(shared, prompt, lambda: make_lookahead(decoding), sampling, limit=limit)
        assert said.tokens == expected.tokens
        prompt = (*prompt, *said.tokens, *numbers(4, seed=limit))
    assert shared.reused > len(PROMPT)
