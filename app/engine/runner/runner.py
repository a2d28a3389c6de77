"""Runs any blocks of rows on a transformers model, and keeps the committed prefix.

A decoder's blocks run eagerly (`EagerSteps`) or as CUDA graphs (`captured_steps.py`), as decided at load. Prompts
are always read eagerly.
"""

from collections.abc import Generator, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import Attend, BlockView
from app.engine.attention.backend_choice import SDPA, Attention
from app.engine.block.block import Block, chain_block, common_length, padded, siblings_block
from app.engine.block.step_profile import Buckets, bucket_for
from app.engine.machine.hardware import uploaded
from app.engine.machine.process_memory import is_out_of_memory
from app.engine.runner.kv_cache import AHEAD, BlockCache, block_cache, cache_name
from app.engine.runner.model_config import Rotary, anchored
from app.engine.runner.prefix_cache import WORTH_KEEPING, PrefixCache
from app.engine.sampling.sampling import Draws, Sampler, best_tokens, make_sampler
from app.values.messages import MAX_ROWS, Prefilling, Sampling

PREFILL_CHUNK, CUDA_PREFILL_CHUNK = 512, 1024
"""Maximum prompt tokens of a forward pass. After each pass the user sees progress and can stop. Larger passes save
little, because 1024 tokens keep a GPU busy for much longer than reading weights and launching kernels take."""

ENOUGH = 512
"""If the buffers have room for this many rows after a prompt, they do not grow."""
MUCH, ROOMY = 4, 4096
"""Before a prompt the cache is shrunk if it has over MUCH times the rows that the prompt needs, and over
ROOMY rows."""


class EagerSteps:
    """Runs blocks after a cache's committed rows, launching each kernel anew, and commits accepted rows."""

    buckets: Buckets = ()  # the row counts for which steps are recorded as CUDA graphs
    warm_up = 1  # runs of a block until its time is stable
    reads_all_rows = False  # whether the logits of every row are computed

    def __init__(self, model: PreTrainedModel, attention: Attention, note: str = "") -> None:
        """Take a `note` on why steps are not CUDA graphs although the device supports them; "" otherwise."""
        self.model, self.attention, self.note = model, attention, note
        self.sampling = Sampling()  # how steps that are recorded as CUDA graphs sample

    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """Return logits [R, vocab] of the block's wanted rows, valid until the next block.

        Other rows skip the LM head. If `batch_invariant`, a row's exact result depends only on the tokens before
        it and the number of rows."""
        attend = self.attention.batch_invariant if batch_invariant else self.attention.attend
        return run_block(self.model, cache, block, attend)[0]

    def best_tokens(self, rows: int, count: int, draws: Draws | None = None) -> Tensor | None:
        """Return None, because only steps in CUDA graphs find tokens while they compute the logits."""
        del rows, count, draws
        return None

    @torch.inference_mode()
    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block; they are ascending and begin with row 0."""
        cache.commit(rows)

    def release(self) -> None:
        """Release everything that depends on the cache's buffers, before the buffers are allocated anew."""


@torch.inference_mode()
def run_block(
    model: PreTrainedModel, cache: BlockCache, block: Block, attend: Attend
) -> tuple[Tensor, BlockView]:
    """Run one forward pass; return the wanted rows' logits [R, vocab], and the pass's BlockView.
    Commits nothing."""
    device = model.device
    view = BlockView(block, cache.length, attend, device)
    cache.begin(block, device)
    output = model(
        input_ids=uploaded(np.array([block.tokens]), device),
        position_ids=view.positions[None],
        **{cache_name(type(model).forward): cache},
        use_cache=True,
        logits_to_keep=uploaded(np.array(block.wanted, dtype=np.int64), device),
        block=view,
    )
    logits: Tensor = output.logits[0]
    return logits, view


