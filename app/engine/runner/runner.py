"""Runs blocks of any form on a transformers model, and keeps the prefix that it has committed."""

from collections.abc import Generator, Iterator, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention.selector import SDPA, Attention
from app.engine.block.block import Block, apart_block, chain_block, common_length, padded
from app.engine.block.step_profile import Buckets, bucket_for
from app.engine.machine.memory import is_out_of_memory
from app.engine.runner.kv_cache import AHEAD, BlockCache
from app.engine.runner.model_config import Rotary, anchored
from app.engine.runner.prefix_cache import WORTH_KEEPING, PrefixCache
from app.engine.runner.steps import EagerSteps, run_block
from app.engine.sampling.batched_sampling import best_tokens, sampler_for
from app.engine.sampling.sampling import Sampler
from app.values.messages import MAX_ROWS, Prefilling, Sampling

PREFILL_CHUNK, CUDA_PREFILL_CHUNK = 512, 1024
"""Prompt tokens per forward pass: between two of them the person can stop, and sees progress. With so many, a card
multiplies for much longer than it reads weights and the host launches kernels."""

ENOUGH = 512  # rows of room behind a prompt, such as a chat's next turn: it keeps the buffers and what was recorded
MUCH, ROOMY = 4, 4096
"""A prompt that needs so little of the cache's room gives the rest back, unless it is but so many rows."""


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
        self._model = model
        self._attention = attention
        self.steps = steps or EagerSteps(model, attention)
        self._rotary = rotary
        self._cache = BlockCache() if cache is None else cache
        self._others = PrefixCache() if others is None else others
        self._chunk = prefill_chunk(model.device)
        self.is_asynchronous = model.device.type == "cuda"
        self._prefix: list[int] = []
        self._farthest = 0  # position that the prefix was last read up to
        self._block: Block | None = None
        self._newest: Tensor | None = None  # what `forward` returned last

    @property
    def buckets(self) -> Buckets:
        """Those of the same text, if they are set; else those of the steps' CUDA graphs."""
        return self.same_text_buckets or self.steps.buckets

    @property
    def max_rows(self) -> int:
        """The largest bucket of the same text, or what the engine allows."""
        return self.same_text_buckets[-1] if self.same_text_buckets else MAX_ROWS

    def horizon(self, position: int) -> int:
        """The context's end, or where the rotary table changes."""
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
        """Logits [R, vocab] of the wanted rows: no other row reaches the LM head."""
        if self._crosses_switch(block.positions[0]):
            # As transformers does for Phi-3: beyond the switch the whole text is read anew with the long table.
            prefix = self._prefix
            self.rewind(0)
            for _ in self._read(prefix, farthest=block.positions[0]):
                pass
        fed = self._padded(block)
        logits = self.steps.forward(self._cache, fed, batch_invariant=bool(self.same_text_buckets))
        self._block, self._newest = block, logits[: len(block.wanted)]
        return self._newest

    def forward_apart(self, tokens: Sequence[int]) -> Tensor:
        """In one block."""
        return self.forward(apart_block(tokens, len(self._prefix)))

    def apart(self) -> "BlockRunner":
        """Runs the same model on a few tokens at a time, with a small cache of its own."""
        return BlockRunner(self._model, 1, self._rotary, self._attention)

    def sampler(self, sampling: Sampling, from_logits: bool = False) -> Sampler:
        """From logits, always."""
        del from_logits
        return sampler_for(sampling, str(self._model.device), self.best_tokens)

    def best_tokens(self, logits: Tensor, count: int) -> Tensor:
        """Those that a recorded step has found beside these logits; of other logits they are looked for now."""
        known = self.steps.best_tokens(len(logits), count) if logits is self._newest else None
        return best_tokens(logits, count) if known is None else known

    def commit(self, rows: Sequence[int]) -> None:
        """Compact the cache to prefix and accepted rows; raises ValueError without a block to commit."""
        if self._block is None:
            raise ValueError(f"there is no block to commit rows {list(rows)} of")
        self.steps.commit(self._cache, rows)
        self._prefix += [self._block.tokens[row] for row in rows]
        self._block = None

    def rewind(self, length: int) -> None:
        """Keep the first so many tokens of the prefix: what a draft model committed may be taken back."""
        self._cache.rewind(length)
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
    def model(self) -> PreTrainedModel:
        """What is run."""
        return self._model

    @property
    def length(self) -> int:
        """Tokens of the prefix."""
        return len(self._prefix)

    @property
    def warm_up(self) -> int:
        """Runs of a block after which the next ones cost what all later ones do."""
        return self.steps.warm_up

    @property
    def attention(self) -> Attention:
        """The backend that attends."""
        return self._attention

    @property
    def vocabulary(self) -> int:
        """Tokens that the model knows, numbered from 0."""
        return int(self._model.config.get_text_config(decoder=True).vocab_size)

    @property
    def cache(self) -> BlockCache:
        """What it keeps of the prefix."""
        return self._cache

    def remembered(self) -> list[Tensor]:
        """Every layer's keys and values [1, heads, L, size] of the prefix, as views."""
        return self._cache.committed()

    def _padded(self, block: Block) -> Block:
        """The block with as many rows as the smallest bucket that holds it. Nothing else pads blocks.

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
        """Go back to what these ids have in common with the prefix, and on with what one that was kept has more.

        What is lost of the prefix is kept."""
        here, found = common_length(self._prefix, ids), self._others.find(ids)
        if len(self._prefix) - here >= WORTH_KEEPING:
            self._others.keep(self._prefix, self._cache.committed())
        self.rewind(here)
        if found is not None and (there := common_length(found.tokens, ids)) - here >= WORTH_KEEPING:
            self._make_room(len(ids) + 1)
            self._cache.restore(found.states, there)
            self._prefix += ids[here:there]

    @torch.inference_mode()
    def _make_room(self, rows: int) -> None:
        """Reserve what a prompt and much of its reply need, once; a cache far too large gives the rest back."""
        if self._cache.capacity > max(ROOMY, MUCH * rows):
            self.steps.release()
            self._cache.give_back(rows + AHEAD)
            return
        most = self.context + MAX_ROWS
        if self._cache.capacity >= max(rows, min(rows + ENOUGH, most)):
            return
        self.steps.release()  # their memory is free before the buffers grow
        try:
            self._cache.reserve_ahead(rows, most)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self._others.clear()
            self._cache.reserve(rows)

    def _crosses_switch(self, position: int) -> bool:
        is_long = self._rotary.is_long(position + 1)
        return self._rotary.kind == "longrope" and is_long and not self._rotary.is_long(self._farthest + 1)

    def _run(self, block: Block) -> Tensor:
        logits, _ = run_block(self._model, self._cache, block, self._attention.attend)
        self._block = block
        return logits


def prefill_chunk(device: torch.device) -> int:
    """How many prompt tokens a forward pass reads on this device."""
    return CUDA_PREFILL_CHUNK if device.type == "cuda" else PREFILL_CHUNK
