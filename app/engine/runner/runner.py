"""Runs blocks of any form on a transformers model, and keeps the prefix that it has committed.

Steps run a decoder's blocks: eagerly here, or as CUDA graphs (`step_graphs.py`). Which of the two a model gets is
chosen once, at load. Prompts are always read eagerly."""

from collections.abc import Generator, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import Attend, BlockView
from app.engine.attention.selector import SDPA, Attention
from app.engine.block.block import Block, apart_block, chain_block, common_length, padded
from app.engine.block.step_profile import Buckets, bucket_for
from app.engine.machine.hardware import uploaded
from app.engine.machine.memory import is_out_of_memory
from app.engine.runner.kv_cache import AHEAD, CACHE_NAME, BlockCache
from app.engine.runner.model_config import Rotary, anchored
from app.engine.runner.prefix_cache import WORTH_KEEPING, PrefixCache
from app.engine.sampling.sampling import Sampler, best_tokens, make_sampler
from app.values.messages import MAX_ROWS, Prefilling, Sampling

PREFILL_CHUNK, CUDA_PREFILL_CHUNK = 512, 1024
"""Prompt tokens per forward pass: after each pass the person can stop, and sees progress. With so many, a card
multiplies for much longer than it reads weights and the host launches kernels."""

ENOUGH = 512
"""Rows of room after a prompt, such as a chat's next turn: it keeps the buffers and what was recorded."""
MUCH, ROOMY = 4, 4096
"""A prompt gives room of the cache back if that has MUCH times what the prompt needs, and more than ROOMY rows."""


class EagerSteps:
    """Runs blocks after what a cache holds, and commits rows of them. It launches each kernel of a step anew."""

    buckets: Buckets = ()  # the row counts that steps are captured for
    warm_up = 1  # runs of a block after which the next ones cost what all later ones do
    reads_all_rows = False  # whether it needs blocks of which all rows are wanted

    def __init__(self, model: PreTrainedModel, attention: Attention, note: str = "") -> None:
        """`note` says why steps are no graphs although this device has them; "" otherwise."""
        self.model, self.attention, self.note = model, attention, note

    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """Logits [R, vocab] of the block's wanted rows, good until the next block; only these reach the LM head.

        If `batch_invariant`, a row's bits depend on nothing but the text before it and the number of rows."""
        attend = self.attention.batch_invariant if batch_invariant else self.attention.attend
        return run_block(self.model, cache, block, attend)[0]

    def best_tokens(self, rows: int, count: int) -> Tensor | None:
        """`batched_sampling.best_tokens` of the newest logits' first rows, if so many were found already."""
        del rows, count
        return None

    @torch.inference_mode()
    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block: ascending, the first is row 0."""
        cache.commit(rows)

    def release(self) -> None:
        """Let go of what is kept for the cache's buffers, which are about to be made anew."""


@torch.inference_mode()
def run_block(
    model: PreTrainedModel, cache: BlockCache, block: Block, attend: Attend
) -> tuple[Tensor, BlockView]:
    """One forward pass: logits [R, vocab] of the wanted rows, and what attention saw. Nothing is committed."""
    device = model.device
    view = BlockView(block, cache.length, attend, device)
    output = model(
        input_ids=uploaded(np.array([block.tokens]), device),
        position_ids=view.positions[None],
        **{CACHE_NAME: cache},
        use_cache=True,
        logits_to_keep=uploaded(np.array(block.wanted, dtype=np.int64), device),
        block=view,
    )
    logits: Tensor = output.logits[0]
    return logits, view


def compile_variants(model: PreTrainedModel, attention: Attention) -> None:
    """Read a few tokens with every variant of the kernels, so that none is compiled while a reply waits."""
    for attend in attention.variants:
        run_block(model, BlockCache(), chain_block(range(3), 0, wanted=(0,)), attend)


