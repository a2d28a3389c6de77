"""Runs steps as CUDA graphs: the host starts a whole forward pass with one call.

One pass of a Llama of 32 layers launches some 1200 kernels. The host may need longer to launch them one by one than
the device needs to run them. A graph is recorded once for each bucket (a row count that blocks are padded to), then
replayed:

    block of 11 rows -> padded to 16 -> tokens, positions, slots, wanted rows, paths: one copy to the device
                                     -> replay the graph of 16 rows -> logits [16, vocab], of which some are wanted,
                                                                       the likeliest tokens of each row, and
                                                                       each row's drawn token

A graph keeps the addresses and sizes of its recording, so its inputs are tensors that keep theirs (`StepInputs`).
Keys are written to slots, and attention finds them in the whole buffers by the table of paths
(`attention/paths.py`), so a graph does not depend on the prefix's length. When the cache grows, it gets new
buffers, and all graphs are dropped and recorded anew. A bucket's first steps are eager, so that rare buckets are
never recorded. Blocks without a prefix, blocks that are too deep or have too many rows, and blocks of which some
logits are not read are eager, too. If recording a step fails, the model runs eagerly from then on, and `note` is
the reason. If memory ran out during the recording, only steps of that row count stay eager.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from struct import pack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import BlockView
from app.engine.attention.backend_choice import Attention
from app.engine.attention.paths import NEWEST, SLOTS, row_paths
from app.engine.block.block import MAX_DEPTH, Block
from app.engine.block.step_profile import Buckets
from app.engine.graphs.graph_capturer import GraphCapturer
from app.engine.machine.device_faults import reason_of
from app.engine.machine.hardware import upload_into
from app.engine.machine.process_memory import is_out_of_memory
from app.engine.runner.kv_cache import BlockCache, are_in_place, cache_name
from app.engine.runner.runner import EagerSteps
from app.engine.sampling.sampling import MOST_LIKELY, SETTINGS, Draws
from app.values.messages import MAX_ROWS, Sampling

WIDTH = SLOTS + NEWEST
"""Columns of the table of paths. A block whose table needs more columns runs eagerly."""
LINES = 4
"""Lines of int64 values before the table of paths: tokens, positions, slots, wanted rows."""
MOVES = MAX_DEPTH + 1
"""Maximum number of rows that a recorded commit moves: row 0 and the deepest chain of guesses."""
BUCKETS: Buckets = (1, 8, 16, 32, 64, 96, 128)
"""Row counts that steps are recorded for."""
EAGER_STEPS = 2
"""Steps of a bucket that run eagerly before a step of this bucket is recorded."""

Choose = Callable[[Tensor, Tensor, Tensor, Tensor], None]
"""(logits, keys, settings, target) -> None: the signature of `choose_on_gpu` in sampling_triton.py."""

NO_MEMORY = "memory ran out"
_NO_ROOM = f"{NO_MEMORY} while the cache was growing for recorded steps"


class StepInputs:
    """The inputs of a recorded step that change from step to step, in one buffer on the device.

        int64 [rows]    tokens | positions | slots | wanted
        int32           the table of paths [rows, 2 + NEWEST]
        float64 [4]     how tokens are drawn
        int64 [rows]    the keys of their noise

    The slots are the cache rows that the block's keys are written to. One copy fills the buffer. The host
    need not wait for it, because torch does not reuse the source in pinned memory before the copy is done."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._rows = rows
        paths_end = rows * (LINES + WIDTH // 2)
        self._buffer = torch.zeros(paths_end + SETTINGS + rows, dtype=torch.long, device=device)
        lines = self._buffer[: LINES * rows].view(LINES, rows)
        self.tokens, self.positions = lines[0:1], lines[1:2]  # [1, rows], as models take them
        self.slots, self.wanted = lines[2], lines[3]
        self.paths = self._buffer[LINES * rows : paths_end].view(torch.int32).view(rows, WIDTH)
        self.settings = self._buffer[paths_end:][:SETTINGS].view(torch.float64)
        self.keys = self._buffer[paths_end + SETTINGS :]

    def fill(self, block: Block, prefix_length: int, draws: NDArray[np.int64]) -> bool:
        """Copy a block and the inputs of its draws to the device; return False, without a copy, if its table of
        paths has too many columns.

        Raises ValueError if the block has another number of rows or wanted rows."""
        if len(block) != self._rows or len(block.wanted) != self._rows:
            raise ValueError(
                f"inputs are for {self._rows} rows, not {len(block)}, of which {len(block.wanted)} are wanted"
            )
        paths = row_paths(prefix_length, block)
        if paths.shape[1] != WIDTH:
            return False
        slots = range(prefix_length, prefix_length + self._rows)
        lines = pack(f"={LINES * self._rows}q", *block.tokens, *block.positions, *slots, *block.wanted)
        upload_into(self._buffer, np.frombuffer(bytearray(lines + paths.data + draws.data), dtype=np.int64))
        return True


class CapturedMoves:
    """A commit as a CUDA graph: it moves accepted rows in every layer. Valid until the cache gets new buffers."""

    def __init__(self, cache: BlockCache, capturer: GraphCapturer, device: torch.device) -> None:
        moves = self._moves = torch.zeros((2, MOVES), dtype=torch.long, device=device)
        self._graph = capturer.capture(lambda: cache.move(moves[0], moves[1]))

    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Commit these rows, at most MOVES of them; the first is row 0."""
        rest = [0] * (MOVES - len(rows))
        moves = np.array(((*rows, *rest), (*range(len(rows)), *rest)), dtype=np.int64) + cache.length
        upload_into(self._moves, moves)
        self._graph.replay()
        cache.advance(len(rows))


@dataclass(slots=True)
class _Bucket:
    """One row count: its graph, once a step was recorded, and the inputs that this graph reads."""

    inputs: StepInputs
    graph: torch.cuda.CUDAGraph | None = None


class GraphSteps(EagerSteps):
    """Records the steps of a row count that recurs, replays recorded steps, and runs all others eagerly.

    All graphs belong to one cache at a time."""

    warm_up = EAGER_STEPS + 1
    reads_all_rows = True

    def __init__(
        self,
        model: PreTrainedModel,
        attention: Attention,
        capturer: GraphCapturer,
        context: int,
        choose: Choose | None = None,
    ) -> None:
        """Take an attention backend that reads the mask only from the table of paths.

        With `choose`, graphs also find the likeliest tokens of each row and draw its next token."""
        super().__init__(model, attention)
        self.buckets = BUCKETS
        self._capturer = capturer
        self._context = context
        self._vocabulary: int = model.config.get_text_config(decoder=True).vocab_size
        self._runs: Counter[int] = Counter()
        self._refused: set[int] = set()
        self._captured: dict[int, _Bucket] = {}
        self._moves: CapturedMoves | None = None
        self._can_record_moves = True
        self._cache: BlockCache | None = None
        self._version = self._capacity = 0  # of `_cache` when it was last checked
        self._logits = self._best = torch.empty(0)
        self._choose = choose
        self._drawn: Draws | None = None  # how the newest step drew, if it was a graph that draws

    @property
    def num_graphs(self) -> int:
        """The number of row counts that are recorded now."""
        return len(self._captured)

    @torch.inference_mode()
    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """Return logits [R, vocab] of the wanted rows; the next block may overwrite them."""
        self._drawn, rows = None, len(block)
        if self.buckets and rows <= self.buckets[-1] and len(block.wanted) == rows:
            self._runs[rows] += 1
            is_refused = self._runs[rows] <= EAGER_STEPS or rows in self._refused or not cache.length
            if not is_refused and self._makes_room(cache, rows):
                return self._replayed(cache, block, batch_invariant)
        return super().forward(cache, block, batch_invariant)

    def best_tokens(self, rows: int, count: int, draws: Draws | None = None) -> Tensor | None:
        """Return the tokens that the newest step's graph found. Returns None if no graph found any, if it
        found fewer than `count`, or if its draws are not `draws`."""
        drawn = self._drawn
        if drawn is None or count > MOST_LIKELY:
            return None
        if draws is None:
            return self._best[:rows, :-1]
        is_drawn = draws == Draws(drawn.sampling, drawn.positions[:rows])
        return self._best[:rows] if is_drawn else None

    @torch.inference_mode()
    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block. If steps are recorded, a graph moves up to MOVES rows."""
        is_recorded = self._captured and self._is_current(cache)
        if are_in_place(rows) or len(rows) > MOVES or not is_recorded or not self._can_record_moves:
            super().commit(cache, rows)
            return
        try:
            self._moves = self._moves or CapturedMoves(cache, self._capturer, self.model.device)
        except Exception as error:  # drivers, compilers and models raise errors of many types
            self._can_record_moves = False
            self._failed(error, "a commit")
            super().commit(cache, rows)
            return
        self._moves.commit(cache, rows)

    def _replayed(self, cache: BlockCache, block: Block, batch_invariant: bool) -> Tensor:
        rows = len(block)
        bucket = self._captured.get(rows) or _Bucket(StepInputs(rows, self.model.device))
        draws = Draws(self.sampling, tuple(block.positions[row] + 1 for row in block.wanted))
        if not draws.are_recordable(self._vocabulary):  # the kernels do not support these settings
            draws = replace(draws, sampling=Sampling())
        if not bucket.inputs.fill(block, cache.length, draws.inputs(self._vocabulary)):
            return super().forward(cache, block, batch_invariant)
        try:
            bucket.graph = bucket.graph or self._capture(cache, block, bucket.inputs)
        except Exception as error:  # drivers, compilers and models raise errors of many types
            self._refused.add(rows)  # steps with fewer rows may fit the memory
            self._failed(error, f"a step of {rows} rows")
            return super().forward(cache, block, batch_invariant)
        self._captured[rows] = bucket
        bucket.graph.replay()
        self._drawn = draws if self._choose else None
        return self._logits[:rows]

    def _capture(self, cache: BlockCache, block: Block, inputs: StepInputs) -> torch.cuda.CUDAGraph:
        if not len(self._logits):
            # All graphs share one buffer, because each step's logits are read before the next step.
            logits = super().forward(cache, block)
            self._logits = logits.new_empty((self.buckets[-1], logits.shape[-1]))
            self._best = self._logits.new_empty((len(self._logits), 2 * MOST_LIKELY + 2), dtype=torch.float32)
        rows = len(inputs.slots)
        view = BlockView(
            block, cache.length, self.attention.attend, self.model.device, inputs.paths, inputs.positions[0]
        )

        def step() -> None:
            with cache.writing_at(inputs.slots):
                output = self.model(
                    input_ids=inputs.tokens,
                    position_ids=inputs.positions,
                    **{cache_name(type(self.model).forward): cache},
                    use_cache=True,
                    logits_to_keep=inputs.wanted,
                    block=view,
                )
            logits = output.logits[0]
            self._logits[:rows].copy_(logits)
            if self._choose:
                self._choose(logits, inputs.keys, inputs.settings, self._best[:rows])

        return self._capturer.capture(step)

    def _makes_room(self, cache: BlockCache, rows: int) -> bool:
        """Reserve room after the prefix for recorded steps; return False if memory runs out. Graphs are dropped
        before the cache grows, and if they were recorded with other buffers."""
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
        """Return whether recorded steps use this cache and its current buffers."""
        return self._cache is cache and self._version == cache.version

    def release(self) -> None:
        """Drop all graphs; later steps record them anew."""
        if self._captured:
            self._captured.clear()
            self._moves = None
            self._capturer.release()

    def _failed(self, error: Exception, recorded: str) -> None:
        """Note why a recording failed. Unless memory ran out, drop all graphs and record none from then on."""
        if is_out_of_memory(error):
            self.note = f"{NO_MEMORY} when {recorded} was recorded"
            return
        self.release()
        self._logits = self._best = torch.empty(0)
        self._cache = None
        self.note, self.buckets = f"the model's steps cannot be recorded ({reason_of(error)})", ()