def compile_variants(model: PreTrainedModel, attention: Attention) -> None:
    """Read three tokens with every variant of the kernels, so that no kernel is compiled while a reply waits."""
    for attend in attention.variants:
        run_block(model, block_cache(model.config), chain_block(range(3), 0, wanted=(0,)), attend)


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
        """Take `steps` that run the decoders' blocks (by default eagerly) and an empty `cache`.

        `others` keeps prefixes of other conversations; by default it keeps none."""
        self.context = context
        self.reused = 0
        self.same_text_buckets: Buckets = ()
        self.model = model
        self.attention = attention
        self.steps = steps or EagerSteps(model, attention)
        self._rotary = rotary
        self.cache = block_cache(model.config) if cache is None else cache
        self._others = PrefixCache() if others is None else others
        self.is_asynchronous = model.device.type == "cuda"
        self._chunk = CUDA_PREFILL_CHUNK if self.is_asynchronous else PREFILL_CHUNK
        self._prefix: list[int] = []
        self._farthest = 0  # the position whose rotary table the prefix was read with
        self._block: Block | None = None
        self._newest: Tensor | None = None  # logits that `forward` returned last

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
        """Read the tokens after the longest prefix shared with the cache or with a kept prefix, in chunks.

        If the rotary table depends on the text's length, all tokens are read."""
        self.same_text_buckets = same_text_buckets
        if self.has_fixed_rotary:
            self._reuse(ids[:-1])
        else:  # keys cannot be reused in a text of another length
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
            # The whole text is read again with the long table, as transformers does for Phi-3.
            prefix = self._prefix
            self.rewind(0)
            for _ in self._read(prefix, farthest=block.positions[0]):
                pass
        fed = self._padded(block)
        logits = self.steps.forward(self.cache, fed, bool(self.same_text_buckets))
        self._block, self._newest = block, logits[: len(block.wanted)]
        return self._newest

    def forward_siblings(self, tokens: Sequence[int]) -> Tensor:
        return self.forward(siblings_block(tokens, len(self._prefix)))

    def with_small_cache(self) -> "BlockRunner":
        """Make a runner of the same model for a few tokens, with a cache of its own."""
        return BlockRunner(self.model, 1, self._rotary, self.attention)

    def sampler(self, sampling: Sampling, from_logits: bool = False) -> Sampler:
        self.steps.sampling = Sampling() if from_logits else sampling
        return make_sampler(sampling, str(self.model.device), self.best_tokens)

    def best_tokens(self, logits: Tensor, count: int, draws: Draws | None = None) -> Tensor:
        """Return each row's best tokens. A recorded step found them already if it computed these logits."""
        known = self.steps.best_tokens(len(logits), count, draws) if logits is self._newest else None
        return best_tokens(logits, count, draws) if known is None else known

    def commit(self, rows: Sequence[int]) -> None:
        """Reduce the cache to the prefix and the accepted rows; raises ValueError without a block to commit."""
        if self._block is None:
            raise ValueError(f"there is no block whose rows {list(rows)} could be committed")
        self.steps.commit(self.cache, rows)
        self._prefix += [self._block.tokens[row] for row in rows]
        self._block = None

    def rewind(self, length: int) -> None:
        """Keep only the first `length` tokens of the prefix."""
        self.cache.rewind(length)
        self._prefix = self._prefix[:length]
        self._block = self._newest = None

    def forget(self) -> None:
        """Drop the prefix and the kept prefixes of other conversations; the buffers keep their size."""
        self.rewind(0)
        self._others.clear()

    @property
    def is_rewindable(self) -> bool:
        """Whether the prefix can be truncated at any length and continued with other tokens."""
        return self.has_fixed_rotary and not self.cache.is_recurrent

    @property
    def has_fixed_rotary(self) -> bool:
        """Whether a row's keys and hidden states do not depend on the text's length, so that they can be reused."""
        return self._rotary.kind == "fixed"

    @property
    def length(self) -> int:
        """The number of tokens of the prefix."""
        return len(self._prefix)

    @property
    def warm_up(self) -> int:
        return self.steps.warm_up

    @property
    def vocabulary(self) -> int:
        """The number of token ids, from 0 on."""
        return int(self.model.config.get_text_config(decoder=True).vocab_size)

    def _padded(self, block: Block) -> Block:
        """Pad the block to the smallest bucket with enough rows. Blocks that exceed every CUDA graph stay
        unpadded."""
        buckets, rows, wanted = self.buckets, len(block), len(block.wanted)
        if not buckets or (not self.same_text_buckets and max(rows, wanted) > buckets[-1]):
            return block
        if self.steps.reads_all_rows:
            rows = wanted = max(rows, wanted)  # a window of 2-grams wants the logits of row 0 twice
        return padded(block, bucket_for(rows, buckets), bucket_for(wanted, buckets))

    def _read(self, ids: Sequence[int], farthest: int = 0) -> Iterator[Tensor]:
        """Read and commit the rest of `ids` in chunks; yield the logits [vocab] after each chunk."""
        farthest = self._farthest = max(farthest, len(ids) - 1)
        if self._rotary.kind == "dynamic" and not self._prefix:
            # A pass at position 0 resets the rotary table to that of short texts.
            self._run(chain_block(ids[:1], 0, wanted=(0,)))
        # Recurrent states are kept before the last token, so that the same prompt can be answered again.
        last = len(ids) - 1 if self.cache.is_recurrent else len(ids)
        while (start := len(self._prefix)) < len(ids):
            if start == last:
                self.cache.keep_states()
            chunk = ids[start : min(start + self._chunk, last if start < last else len(ids))]
            block = chain_block(chunk, start, wanted=(len(chunk) - 1,))
            logits = self._run(anchored(block, farthest) if self._rotary.is_long(farthest + 1) else block)
            self.commit(range(len(chunk)))
            yield logits[0]

    @torch.inference_mode()
    def _reuse(self, ids: Sequence[int]) -> None:
        """Rewind to the tokens that the prefix shares with these ids, then restore more from a kept prefix.

        Restores only if at least WORTH_KEEPING tokens are gained. If as many would be lost, the current prefix is
        kept in `others` first."""
        common = self.cache.reachable(common_length(self._prefix, ids))
        kept = self._others.find(ids)
        if len(self._prefix) - common >= WORTH_KEEPING:
            self._others.keep(self._prefix, self.cache.committed(), self.cache.recurrent_states())
        self.rewind(common)
        if kept is not None and (longer := kept.shared(ids)) - common >= WORTH_KEEPING:
            self._make_room(len(ids) + 1)
            self.cache.restore(kept.states, longer, kept.recurrent)
            self._prefix += ids[common:longer]

    @torch.inference_mode()
    def _make_room(self, rows: int) -> None:
        """Reserve room for a prompt and AHEAD further rows, or for the prompt alone if memory runs out; shrink
        a cache that is far too large (MUCH)."""
        if self.cache.capacity > max(ROOMY, MUCH * rows):
            self.steps.release()
            self.cache.give_back(rows + AHEAD)
            return
        most = self.context + MAX_ROWS
        if self.cache.capacity >= max(rows, min(rows + ENOUGH, most)):
            return
        self.steps.release()  # so that the graphs' memory is free before the buffers grow
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
