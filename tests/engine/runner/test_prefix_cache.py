"""Prefixes of other conversations are taken back bit for bit, and take a bounded share of memory."""

from collections.abc import Sequence
from itertools import chain

import pytest
import torch

from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.decoders.plain import plain
from app.engine.runner.prefix_cache import WORTH_KEEPING, PrefixCache, share_of_free
from app.engine.runner.runner import BlockRunner
from app.engine.runner.step import Decoder
from app.system.machine import ram
from app.values.messages import Decoding
from app.values.model import PREFIX_SHARE
from tests.engine.architectures import GEMMA3, LLAMA, Architecture
from tests.engine.recurrent_architectures import TREES
from tests.engine.replies import Zoo, numbers, reference, write
from tests.tiers import named, pairwise

DECODERS: dict[str, Decoder] = {
    "plain": plain,
    "lookahead": make_lookahead(Decoding("lookahead", window=5, ngram=5, guesses=5)),
}
LONG = WORTH_KEEPING + 40
CHATS = [numbers(LONG + 10 * place, seed=place + 1) for place in range(3)]
ROW = 8
"""Bytes of a row of `states`."""


def states(tokens: Sequence[int]) -> list[torch.Tensor]:
    """Keys and values of one layer, each a float32 a token."""
    return [torch.tensor(tokens, dtype=torch.float32)[None, None, :, None] for _ in range(2)]


def keeping(cache: PrefixCache, *texts: Sequence[int]) -> PrefixCache:
    for text in texts:
        cache.keep(text, states(text))
    return cache


def runner_with(zoo: Zoo, architecture: Architecture, limit: int) -> BlockRunner:
    """The model's runner with an empty cache of other prefixes."""
    runner = zoo.runner(architecture)
    assert isinstance(runner, BlockRunner)
    others = PrefixCache(lambda _taken: limit)
    return BlockRunner(runner.model, runner.context, runner._rotary, runner.attention, others=others)


@pairwise(decoder=DECODERS, architecture=named((LLAMA, GEMMA3, *TREES[:2])), deep=())
def test_chats_that_take_turns_read_what_is_new_and_say_what_a_cold_start_says(
    zoo: Zoo, architecture: Architecture, decoder: Decoder
) -> None:
    runner, chats = runner_with(zoo, architecture, 10**9), list(CHATS)
    for turn in range(3):
        for place, chat in enumerate(chats):
            reply = write(runner, chat, decoder, limit=12)
            assert reply.tokens == reference(zoo.runner(architecture), chat, limit=12).tokens
            assert (runner.reused > LONG) == (turn > 0), "all but the newest turn"
            chats[place] = (*chat, *reply.tokens, 3, turn)


@pairwise(decoder=DECODERS, architecture=named((LLAMA, *TREES[:2])), deep=())
def test_a_reply_of_another_chat_is_written_again_without_reading_its_prompt(
    zoo: Zoo, architecture: Architecture, decoder: Decoder
) -> None:
    runner = runner_with(zoo, architecture, 10**9)
    first = write(runner, CHATS[0], decoder, limit=12)
    write(runner, CHATS[1], decoder, limit=12)
    for _ in range(2):
        assert write(runner, CHATS[0], decoder, limit=12).tokens == first.tokens
        assert runner.reused == len(CHATS[0]) - 1


def test_without_room_a_chat_is_read_again(zoo: Zoo) -> None:
    runner = runner_with(zoo, LLAMA, 0)
    for chat in (CHATS[0], CHATS[1], CHATS[0]):
        write(runner, chat, plain, limit=2)
        assert runner.reused == 0


def test_what_is_forgotten_is_read_again(zoo: Zoo) -> None:
    runner = runner_with(zoo, LLAMA, 10**9)
    for chat in CHATS:
        write(runner, chat, plain, limit=2)
    runner.forget()
    write(runner, CHATS[0], plain, limit=2)
    assert runner.reused == 0


def test_the_one_with_most_in_common_is_found() -> None:
    one, other = numbers(LONG, seed=1), numbers(LONG, seed=2)
    cache = keeping(PrefixCache(lambda _taken: 10**6), one, other)
    found = cache.find((*other[:-3], 0, 0))
    assert found and found.tokens == other and torch.equal(found.states[0], states(other)[0])
    assert cache.find(other[: WORTH_KEEPING - 1]) is None


def test_the_least_recently_used_go_first() -> None:
    texts = [numbers(LONG, seed=seed) for seed in range(4)]
    cache = keeping(PrefixCache(lambda _taken: 3 * LONG * ROW), *texts[:3])
    assert cache.find(texts[0]) and cache.size == 3 * LONG * ROW
    keeping(cache, texts[3])
    assert [cache.find(text) is not None for text in texts] == [True, False, True, True]
    keeping(cache, numbers(4 * LONG, seed=9))
    assert len(cache) == 3, "what is too large by itself drops nothing"


def test_a_chat_that_went_on_is_kept_once() -> None:
    text = numbers(LONG, seed=1)
    cache = keeping(PrefixCache(lambda _taken: 10**6), text[:-8], text, text[:-4])
    assert len(cache) == 1
    found = cache.find(text)
    assert found and found.tokens == text


def test_what_is_kept_is_a_copy() -> None:
    text = numbers(LONG, seed=1)
    given = states(text)
    cache = PrefixCache(lambda _taken: 10**6)
    cache.keep(text, given)
    given[0].zero_()
    found = cache.find(text)
    assert found and all(torch.equal(*pair) for pair in zip(found.states, states(text), strict=True))


class Exhausted(torch.Tensor):
    """There is no memory for a copy."""

    def clone(self, *_args: object, **_options: object) -> torch.Tensor:  # type: ignore[override]
        raise torch.OutOfMemoryError("out of memory")


def test_where_memory_runs_out_all_are_dropped() -> None:
    text, other = numbers(LONG, seed=1), numbers(LONG, seed=2)
    cache = keeping(PrefixCache(lambda _taken: 10**6), text)
    cache.keep(other, [state.as_subclass(Exhausted) for state in states(other)])
    assert len(cache) == 0


def test_the_limit_is_a_small_share_of_what_is_free() -> None:
    limit = share_of_free(torch.device("cpu"))
    assert 0 < limit(0) <= PREFIX_SHARE * ram().total
    assert limit(10**12) - limit(0) == pytest.approx(PREFIX_SHARE * 10**12, rel=0.1)


def test_the_cache_itself_is_left_as_it_was(zoo: Zoo) -> None:
    runner = runner_with(zoo, LLAMA, 10**9)
    write(runner, CHATS[0], plain, limit=12)
    before = [state.clone() for state in runner.cache.committed()]
    write(runner, CHATS[1], plain, limit=12)
    for _ in runner.prefill((*CHATS[0], 1)):
        pass
    after = [state[:, :, : len(CHATS[0])] for state in runner.cache.committed()]
    wanted = [state[:, :, : len(CHATS[0])] for state in before]
    assert all(torch.equal(*pair) for pair in chain(zip(after, wanted, strict=True)))
