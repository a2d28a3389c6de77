"""Steps as CUDA graphs: a whole forward pass that the host starts with one call.

Launch by launch, a Llama of 32 layers is some 1200 kernels, and the host may need longer to name them than the
device to run them. A graph is recorded once for each bucket of rows and then replayed:

    block of 11 rows -> padded to 16 -> tokens, positions, slots, wanted rows, paths: one copy to the device
                                     -> replay the graph of 16 rows -> logits [16, vocab], of which some are wanted

What a graph has baked in must stay true. Its inputs are tensors that stay (`step_inputs.py`); keys are written to
slots, and attention finds them by the table of paths in the whole buffers (`kv_cache.py`, `attention/paths.py`), so
neither prefix nor rewinding are seen by the graph. When the cache grows, its buffers are others: all graphs are
dropped and recorded anew. A bucket's first steps are eager, so that rare ones are never recorded, as are blocks
without a prefix and blocks that are too deep or too wide.

Whatever goes wrong when a step is recorded, the model runs launch by launch from then on, and `note` says why.
Where only memory is too small, steps of so many rows do; where it is too small for a cache that grows far at once,
steps do until it has grown by little.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import BlockView
from app.engine.attention.selector import Attention
from app.engine.block import Block, chain_block, padded
from app.engine.device_faults import reason_of
from app.engine.graph_capture import CapturedGraph, CudaGraphCapturer, GraphCapturer
from app.engine.hardware import upload_into
from app.engine.kv_cache import BlockCache, are_in_place
from app.engine.memory import is_out_of_memory
from app.engine.rotary import Rotary
from app.engine.step_inputs import StepInputs
from app.engine.step_profile import Buckets
from app.engine.steps import EagerSteps, Steps, run_block
from app.engine.tolerance import is_close
from app.messages import MAX_ROWS

BUCKETS: Buckets = (1, 8, 16, 32, 64, 96, 128)
"""Row counts that steps are recorded for."""
EAGER_STEPS = 2
"""Steps of a bucket before it is recorded."""

_TRIAL = (3, 1, 4, 1, 5, 9, 2, 6)
_TRIAL_PREFIX = 5
_NO_MEMORY = "memory ran out"
_NO_ROOM = f"{_NO_MEMORY} when the cache was to grow for recorded steps"


@dataclass(slots=True)
class _Bucket:
    """One row count: what its graph reads, and the graph once there is one."""

    inputs: StepInputs
    graph: CapturedGraph | None = None


class GraphSteps:
    """Replays a graph where there is one; one cache at a time."""

    warm_up = EAGER_STEPS + 1
    reads_all_rows = True

    def __init__(
        self, model: PreTrainedModel, attention: Attention, capturer: GraphCapturer, context: int
    ) -> None:
        """The attention backend must read the mask from the table of paths alone."""
        self.note = ""
        self.buckets = BUCKETS
        self.model = model
        self._attention = attention
        self._capturer = capturer
        self._context = context
        self._eager = EagerSteps(model, attention)
        self._runs: Counter[int] = Counter()
        self._refused: set[int] = set()
        self._captured: dict[int, _Bucket] = {}
        self._moves: CapturedMoves | None = None
        self._can_record_moves = True
        self._cache: BlockCache | None = None
        self._version = 0
        self._logits = torch.empty(0)

    @property
    def num_graphs(self) -> int:
        """How many row counts are recorded now."""
        return len(self._captured)

    @torch.inference_mode()
    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """Logits [R, vocab] of the wanted rows; the next block overwrites them."""
        if not self._has_graph_for(cache, block):
            return self._eager.forward(cache, block, batch_invariant)
        return self._replayed(cache, block, batch_invariant)

    def _has_graph_for(self, cache: BlockCache, block: Block) -> bool:
        """Whether so many rows are captured by now, or may be with the next step."""
        rows = len(block)
        if not self.buckets or rows > self.buckets[-1] or len(block.wanted) != rows:
            return False
        self._runs[rows] += 1
        if self._runs[rows] <= EAGER_STEPS or rows in self._refused or not cache.length:
            return False
        return self._makes_room(cache, rows)

    @torch.inference_mode()
    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Where rows have to be moved, by a recording as well."""
        is_current = self._captured and self._cache is cache and self._version == cache.version
        if are_in_place(rows) or len(rows) > MOVES or not is_current or not self._can_record_moves:
            cache.commit(rows)
            return
        try:
            self._moves = self._moves or CapturedMoves(cache, self._capturer, self.model.device)
        except Exception as error:  # as with steps
            self._refuse_moves(error)
            cache.commit(rows)
            return
        self._moves.commit(cache, rows)

    def _replayed(self, cache: BlockCache, block: Block, batch_invariant: bool) -> Tensor:
        rows = len(block)
        bucket = self._captured.get(rows) or _Bucket(StepInputs(rows, self.model.device))
        if not bucket.inputs.fill(block, cache.length):
            return self._eager.forward(cache, block, batch_invariant)
        try:
            bucket.graph = bucket.graph or self._capture(cache, block, bucket.inputs)
        except Exception as error:  # a driver's, a compiler's, a model's own: each has types of its own
            self._refuse(rows, error)
            return self._eager.forward(cache, block, batch_invariant)
        self._captured[rows] = bucket
        bucket.graph.replay()
        return self._logits[:rows]

    def _capture(self, cache: BlockCache, block: Block, inputs: StepInputs) -> CapturedGraph:
        if not len(self._logits):
            self._logits = self._room_for_logits(cache, block)
        rows = len(inputs.slots)
        view = BlockView(
            block, cache.length, self._attention.attend, self.model.device, inputs.paths, inputs.positions[0]
        )

        def step() -> None:
            with cache.writing_at(inputs.slots):
                output = self.model(
                    input_ids=inputs.tokens,
                    position_ids=inputs.positions,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=inputs.wanted,
                    block=view,
                )
            self._logits[:rows].copy_(output.logits[0])

        return self._capturer.capture(step)

    def _room_for_logits(self, cache: BlockCache, block: Block) -> Tensor:
        """One buffer for the graphs of all row counts: each step's logits are read before the next."""
        logits = self._eager.forward(cache, block)
        return logits.new_empty((self.buckets[-1], logits.shape[-1]))

    def _makes_room(self, cache: BlockCache, rows: int) -> bool:
        """Room behind the prefix, unless memory runs out: an eager step needs less of it.

        What was recorded over other buffers is dropped, and before they grow."""
        needed = cache.length + rows
        if cache.capacity < needed:
            self.release()
            try:
                cache.reserve_ahead(needed, self._context + MAX_ROWS)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                self.note = _NO_ROOM
                return False
        self.note = "" if self.note == _NO_ROOM else self.note
        if self._cache is not cache or self._version != cache.version:
            self.release()
            self._cache, self._version = cache, cache.version
        return True

    def release(self) -> None:
        """Drop all graphs: they are recorded anew."""
        if self._captured:
            self._captured.clear()
            self._moves = None
            self._capturer.release()

    def _refuse(self, rows: int, error: Exception) -> None:
        """Capture no graph of so many rows any more, or none at all. The step itself still runs eagerly."""
        if is_out_of_memory(error):  # narrower ones may have room
            self._refused.add(rows)
            self.note = f"{_NO_MEMORY} when a step of {rows} rows was recorded"
        else:
            self._give_up(error)

    def _refuse_moves(self, error: Exception) -> None:
        """Move rows eagerly from now on; where memory ran out, steps stay recorded."""
        if is_out_of_memory(error):
            self._can_record_moves = False
            self.note = f"{_NO_MEMORY} when a commit was recorded"
        else:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.release()
        self._logits, self._cache = torch.empty(0), None
        self.note, self.buckets = _reason(error), ()


