"""A reply ends at the same token whoever decodes, and the tokens of a step after it leave no trace.

A runner answers as if each request were its first, whatever was asked, cut short or stopped before."""

from itertools import islice

import pytest

from app.engine.decoders import make_decoder
from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.decoders.plain import plain
from app.engine.runner.runner import PREFILL_CHUNK
from app.engine.runner.step import Decoder
from app.values.messages import Decoding, Prefilling
from tests.engine.architectures import (
    GEMMA3,
    LLAMA,
    WINDOW,
    Architecture,
    learned_positions,
    one_of_each_kind,
)
from tests.engine.oracle import Oracle, branching, right
from tests.engine.replies import (
    Reply,
    Zoo,
    collect,
    load,
    numbers,
    reference,
    says_plainly,
    stream,
    transformers_says,
    with_pool,
    write,
)
from tests.tiers import named, pairwise, some, tiered

PROMPT = numbers(WINDOW + 9, seed=2)
RUN = Decoding(window=3, ngram=7)
CONTEXT = 48
ASKED = numbers(WINDOW + 12, seed=4)
LONG = numbers(2 * PREFILL_CHUNK - 100, seed=5)
TWICE = numbers(WINDOW + 9, seed=5) * 2
"""So that there is something to look up."""
LOOKAHEAD = make_lookahead(Decoding("lookahead", window=5, ngram=5, guesses=5))
DECODERS = {"plain": plain, "lookahead": LOOKAHEAD}
CHAINS = (Decoding("prompt-lookup"), *(Decoding("jacobi", window=width) for width in (1, 6, 40)))
DECODINGS = {f"{decoding.decoder}-{decoding.window}": decoding for decoding in CHAINS}

BOTH = named((LLAMA, GEMMA3))
both = pytest.mark.parametrize("architecture", (LLAMA, GEMMA3), ids=str)


def every_fourth(place: str, architecture: str) -> bool:
    """Return whether a place runs by default: each is tried with one of the architectures, or with none."""
    return int(place) % 4 == (0 if architecture == "llama" else 2)


def knowing(prompt: tuple[int, ...], reply: Reply) -> Decoder:
    """Lookahead that gets the truth among wrong branches: up to seven tokens a step."""
    return with_pool(Oracle((*prompt, *reply.tokens), (branching, right)), RUN)


@tiered(every_fourth, place=named(range(12)), architecture=BOTH)
def test_an_end_of_text_inside_an_accepted_run_is_the_last_token(
    zoo: Zoo, architecture: Architecture, place: int
) -> None:
    runner = zoo.runner(architecture)
    unending = reference(runner, PROMPT)
    eos = {unending.tokens[place]}
    expected = write(runner, PROMPT, plain, eos=eos)
    runner.forget()
    said = write(runner, PROMPT, knowing(PROMPT, unending), eos=eos)
    assert (said.tokens, said.reason) == (expected.tokens, "eos")
    assert said.tokens == unending.tokens[: unending.tokens.index(unending.tokens[place]) + 1]


@tiered(every_fourth, place=named(range(10)), architecture=BOTH)
def test_a_stop_string_is_found_across_tokens_and_steps(
    zoo: Zoo, architecture: Architecture, place: int
) -> None:
    runner = zoo.runner(architecture)
    unending = reference(runner, PROMPT)
    stops = (" {} {} {} ".format(*unending.tokens[place : place + 3]),)
    expected = write(runner, PROMPT, plain, stops=stops)
    runner.forget()
    said = write(runner, PROMPT, knowing(PROMPT, unending), stops=stops)
    assert (said.tokens, said.reason) == (expected.tokens, "stop_string")
    assert len(said.tokens) <= place + 4, "the space behind the third token is the fourth one's"


@tiered(every_fourth, limit=named(range(1, 17)), architecture=BOTH)
def test_the_token_limit_cuts_an_accepted_run(zoo: Zoo, architecture: Architecture, limit: int) -> None:
    runner = zoo.runner(architecture)
    unending = reference(runner, PROMPT)
    said = write(runner, PROMPT, knowing(PROMPT, unending), limit=limit)
    assert (said.tokens, said.reason) == (unending.tokens[:limit], "max_tokens")


