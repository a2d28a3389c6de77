"""Steps as CUDA graphs: a whole forward pass that the host starts with one call.

Launch by launch, a Llama of 32 layers is some 1200 kernels, and the host may need longer to name them than the
device to run them. A graph is recorded once for each bucket of rows and then replayed:

    block of 11 rows -> padded to 16 -> tokens, positions, slots, wanted rows, paths: one copy to the device
                                     -> replay the graph of 16 rows -> logits [16, vocab], of which some are wanted,
                                                                       and of each row the likeliest tokens

What a graph has baked in must stay true. Its inputs are tensors that stay (`StepInputs`); keys are written to
slots, and attention finds them by the table of paths in the whole buffers (`kv_cache.py`, `attention/paths.py`), so
neither prefix nor rewinding are seen by the graph. When the cache grows, its buffers are others: all graphs are
dropped and recorded anew. A bucket's first steps are eager, so that rare ones are never recorded, as are blocks
without a prefix and blocks that are too deep or too wide.

Whatever goes wrong when a step is recorded, the model runs launch by launch from then on, and `note` says why.
If memory ran out, only steps of that many rows do; if it was too small for a cache that grows far at once, steps do
until the cache has grown by little.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import BlockView
from app.engine.attention.paths import NEWEST, SLOTS, row_paths
from app.engine.attention.selector import Attention
from app.engine.block.block import MAX_DEPTH, Block
from app.engine.block.entries import SUCCESSORS
from app.engine.block.step_profile import Buckets
from app.engine.graphs.graph_capture import GraphCapturer
from app.engine.machine.device_faults import reason_of
from app.engine.machine.hardware import upload_into
from app.engine.machine.memory import is_out_of_memory
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache, are_in_place
from app.engine.runner.runner import EagerSteps
from app.engine.sampling.sampling import best_tokens
from app.values.messages import MAX_ROWS

WIDTH = SLOTS + NEWEST
"""Columns of the table. Blocks whose rows find keys in more places are not for recorded steps."""
LINES = 4
"""Lines of int64 numbers before the table."""
MOVES = MAX_DEPTH + 1
"""Rows that a recorded commit moves at most: row 0 and one for each guess in a line."""
BUCKETS: Buckets = (1, 8, 16, 32, 64, 96, 128)
"""Row counts that steps are recorded for."""
EAGER_STEPS = 2
"""Steps of a bucket before it is recorded."""

NO_MEMORY = "memory ran out"
_NO_ROOM = f"{NO_MEMORY} when the cache was to grow for recorded steps"


class StepInputs:
    """All inputs of a recorded step that change from step to step, in one buffer on the device.

        int64 [rows]    tokens | positions | slots | wanted
        int32           the table of paths [rows, 2 + NEWEST], after them

    The slots say where the rows' keys are written. One copy fills the buffer; its source is pinned memory, which
    torch does not reuse before the copy is done, so that nothing waits."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._rows = rows
        self._buffer = torch.zeros(rows * (LINES + WIDTH // 2), dtype=torch.long, device=device)
        lines = self._buffer[: LINES * rows].view(LINES, rows)
        self.tokens, self.positions = lines[0:1], lines[1:2]  # [1, rows], as models take them
        self.slots, self.wanted = lines[2], lines[3]
        self.paths = self._buffer[LINES * rows :].view(torch.int32).view(rows, WIDTH)

    def fill(self, block: Block, prefix_length: int) -> bool:
        """Send a block of which all rows are read; sends nothing and returns False if the table is too small."""
        if len(block) != self._rows or len(block.wanted) != self._rows:
            raise ValueError(
                f"inputs are for {self._rows} rows, got {len(block)}, of which {len(block.wanted)} are wanted"
            )
        slots = range(prefix_length, prefix_length + self._rows)
        lines = np.array((*block.tokens, *block.positions, *slots, *block.wanted), dtype=np.int64)
        numbers = np.concatenate((lines, row_paths(prefix_length, block).reshape(-1).view(np.int64)))
        if len(numbers) != len(self._buffer):
            return False
        upload_into(self._buffer, numbers)
        return True


class CapturedMoves:
    """The commit of accepted rows that are not in place yet, as one CUDA graph that moves them in every layer.

    It is valid as long as the cache keeps its buffers."""

    def __init__(self, cache: BlockCache, capturer: GraphCapturer, device: torch.device) -> None:
        numbers = self._numbers = torch.zeros((2, MOVES), dtype=torch.long, device=device)
        self._graph = capturer.capture(lambda: cache.move(numbers[0], numbers[1]))

    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows, at most MOVES; the first is row 0."""
        rest = [0] * (MOVES - len(rows))
        moves = np.array(((*rows, *rest), (*range(len(rows)), *rest)), dtype=np.int64) + cache.length
        upload_into(self._numbers, moves)
        self._graph.replay()
        cache.advance(len(rows))


@dataclass(slots=True)
class _Bucket:
    """One row count: what its graph reads, and the graph once there is one."""

    inputs: StepInputs
    graph: torch.cuda.CUDAGraph | None = None


class GraphSteps(EagerSteps):
    """Replays a graph where there is one, else runs eagerly. It serves one cache at a time."""

    warm_up = EAGER_STEPS + 1
    reads_all_rows = True

    def __init__(
        self,
        model: PreTrainedModel,
        attention: Attention,
        capturer: GraphCapturer,
        context: int,
        most_best: int = SUCCESSORS,
    ) -> None:
        """The attention backend must read the mask from the table of paths alone.

        Graphs look for the `most_best` likeliest tokens of each row; 0: for none."""
        super().__init__(model, attention)
        self.buckets = BUCKETS
        self._capturer = capturer
        self._context = context
        self._runs: Counter[int] = Counter()
        self._refused: set[int] = set()
        self._captured: dict[int, _Bucket] = {}
        self._moves: CapturedMoves | None = None
        self._can_record_moves = True
        self._cache: BlockCache | None = None
        self._version = self._capacity = 0  # of that cache, when it was looked at last
        self._logits = self._best = torch.empty(0)
        self._most_best = most_best
        self._num_best = 0  # of the newest block

    @property
    def num_graphs(self) -> int:
        """How many row counts are recorded now."""
        return len(self._captured)

    @torch.inference_mode()
    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """Logits [R, vocab] of the wanted rows; the next block overwrites them."""
        self._num_best = 0
        if not self._has_graph_for(cache, block):
            return super().forward(cache, block, batch_invariant)
        return self._replayed(cache, block, batch_invariant)

    def best_tokens(self, rows: int, count: int) -> Tensor | None:
        """The likeliest tokens that the graph found beside the logits, if the newest block was run by one."""
        return self._best[:rows, : 2 * self._num_best + 1] if 0 < count <= self._num_best else None

    def _has_graph_for(self, cache: BlockCache, block: Block) -> bool:
        """Whether a block of so many rows is captured by now, or may be in this step."""
        rows = len(block)
        if not self.buckets or rows > self.buckets[-1] or len(block.wanted) != rows:
            return False
        self._runs[rows] += 1
        if self._runs[rows] <= EAGER_STEPS or rows in self._refused or not cache.length:
            return False
        return self._makes_room(cache, rows)

    @torch.inference_mode()
    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block; moving them is recorded as well."""
        is_recorded = self._captured and self._is_current(cache)
        if are_in_place(rows) or len(rows) > MOVES or not is_recorded or not self._can_record_moves:
            super().commit(cache, rows)
            return
        try:
            self._moves = self._moves or CapturedMoves(cache, self._capturer, self.model.device)
        except Exception as error:  # as with steps, which stay recorded if memory ran out
            if is_out_of_memory(error):
                self._can_record_moves = False
                self.note = f"{NO_MEMORY} when a commit was recorded"
            else:
                self._give_up(error)
            super().commit(cache, rows)
            return
        self._moves.commit(cache, rows)

    def _replayed(self, cache: BlockCache, block: Block, batch_invariant: bool) -> Tensor:
        rows = len(block)
        bucket = self._captured.get(rows) or _Bucket(StepInputs(rows, self.model.device))
        if not bucket.inputs.fill(block, cache.length):
            return super().forward(cache, block, batch_invariant)
        try:
            bucket.graph = bucket.graph or self._capture(cache, block, bucket.inputs)
        except Exception as error:  # a driver's, a compiler's, a model's own: each has types of its own
            if is_out_of_memory(error):  # narrower ones may have room
                self._refused.add(rows)
                self.note = f"{NO_MEMORY} when a step of {rows} rows was recorded"
            else:
                self._give_up(error)
            return super().forward(cache, block, batch_invariant)
        self._captured[rows] = bucket
        bucket.graph.replay()
        self._num_best = self._num_best_of(rows)
        return self._logits[:rows]

    def _num_best_of(self, rows: int) -> int:
        """How many of a row's likeliest tokens a graph looks for: one in a plain step, else 8 to teach."""
        return min(self._most_best, 1 if rows == 1 else self._logits.shape[1])

    def _capture(self, cache: BlockCache, block: Block, inputs: StepInputs) -> torch.cuda.CUDAGraph:
        if not len(self._logits):
            # One buffer for the graphs of all row counts: each step's logits are read before the next.
            logits = super().forward(cache, block)
            self._logits = logits.new_empty((self.buckets[-1], logits.shape[-1]))
            self._best = self._logits.new_empty((len(self._logits), 2 * SUCCESSORS + 1), dtype=torch.float32)
        rows = len(inputs.slots)
        count = self._num_best_of(rows)
        view = BlockView(
            block, cache.length, self.attention.attend, self.model.device, inputs.paths, inputs.positions[0]
        )

        def step() -> None:
            with cache.writing_at(inputs.slots):
                output = self.model(
                    input_ids=inputs.tokens,
                    position_ids=inputs.positions,
                    **{CACHE_NAME: cache},
                    use_cache=True,
                    logits_to_keep=inputs.wanted,
                    block=view,
                )
            logits = output.logits[0]
            self._logits[:rows].copy_(logits)
            if count:
                self._best[:rows, : 2 * count + 1].copy_(best_tokens(logits, count))

        return self._capturer.capture(step)

    def _makes_room(self, cache: BlockCache, rows: int) -> bool:
        """Make room after the prefix, unless memory runs out: an eager step needs less of it.

        What was recorded over other buffers is dropped, before they grow."""
        needed = cache.length + rows
        if self._is_current(cache) and needed <= self._capacity:
            return True
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
        if not self._is_current(cache):
            self.release()
        self._cache, self._version, self._capacity = cache, cache.version, cache.capacity
        return True

    def _is_current(self, cache: BlockCache) -> bool:
        """Whether the buffers are those that steps were recorded over: a look at each layer would cost time."""
        return self._cache is cache and self._version == cache.version

    def release(self) -> None:
        """Drop all graphs: they are recorded anew."""
        if self._captured:
            self._captured.clear()
            self._moves = None
            self._capturer.release()

    def _give_up(self, error: Exception) -> None:
        """Record nothing any more. The step itself still runs eagerly."""
        self.release()
        self._logits = self._best = torch.empty(0)
        self._cache = None
        self.note, self.buckets = f"its steps cannot be recorded ({reason_of(error)})", ()
