"""What rank 0 announces: another rank that follows has the same keys and values, whatever was kept or forgotten."""

from typing import cast

import pytest
import torch

from app.engine.block.block import chain_block
from app.engine.lookahead import make_lookahead
from app.engine.measuring.profiling import lengthen
from app.engine.parallel.link import Link, Op, Order
from app.engine.parallel.passes import Announcer, Follower, Pass, PassesBroken, Way, adding_layers, unpacked
from app.engine.parallel.tensor import run_split
from app.engine.runner.runner import BlockRunner
from app.values.messages import Decoding
from tests.engine.architectures import GEMMA3, LLAMA, Architecture
from tests.engine.parallel.groups import say
from tests.engine.replies import GREEDY, numbers

PROMPT = numbers(40)


class Ear:
    """Stands in for the link to one rank, which follows at once with a copy of the whole model."""

    size = 2

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._order = Order(Op.PING)
        self.fed: list[tuple[int, ...]] = []

    def send_order(self, _to: int, order: Order) -> None:
        self._order = order
        if order.op is Op.KEEP:
            self._follower.keep(order.text)

    def send(self, _to: int, tensor: torch.Tensor) -> None:
        if self._order.op is Op.PASS:
            assert len(tensor) == self._order.length
            self._follower.run(unpacked(tensor.tolist()))
        else:
            self.fed.append(self._order.text)
            self._follower.feed(self._order.length, tensor)


@pytest.fixture(params=(LLAMA, GEMMA3), ids=str)
def architecture(request: pytest.FixtureRequest) -> Architecture:
    return cast(Architecture, request.param)


def listened(architecture: Architecture, context: int = 256) -> tuple[BlockRunner, Follower, Ear, list[bool]]:
    """Rank 0's runner, the rank that follows, the link between them, and what tells whether that rank has ended."""
    follower, cut = Follower(architecture.make()), list[bool]()
    ear, model = Ear(follower), architecture.make()
    announcer = Announcer(cast(Link, ear), lambda: bool(cut))
    announcer.announce_passes_of(model)
    runner = run_split(model, context, announcer).runner
    assert isinstance(runner, BlockRunner)
    return runner, follower, ear, cut


def test_a_pass_arrives_as_it_was_sent() -> None:
    block = chain_block((7, 8, 9), 70_000, (0, 2))
    assert unpacked(Pass(Way.INVARIANT, 5, block).packed().tolist()) == Pass(Way.INVARIANT, 5, block)
    assert unpacked(Pass(Way.EAGER, 0, chain_block((1,), 0, ())).packed().tolist()).block.wanted == ()


def test_who_follows_has_the_same_keys_and_values(architecture: Architecture) -> None:
    runner, follower, _, _ = listened(architecture)
    for limit in (30, 7, 18):
        said = say(
            runner, PROMPT, lambda: make_lookahead(Decoding("lookahead", 5, 4, 8)), GREEDY, limit=limit
        )
        assert said.longest_run > 1
        runner.forward(chain_block((3,), runner.length, (0,)))  # which tells what was kept last
        followed, own = follower.cache.committed(), runner.cache.committed()
        assert all(torch.equal(*pair) for pair in zip(followed, own, strict=True))


def test_who_follows_has_a_text_that_was_made_up_to_measure_what_stands_behind_it() -> None:
    runner, follower, *_ = listened(LLAMA, context=2048)
    for _ in runner.prefill(PROMPT):
        pass
    lengthen(runner.cache, 1500)
    runner.forward(chain_block((1, 2, 3), 1500, (0, 1, 2)))
    assert all(
        torch.equal(*pair) for pair in zip(follower.cache.committed(), runner.cache.committed(), strict=True)
    )
    assert follower.cache.length == 1500


def test_a_layer_that_adds_up_is_fed_everywhere_when_it_is_fed_apart() -> None:
    runner, _, ear, _ = listened(LLAMA)
    runner.model.get_submodule("model.layers.0.self_attn.q_proj")(torch.ones(1, 2, 32))
    assert ear.fed == [], "no rank needs another one there"
    adding = runner.model.get_submodule("model.layers.1.mlp.down_proj")
    assert adding in adding_layers(runner.model)
    adding(torch.ones(1, 2, 48))
    assert ear.fed == [(1, 2, 48)]


def test_nothing_goes_on_behind_a_pass_that_did_not_end() -> None:
    runner, *_ = listened(LLAMA)
    for _ in runner.prefill(PROMPT):
        pass
    with pytest.raises(IndexError):
        runner.forward(chain_block((10**6,), len(PROMPT), (0,)))
    with pytest.raises(PassesBroken):
        runner.forward(chain_block((1,), len(PROMPT), (0,)))


def test_what_a_pass_says_is_not_kept_where_a_rank_has_ended() -> None:
    runner, _, _, cut = listened(LLAMA)
    for _ in runner.prefill(PROMPT):
        pass
    runner.forward(chain_block((1,), len(PROMPT), (0,)))
    cut.append(True)
    with pytest.raises(PassesBroken):
        runner.commit((0,))