class BlockRunner:
    """Runs blocks on a transformers model whose attention is ours and whose cache is a BlockCache."""

    max_branches = MAX_ROWS
    pending = 0

    def __init__(
        self,
        model: PreTrainedModel,
        context: int,
        rotary: Rotary,
        attention: Attention = SDPA,
        steps: EagerSteps | None = None,
        cache: BlockCache | None = None,
        others: PrefixCache | None = None,
    ) -> None:
        """`steps` run the decoders' blocks; by default eagerly. `cache` is an empty one.

        `others` keeps the prefixes of other conversations; by default none."""
        self.context = context
        self.reused = 0
        self.same_text_buckets: Buckets = ()
        self.model = model
        self.attention = attention
        self.steps = steps or EagerSteps(model, attention)
        self._rotary = rotary
        self.cache = BlockCache() if cache is None else cache
        self._others = PrefixCache() if others is None else others
        self._chunk = prefill_chunk(model.device)
        self.is_asynchronous = model.device.type == "cuda"
        self._prefix: list[int] = []
        self._farthest = 0  # position that the prefix was last read up to
        self._block: Block | None = None
        self._newest: Tensor | None = None  # what `forward` returned last

    @property
    def buckets(self) -> Buckets:
        return self.same_text_buckets or self.steps.buckets

    @property
    def max_rows(self) -> int:
        return self.same_text_buckets[-1] if self.same_text_buckets else MAX_ROWS

    def horizon(self, position: int) -> int:
        return self._rotary.horizon(position, self.context)

    def prefill(
        self, ids: Sequence[int], same_text_buckets: Buckets = ()
    ) -> Generator[Prefilling, None, Tensor]:
        """Read only what differs from the prefix the cache holds, or from one that was kept, in chunks."""
        self.same_text_buckets = same_text_buckets
        if self._rotary.kind == "fixed":
            self._reuse(ids[:-1])
        else:  # keys of a table that depends on the text's length fit no text of another length
            self.rewind(0)
        self.reused = len(self._prefix)
        self._make_room(len(ids))
        logits = torch.empty(0)
        for chunk in self._read(ids):
            logits = chunk
            yield Prefilling(len(self._prefix), len(ids))
        return logits

    def forward(self, block: Block) -> Tensor:
        is_long = self._rotary.is_long(block.positions[0] + 1)
        if self._rotary.kind == "longrope" and is_long and not self._rotary.is_long(self._farthest + 1):
            # As transformers does for Phi-3: beyond the switch the whole text is read anew with the long table.
            prefix = self._prefix
            self.rewind(0)
            for _ in self._read(prefix, farthest=block.positions[0]):
                pass
        fed = self._padded(block)
        logits = self.steps.forward(self.cache, fed, batch_invariant=bool(self.same_text_buckets))
        self._block, self._newest = block, logits[: len(block.wanted)]
        return self._newest

    def forward_siblings(self, tokens: Sequence[int]) -> Tensor:
        return self.forward(apart_block(tokens, len(self._prefix)))

    def with_small_cache(self) -> "BlockRunner":
        """Make a runner of the same model for a few tokens at a time, with a small cache of its own."""
        return BlockRunner(self.model, 1, self._rotary, self.attention)

    def sampler(self, sampling: Sampling, from_logits: bool = False) -> Sampler:
        del from_logits
        return make_sampler(sampling, str(self.model.device), self.best_tokens)

    def best_tokens(self, logits: Tensor, count: int) -> Tensor:
        """Take what a recorded step found beside these logits; of other logits, look for them now."""
        known = self.steps.best_tokens(len(logits), count) if logits is self._newest else None
        return best_tokens(logits, count) if known is None else known

    def commit(self, rows: Sequence[int]) -> None:
        """Compact the cache to prefix and accepted rows; raises ValueError without a block to commit."""
        if self._block is None:
            raise ValueError(f"there is no block to commit rows {list(rows)} of")
        self.steps.commit(self.cache, rows)
        self._prefix += [self._block.tokens[row] for row in rows]
        self._block = None

    def rewind(self, length: int) -> None:
        """Keep the first `length` tokens of the prefix: what a draft model committed may be taken back."""
        self.cache.rewind(length)
        self._prefix = self._prefix[:length]
        self._block = self._newest = None

    def forget(self) -> None:
        """Drop the prefix, and those of other conversations; the buffers stay until a shorter text is read."""
        self.rewind(0)
        self._others.clear()

    @property
    def has_fixed_positions(self) -> bool:
        """Whether a row's position turns it the same in every text."""
        return self._rotary.kind == "fixed"

    @property
    def length(self) -> int:
        """Tokens of the prefix."""
        return len(self._prefix)

    @property
    def warm_up(self) -> int:
        """Runs of a block after which the next ones cost what all later ones do."""
        return self.steps.warm_up

    @property
    def vocabulary(self) -> int:
        """Tokens that the model knows, numbered from 0."""
        return int(self.model.config.get_text_config(decoder=True).vocab_size)

    def _padded(self, block: Block) -> Block:
        """Pad the block to the smallest bucket that holds it. Nothing else pads blocks.

        CUDA graphs read the logits of every row; blocks that are too wide for them are not padded."""
        buckets, rows, wanted = self.buckets, len(block), len(block.wanted)
        if not buckets or (not self.same_text_buckets and max(rows, wanted) > buckets[-1]):
            return block
        if self.steps.reads_all_rows:
            rows = wanted = max(rows, wanted)  # a window of 2-grams reads row 0 twice
        return padded(block, bucket_for(rows, buckets), bucket_for(wanted, buckets))

    def _read(self, ids: Sequence[int], farthest: int = 0) -> Iterator[Tensor]:
        """Commit the rest of `ids` in chunks, each with the rotary table of a text that reaches `farthest`."""
        farthest = self._farthest = max(farthest, len(ids) - 1)
        if self._rotary.kind == "dynamic" and not self._prefix:
            # A pass at position 0 sets the table back, whatever lengths were read before.
            self._run(chain_block(ids[:1], 0, wanted=(0,)))
        for start in range(len(self._prefix), len(ids), self._chunk):
            chunk = ids[start : start + self._chunk]
            block = chain_block(chunk, start, wanted=(len(chunk) - 1,))
            logits = self._run(anchored(block, farthest) if self._rotary.is_long(farthest + 1) else block)
            self.commit(range(len(chunk)))
            yield logits[0]

    @torch.inference_mode()
    def _reuse(self, ids: Sequence[int]) -> None:
        """Go back to what the prefix has in common with these ids, then on with a kept prefix that has more of it.

        What is lost of the prefix is kept."""
        common, kept = common_length(self._prefix, ids), self._others.find(ids)
        if len(self._prefix) - common >= WORTH_KEEPING:
            self._others.keep(self._prefix, self.cache.committed())
        self.rewind(common)
        if kept is not None and (longer := common_length(kept.tokens, ids)) - common >= WORTH_KEEPING:
            self._make_room(len(ids) + 1)
            self.cache.restore(kept.states, longer)
            self._prefix += ids[common:longer]

    @torch.inference_mode()
    def _make_room(self, rows: int) -> None:
        """Reserve what a prompt and much of its reply need, once; a cache far too large gives the rest back."""
        if self.cache.capacity > max(ROOMY, MUCH * rows):
            self.steps.release()
            self.cache.give_back(rows + AHEAD)
            return
        most = self.context + MAX_ROWS
        if self.cache.capacity >= max(rows, min(rows + ENOUGH, most)):
            return
        self.steps.release()  # their memory is free before the buffers grow
        try:
            self.cache.reserve_ahead(rows, most)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self._others.clear()
            self.cache.reserve(rows)

    def _run(self, block: Block) -> Tensor:
        logits, _ = run_block(self.model, self.cache, block, self.attention.attend)
        self._block = block
        return logits


def prefill_chunk(device: torch.device) -> int:
    """How many prompt tokens a forward pass reads on this device."""
    return CUDA_PREFILL_CHUNK if device.type == "cuda" else PREFILL_CHUNK
