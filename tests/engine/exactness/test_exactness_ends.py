"""A reply ends at the same token whoever decodes, and the tokens of a step behind it leave no trace."""

import pytest

from app.engine.lookahead import make_lookahead
from app.engine.lookahead.plain import plain
from app.engine.runner.step import Decoder
from app.values.messages import Decoding
from tests.engine.architectures import GEMMA3, LLAMA, WINDOW, Architecture, learned_positions
from tests.engine.oracle import Oracle, branching, right
from tests.engine.replies import Reply, Zoo, load, numbers, says_plainly, transformers_says, with_pool, write
from tests.tiers import named, pairwise

PROMPT = numbers(WINDOW + 9, seed=2)
RUN = Decoding(window=3, ngram=7)
CONTEXT = 48

BOTH = named((LLAMA, GEMMA3))
both = pytest.mark.parametrize("architecture", (LLAMA, GEMMA3), ids=str)


def knowing(prompt: tuple[int, ...], reply: Reply) -> Decoder:
    """Lookahead that gets the truth among wrong branches: up to seven tokens a step."""
    return with_pool(Oracle((*prompt, *reply.tokens), (branching, right)), RUN)


@pairwise(place=named(range(12)), architecture=BOTH, deep=())
def test_an_end_of_text_inside_an_accepted_run_is_the_last_token(
    zoo: Zoo, architecture: Architecture, place: int
) -> None:
    runner = zoo.runner(architecture)
    unending = says_plainly(runner, PROMPT)
    eos = {unending.tokens[place]}
    runner.forget()
    expected = write(runner, PROMPT, plain, eos=eos)
    runner.forget()
    said = write(runner, PROMPT, knowing(PROMPT, unending), eos=eos)
    assert (said.tokens, said.reason) == (expected.tokens, "eos")
    assert said.tokens == unending.tokens[: unending.tokens.index(unending.tokens[place]) + 1]


@pairwise(place=named(range(10)), architecture=BOTH, deep=())
def test_a_stop_string_is_found_across_tokens_and_steps(
    zoo: Zoo, architecture: Architecture, place: int
) -> None:
    runner = zoo.runner(architecture)
    unending = says_plainly(runner, PROMPT)
    stops = (" {} {} {} ".format(*unending.tokens[place : place + 3]),)
    runner.forget()
    expected = write(runner, PROMPT, plain, stops=stops)
    runner.forget()
    said = write(runner, PROMPT, knowing(PROMPT, unending), stops=stops)
    assert (said.tokens, said.reason) == (expected.tokens, "stop_string")
    assert len(said.tokens) <= place + 4, "the space behind the third token is the fourth one's"


@pairwise(limit=named(range(1, 17)), architecture=BOTH, deep=())
def test_the_token_limit_cuts_an_accepted_run(zoo: Zoo, architecture: Architecture, limit: int) -> None:
    runner = zoo.runner(architecture)
    unending = says_plainly(runner, PROMPT)
    runner.forget()
    said = write(runner, PROMPT, knowing(PROMPT, unending), limit=limit)
    assert (said.tokens, said.reason) == (unending.tokens[:limit], "max_tokens")


@both
def test_a_turn_behind_a_cut_run_says_the_same_as_a_cold_start(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    unending = says_plainly(runner, PROMPT)
    for limit in range(1, 12):
        runner.forget()
        said = write(runner, PROMPT, knowing(PROMPT, unending), limit=limit)
        turn = (*PROMPT, *said.tokens, 7, 8)
        warm = write(runner, turn, plain, limit=6)
        assert runner.reused == len(PROMPT) + limit - 1, "all but the last token, which was never fed"
        assert warm.tokens == says_plainly(runner, turn, limit=6).tokens


@pytest.mark.parametrize("architecture", learned_positions(CONTEXT), ids=str)
@pytest.mark.parametrize("length", (1, 20, CONTEXT - 3, CONTEXT - 1))
def test_learned_positions_are_used_to_the_last_and_not_beyond(
    zoo: Zoo, architecture: Architecture, length: int
) -> None:
    prompt = numbers(length, seed=3)
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, prompt, limit=1000)
    assert (len(prompt) + len(expected.tokens), expected.reason) == (CONTEXT, "context")
    assert expected.tokens == transformers_says(architecture, prompt, limit=CONTEXT - length)
    for decoder in (
        make_lookahead(Decoding("lookahead")),
        make_lookahead(Decoding("lookahead", window=15, ngram=5, guesses=15)),
        make_lookahead(Decoding("lookahead", window=60, ngram=16, guesses=2)),
        knowing(prompt, expected),
    ):
        runner.forget()
        said = write(runner, prompt, decoder, limit=1000)
        assert (said.tokens, said.reason) == (expected.tokens, "context")


def test_at_the_contexts_end_the_token_limit_is_named_when_it_is_the_nearer_one() -> None:
    architecture = learned_positions(CONTEXT)[0]
    runner = load(architecture.make()).runner
    prompt = numbers(CONTEXT - 5)
    assert write(runner, prompt, plain, limit=5).reason == "max_tokens"
    assert write(runner, prompt, plain, limit=6).reason == "context"


@both
def test_tokens_behind_an_end_inside_a_run_are_in_no_cache(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    unending = says_plainly(runner, PROMPT)
    for token in unending.tokens[:12]:
        runner.forget()
        said = write(runner, PROMPT, knowing(PROMPT, unending), eos={token})
        write(runner, (*PROMPT, *unending.tokens), plain, limit=1)
        assert runner.reused == len(PROMPT) + len(said.tokens) - 1