@both
def test_a_turn_behind_a_cut_run_says_the_same_as_a_cold_start(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    unending = reference(runner, PROMPT)
    for limit in (1, 3, 6, 7, 8, 11):
        runner.forget()
        said = write(runner, PROMPT, knowing(PROMPT, unending), limit=limit)
        turn = (*PROMPT, *said.tokens, 7, 8)
        warm = write(runner, turn, plain, limit=6)
        assert runner.reused == len(PROMPT) + limit - 1, "all but the last token, which was never fed"
        assert warm.tokens == says_plainly(runner, turn, limit=6).tokens


@pytest.mark.parametrize("architecture", learned_positions(CONTEXT), ids=str)
@pytest.mark.parametrize("length", some(named((1, 20, CONTEXT - 3, CONTEXT - 1)), "1", str(CONTEXT - 3)))
def test_learned_positions_are_used_to_the_last_and_not_beyond(
    zoo: Zoo, architecture: Architecture, length: int
) -> None:
    prompt = numbers(length, seed=3)
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, prompt, limit=1000)
    assert (len(prompt) + len(expected.tokens), expected.reason) == (CONTEXT, "context")
    assert expected.tokens == transformers_says(architecture, prompt, limit=CONTEXT - length)
    for decoder in (
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
    unending = reference(runner, PROMPT)
    for token in unending.tokens[:12:3]:
        runner.forget()
        said = write(runner, PROMPT, knowing(PROMPT, unending), eos={token})
        write(runner, (*PROMPT, *unending.tokens), plain, limit=1)
        assert runner.reused == len(PROMPT) + len(said.tokens) - 1


@pairwise(decoding=DECODINGS, place=named((0, 3, 6, 9)), architecture=BOTH, deep=())
def test_ends_of_text_stop_strings_and_limits_end_it_at_the_same_token(
    zoo: Zoo, architecture: Architecture, decoding: Decoding, place: int
) -> None:
    runner = zoo.runner(architecture)
    unending = reference(runner, TWICE).tokens
    stops = (" {} {} ".format(*unending[place : place + 2]),)
    for limit, eos, stop in ((place + 1, (), ()), (40, {unending[place]}, ()), (40, (), stops)):
        runner.forget()
        expected = write(runner, TWICE, plain, limit=limit, eos=eos, stops=stop)
        runner.forget()
        said = write(runner, TWICE, make_decoder(decoding), limit=limit, eos=eos, stops=stop)
        assert (said.tokens, said.reason) == (expected.tokens, expected.reason)
        write(runner, (*TWICE, *unending), plain, limit=1)
        assert runner.reused == len(TWICE) + len(said.tokens) - 1, "tokens behind the end are in no cache"


@pairwise(
    architecture=named(learned_positions(CONTEXT)),
    decoding=DECODINGS,
    length=named((1, 20, CONTEXT - 2, CONTEXT - 1)),
    deep=(),
)
def test_the_context_is_used_to_its_last_position_and_not_beyond(
    zoo: Zoo, architecture: Architecture, decoding: Decoding, length: int
) -> None:
    runner, prompt = zoo.runner(architecture), numbers(length, seed=3)
    expected = reference(runner, prompt, limit=1000)
    runner.forget()
    said = write(runner, prompt, make_decoder(decoding), limit=1000)
    assert (said.tokens, said.reason) == (expected.tokens, "context")


@pairwise(events=named((1, 2, 4, 7)), decoder=DECODERS, architecture=BOTH, deep=())
def test_a_reply_stopped_between_steps_leaves_the_runner_as_good_as_new(
    zoo: Zoo, architecture: Architecture, decoder: Decoder, events: int
) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, ASKED)
    writing = stream(runner, ASKED, decoder)
    begun = collect(islice(writing, events))
    writing.close()
    assert begun.tokens == expected.tokens[: len(begun.tokens)]
    assert write(runner, ASKED, decoder).tokens == expected.tokens
    turn = (*ASKED, *begun.tokens, 3)
    assert write(runner, turn, decoder).tokens == says_plainly(runner, turn).tokens


@pairwise(decoder=DECODERS, architecture=BOTH, deep=())
def test_a_prompt_stopped_half_read_is_read_on(
    zoo: Zoo, architecture: Architecture, decoder: Decoder
) -> None:
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, LONG, limit=6)
    runner.forget()
    reading = stream(runner, LONG, decoder, limit=6)
    assert next(reading) == Prefilling(PREFILL_CHUNK, len(LONG))
    reading.close()
    assert write(runner, ASKED, decoder).tokens == says_plainly(zoo.runner(architecture), ASKED).tokens
    runner.forget()
    reading = stream(runner, LONG, decoder, limit=6)
    next(reading)
    reading.close()
    assert write(runner, LONG, decoder, limit=6).tokens == expected.tokens
    assert runner.reused == PREFILL_CHUNK


@one_of_each_kind
def test_turns_that_share_a_prefix_say_the_same_as_cold_starts(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    prompt, warm = ASKED, []
    for turn in range(3):
        reply = write(runner, prompt, LOOKAHEAD, limit=9)
        warm.append((prompt, reply.tokens))
        prompt = (*prompt, *reply.tokens, *numbers(3, seed=turn))
    edited = (*ASKED, *numbers(5, seed=9))
    warm.append((edited, write(runner, edited, LOOKAHEAD, limit=9).tokens))
    for asked, said in warm:
        assert said == says_plainly(runner, asked, limit=9).tokens


@both
def test_a_turn_reads_only_what_is_new(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    reply = write(runner, ASKED, LOOKAHEAD, limit=10)
    assert runner.reused == 0
    write(runner, ASKED, LOOKAHEAD, limit=10)
    assert runner.reused == len(ASKED) - 1, "the last token is read again, for what follows it"
    write(runner, (*ASKED, *reply.tokens, 1, 2), LOOKAHEAD, limit=10)
    assert runner.reused == len(ASKED) + len(reply.tokens) - 1
    write(runner, (*ASKED[:7], 99, 98), LOOKAHEAD, limit=10)
    assert runner.reused == 7
