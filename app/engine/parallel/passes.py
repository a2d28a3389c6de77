"""The forward passes of a model that is split among the ranks: rank 0 announces each one, and all of them run it.

Rank 0 alone knows what passes are for. The others know their share of the keys and values, and of each pass:

    EAGER               ids, through attention that is written out, without a cache: a trial's reference
    FAST, INVARIANT     a block behind so many committed rows, through our attention
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine import attention
from app.engine.attention import Attend
from app.engine.attention.selector import SDPA
from app.engine.block.block import Block, chain_block
from app.engine.measuring.profiling import lengthen
from app.engine.parallel.link import Link, Op, Order
from app.engine.runner.kv_cache import BlockCache, are_in_place
from app.engine.runner.runner import run_block


class Way(IntEnum):
    """How a pass attends."""

    EAGER = 0
    FAST = 1
    INVARIANT = 2


_ATTENDS: Mapping[Way, Attend] = {Way.FAST: SDPA.attend, Way.INVARIANT: SDPA.batch_invariant}


_ALONE = "colwise"
_NUMBER = re.compile(r"\.\d+(?=\.|$)")
"""Of a layer, which plans write as a star."""


class PassesBroken(Exception):
    """An earlier pass did not come to its end, so the ranks are out of step."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A block behind the first `start` rows that are committed."""

    way: Way
    start: int
    block: Block

    def packed(self) -> Tensor:
        """As int64 numbers: three counts, the tokens, positions and parents, the wanted rows."""
        block = self.block
        counts = (self.way, self.start, len(block))
        return torch.tensor((*counts, *block.tokens, *block.positions, *block.parents, *block.wanted))


def unpacked(numbers: Sequence[int]) -> Pass:
    """What `packed` packed."""
    way, start, rows, *rest = numbers
    tokens, positions, parents = (tuple(rest[rows * column : rows * (column + 1)]) for column in range(3))
    return Pass(Way(way), start, Block(tokens, positions, parents, tuple(rest[3 * rows :])))


def pass_of(inputs: Mapping[str, Any]) -> Pass:
    """The pass that a model's inputs ask for."""
    if (view := inputs.get("block")) is None:
        ids = inputs["input_ids"][0].tolist()
        return Pass(Way.EAGER, 0, chain_block(ids, 0, wanted=()))
    way = next(way for way, attend in _ATTENDS.items() if attend is view.attend)
    return Pass(way, view.prefix_length, view.block)


class Announcer:
    """Rank 0's side."""

    def __init__(self, link: Link, is_cut: Callable[[], bool]) -> None:
        """`is_cut` tells whether another rank has ended."""
        self._link = link
        self._is_cut = is_cut
        self._is_inside = False

    @property
    def is_broken(self) -> bool:
        """Whether a pass did not come to its end, or has not yet: the ranks are out of step then."""
        return self._is_inside or self._is_cut()

    def announce_passes_of(self, model: PreTrainedModel) -> None:
        """From now on, of this rank's share of the model; and what a layer that adds up is fed apart from them."""
        model.register_forward_pre_hook(self._begin, with_kwargs=True)
        model.register_forward_hook(self._end)
        for number, layer in enumerate(adding_layers(model)):
            layer.register_forward_pre_hook(partial(self._feed, number))

    def keep(self, rows: Sequence[int]) -> None:
        """The newest pass was whole, and these rows of it are kept. Raises PassesBroken, LinkBroken."""
        if self._is_cut():  # on a card a pass that was cut short says something, but not what the model says
            raise PassesBroken
        if not are_in_place(rows):
            for rank in self._others:
                self._link.send_order(rank, Order(Op.KEEP, text=tuple(rows)))

    @property
    def _others(self) -> range:
        return range(1, self._link.size)

    def _begin(self, _model: object, _inputs: object, named: dict[str, Any]) -> None:
        if self.is_broken:
            raise PassesBroken
        self._is_inside = True
        numbers = pass_of(named).packed()
        for rank in self._others:
            self._link.send_order(rank, Order(Op.PASS, len(numbers)))
            self._link.send(rank, numbers)

    def _end(self, *_: object) -> None:
        self._is_inside = False

    def _feed(self, number: int, _layer: object, inputs: tuple[Any, ...]) -> None:
        if self._is_inside:
            return
        states: Tensor = inputs[0]
        for rank in self._others:
            self._link.send_order(rank, Order(Op.LAYER, number, tuple(states.shape)))
            self._link.send(rank, states.cpu().contiguous())


def adding_layers(model: PreTrainedModel) -> list[nn.Module]:
    """The innermost layers in which ranks meet; transformers' plan names those that need no other rank colwise."""
    inner = [
        (name, layer) for name, layer in model.named_modules() if not any(True for _ in layer.children())
    ]
    styles = (model.tp_plan.get(_NUMBER.sub(".*", name), _ALONE) for name, _ in inner)
    return [layer for (_, layer), style in zip(inner, styles, strict=True) if style != _ALONE]


class Follower:
    """Another rank's side: its share of the model, and of the keys and values."""

    def __init__(self, model: PreTrainedModel) -> None:
        attention.register()
        self._model = model
        self._adding = adding_layers(model)
        self.cache = BlockCache()
        self._computed = 0  # rows, committed or not
        self._attention = ""

    def run(self, forward: Pass) -> None:
        """What rank 0 runs. Nobody wants the logits here."""
        self._attend_by("eager" if forward.way is Way.EAGER else attention.NAME)
        if forward.way is Way.EAGER:
            self._run_eagerly(forward.block)
            return
        self._go_to(forward.start)
        self._computed = forward.start + len(forward.block)
        run_block(self._model, self.cache, forward.block, _ATTENDS[forward.way])

    @torch.inference_mode()
    def feed(self, number: int, states: Tensor) -> None:
        """What a layer of rank 0 is fed."""
        self._adding[number](states.to(self._model.device))

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Move these rows of the newest block behind the committed ones."""
        self.cache.commit(rows)

    @torch.inference_mode()
    def _run_eagerly(self, block: Block) -> None:
        self._model(input_ids=torch.tensor([block.tokens], device=self._model.device), use_cache=False)

    def _go_to(self, length: int) -> None:
        """Rank 0 says nothing of rows that stay in place, that it forgets, or that it makes up to measure."""
        if length < self.cache.length:
            self.cache.rewind(length)
        else:
            self.cache.advance(min(length, self._computed) - self.cache.length)
        if length > self.cache.length:
            lengthen(self.cache, length)

    def _attend_by(self, name: str) -> None:
        if name != self._attention:
            self._model.set_attn_implementation(name)
            self._attention = name