def choose_steps(model: PreTrainedModel, attention: Attention, rotary: Rotary, context: int) -> Steps:
    """Graphs where the device has them and our kernels attend, if they pass a trial."""
    if model.device.type != "cuda":
        return EagerSteps(model, attention)
    if attention.name != "triton":
        return EagerSteps(model, attention, f"they need the triton attention, and {attention.name} attends")
    return tried_graphs(model, attention, rotary, CudaGraphCapturer(model.device), context)


def tried_graphs(
    model: PreTrainedModel, attention: Attention, rotary: Rotary, capturer: GraphCapturer, context: int
) -> Steps:
    """Graphs, if a tiny block has the same logits by a graph as eagerly; else eager steps and a note."""
    if rotary.kind == "dynamic":
        return EagerSteps(model, attention, "its rotary table depends on the text's length")
    note = _NO_MEMORY
    for rows in (8, 1):  # as few as can be where memory is too small for more
        if note.startswith(_NO_MEMORY):
            note = _note_of_trial(model, attention, GraphSteps(model, attention, capturer, len(_TRIAL)), rows)
            capturer.release()
    return EagerSteps(model, attention, note) if note else GraphSteps(model, attention, capturer, context)


def _note_of_trial(model: PreTrainedModel, attention: Attention, steps: GraphSteps, rows: int) -> str:
    """Why steps cannot be these graphs; "" where they can."""
    try:
        is_same = _says_the_same(model, attention, steps, rows)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return f"{_NO_MEMORY} when they were tried"
    return steps.note or ("" if is_same else "a graph said something else")


@torch.inference_mode()
def _says_the_same(model: PreTrainedModel, attention: Attention, steps: GraphSteps, rows: int) -> bool:
    """Read so many rows behind a prefix that grows, until they come from a graph that was made for others."""
    cache, eager = BlockCache(), EagerSteps(model, attention)
    text, rest = _TRIAL[:_TRIAL_PREFIX], _TRIAL[_TRIAL_PREFIX:]
    run_block(model, cache, chain_block(text, 0, wanted=()), attention.attend)
    cache.commit(range(len(text)))
    for turn in range(EAGER_STEPS + 2):
        line = rest[turn % 2 :][:rows]
        block = padded(chain_block(line, cache.length, wanted=tuple(range(len(line)))), rows, rows)
        expected = eager.forward(cache, block)
        found = steps.forward(cache, block)
        if not is_close(found, expected):
            return False
        cache.commit((0,))
    return True


def _reason(error: Exception) -> str:
    """Why a step could not be recorded, for a person to read."""
    return f"its steps cannot be recorded ({reason_of(error)})"


MOVES = 32
"""Rows that are moved at most: trees are at most 24 guesses deep."""


class CapturedMoves:
    """The commits of one cache, as long as its buffers stay."""

    def __init__(self, cache: BlockCache, capturer: GraphCapturer, device: torch.device) -> None:
        numbers = self._numbers = torch.zeros((2, MOVES), dtype=torch.long, device=device)
        self._graph = capturer.capture(lambda: cache.move(numbers[0], numbers[1]))

    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows, row 0 the first of them, at most MOVES."""
        rest = [0] * (MOVES - len(rows))
        moves = np.array(((*rows, *rest), (*range(len(rows)), *rest)), dtype=np.int64) + cache.length
        upload_into(self._numbers, moves)
        self._graph.replay()
        cache.advance(len(rows))
