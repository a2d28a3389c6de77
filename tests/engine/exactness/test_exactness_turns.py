"""A runner answers as if each request were its first, whatever was asked, cut short or stopped before."""

from itertools import islice

import pytest

from app.engine.lookahead import make_lookahead
from app.engine.lookahead.plain import plain
from app.engine.runner.runner import PREFILL_CHUNK
from app.engine.runner.step import Decoder
from app.values.messages import Decoding, Prefilling
from tests.engine.architectures import GEMMA3, LLAMA, WINDOW, Architecture, one_of_each_kind
from tests.engine.replies import Zoo, collect, numbers, says_plainly, stream, write
from tests.tiers import named, pairwise

PROMPT = numbers(WINDOW + 12, seed=4)
LONG = numbers(2 * PREFILL_CHUNK - 100, seed=5)
LOOKAHEAD = make_lookahead(Decoding("lookahead", window=5, ngram=5, guesses=5))

DECODERS = {"plain": plain, "lookahead": LOOKAHEAD}
BOTH = named((LLAMA, GEMMA3))
both = pytest.mark.parametrize("architecture", (LLAMA, GEMMA3), ids=str)


@pairwise(events=named(range(1, 8)), decoder=DECODERS, architecture=BOTH, deep=())
def test_a_reply_stopped_between_steps_leaves_the_runner_as_good_as_new(
    zoo: Zoo, architecture: Architecture, decoder: Decoder, events: int
) -> None:
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, PROMPT)
    runner.forget()
    writing = stream(runner, PROMPT, decoder)
    begun = collect(islice(writing, events))
    writing.close()
    assert begun.tokens == expected.tokens[: len(begun.tokens)]
    assert write(runner, PROMPT, decoder).tokens == expected.tokens
    turn = (*PROMPT, *begun.tokens, 3)
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
    assert write(runner, PROMPT, decoder).tokens == says_plainly(zoo.runner(architecture), PROMPT).tokens
    runner.forget()
    reading = stream(runner, LONG, decoder, limit=6)
    next(reading)
    reading.close()
    assert write(runner, LONG, decoder, limit=6).tokens == expected.tokens
    assert runner.reused == PREFILL_CHUNK


@one_of_each_kind
def test_turns_that_share_a_prefix_say_the_same_as_cold_starts(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    prompt, warm = PROMPT, []
    for turn in range(3):
        reply = write(runner, prompt, LOOKAHEAD, limit=9)
        warm.append((prompt, reply.tokens))
        prompt = (*prompt, *reply.tokens, *numbers(3, seed=turn))
    edited = (*PROMPT, *numbers(5, seed=9))
    warm.append((edited, write(runner, edited, LOOKAHEAD, limit=9).tokens))
    for asked, said in warm:
        assert said == says_plainly(runner, asked, limit=9).tokens


@both
def test_a_turn_reads_only_what_is_new(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    reply = write(runner, PROMPT, LOOKAHEAD, limit=10)
    assert runner.reused == 0
    write(runner, PROMPT, LOOKAHEAD, limit=10)
    assert runner.reused == len(PROMPT) - 1, "the last token is read again, for what follows it"
    write(runner, (*PROMPT, *reply.tokens, 1, 2), LOOKAHEAD, limit=10)
    assert runner.reused == len(PROMPT) + len(reply.tokens) - 1
    write(runner, (*PROMPT[:7], 99, 98), LOOKAHEAD, limit=10)
    assert runner.reused == 7
