"""The runner of models that cannot check draft trees: it feeds chains, with transformers' own attention and cache.

A recurrent state cannot branch, and it cannot be truncated like keys and values. So the state is copied
before several tokens are fed as a chain. If all are accepted, the new state is right. Otherwise the copy is
restored, and the accepted tokens are `pending`: they are fed once more together with the next chain, so that
they need no pass of their own. A state of only keys and values is truncated, and nothing is fed again.

    state after A, fed B c d, B c are right      the state after A is restored    pending: B c
    next step: fed B c and D e f, all right      the state after D e f            pending: nothing
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.block.block import MAX_DEPTH, Block, common_length
from app.engine.block.step_profile import Buckets
from app.engine.machine.hardware import uploaded
from app.engine.runner.kv_cache import CACHE_NAME, STATE_NAME, stock_cache
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import PREFILL_CHUNK
from app.engine.sampling.sampling import Sampler, make_sampler
from app.values.messages import Prefilling, Sampling

State = dict[str, Any]
"""The state that a model returns and takes as keyword arguments at its next pass: {name: a cache, or a list of
tensors}."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The number of rows that keys or values had when a state was copied."""

    count: int

    def of(self, grown: Tensor, more: int) -> Tensor:
        return grown[..., : self.count + more, :]


class Snapshot:
    """A copy of a model's state, so that tokens that are fed later can be undone.

        recurrent and convolution states    overwritten by every pass: copied
        keys and values of full layers      only grow: their number of rows is enough, and truncating is free
        keys and values of sliding layers   replaced by every pass: the old tensors are kept

    All attributes of a layer are kept, so the names of its states do not matter. When the model is loaded,
    `model_trial.py` tries whether this really undoes a pass. A snapshot can be restored once, and only into
    the cache objects that it was made from."""

    def __init__(self, state: State) -> None:
        self._state = {name: _copied(value) for name, value in state.items()}
        self._attributes = list[tuple[dict[str, Any], dict[str, Any]]]()
        for cache in state.values():
            if hasattr(cache, "__dict__") and not isinstance(cache, Tensor):
                holders = (cache, *getattr(cache, "layers", ()))
                self._attributes += [(vars(holder), _kept(holder)) for holder in holders]

    def restore(self, rows: int = 0) -> State:
        """Restore the state into the same cache and layer objects, and return it.

        The first `rows` rows that were fed after the snapshot stay. `rows` must be 0 unless `only_grows`."""
        for attributes, kept in self._attributes:
            for name, value in kept.items():
                attributes[name] = value.of(attributes[name], rows) if isinstance(value, _Rows) else value
        return self._state

    @property
    def only_grows(self) -> bool:
        """Whether the state is keys and values of full layers, and nothing else."""
        return bool(self._attributes) and not any(
            _holds_tensors(value) for _, kept in self._attributes for value in kept.values()
        )


def _kept(holder: Any) -> dict[str, Any]:
    """Copy the attributes of a cache or a layer. Keep only the number of rows of keys and values that only
    grow; keep other keys and values without copying them."""
    kept = {name: value for name, value in vars(holder).items() if name in ("keys", "values")}
    if not getattr(holder, "is_sliding", False):
        for name, value in kept.items():
            kept[name] = _Rows(value.shape[-2]) if isinstance(value, Tensor) and value.ndim > 1 else value
    return {name: _copied(value) for name, value in vars(holder).items() if name not in kept} | kept


def _holds_tensors(value: object) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, Tensor) or any(map(_holds_tensors, inside))


def _copied(value: Any) -> Any:
    """Copy tensors, also inside lists, tuples and dictionaries; return everything else as it is."""
    match value:
        case Tensor():
            return value.clone()
        case dict():
            return {name: _copied(one) for name, one in value.items()}
        case list() | tuple():
            return type(value)(map(_copied, value))
        case _:
            return value


PROGRESS_ROWS = 16
"""Rows between two reports of progress while a prompt is read row by row."""
LONGEST_CHAIN = MAX_DEPTH + 1
"""Maximum rows of a step: pending rows, the current token and its guesses."""


@dataclass(frozen=True, slots=True)
class _ReadPrompt:
    """A prompt, the state after it, and the logits [vocab] of the next token."""

    ids: tuple[int, ...]
    logits: Tensor
    state: Snapshot


class SequentialRunner:
    """Runs chains of tokens with transformers' own attention and cache. Single rows are committed when fed."""

    max_branches = 1
    same_text_buckets: Buckets = ()  # empty, because chains round differently from single rows
    buckets: Buckets = ()
    warm_up = 1  # runs of a chain until its time is stable

    def __init__(self, model: PreTrainedModel, context: int) -> None:
        self.context = context
        self.reused = 0
        self.is_asynchronous = model.device.type == "cuda"
        self.chunk = PREFILL_CHUNK  # maximum rows of a pass that continues from a state
        self.longest_chain = 1
        self.pending = 0
        self.makes_cache = True  # whether the model makes its state itself
        self.model = model
        # If the rotary table depends on the text's length, keys cannot be reused in a text of another length.
        self.has_fixed_positions = rotary_of(model.config, context).kind == "fixed"
        self._accepts = frozenset(signature(model.forward).parameters)
        self._state: State = {}
        self._prefix: list[int] = []  # committed tokens; the model has read all but the pending tokens
        self._block: Block | None = None
        self._before: Snapshot | None = None  # the state before the block
        self._prompt: _ReadPrompt | None = None

    @property
    def max_rows(self) -> int:
        """Maximum rows of a block, without the pending tokens that are fed before it."""
        return max(self.longest_chain - self.pending, 1)

    @property
    def vocabulary(self) -> int:
        """The number of token ids, from 0 on."""
        return int(self.model.config.get_text_config(decoder=True).vocab_size)

    def horizon(self, position: int) -> int:
        del position
        return self.context

    def prefill(
        self, ids: Sequence[int], same_text_buckets: Buckets = ()
    ) -> Generator[Prefilling, None, Tensor]:
        """Read the prompt in chunks. Skips the current prefix or the newest prompt if the ids begin with it."""
        del same_text_buckets
        done = self.reused = self._resume(ids)
        logits = self._prompt.logits if self._prompt else torch.empty(0)
        while done < len(ids):
            tokens = ids[done : done + (self.chunk if done else PREFILL_CHUNK)]
            logits = self.feed(tokens, done)[-1]
            self._prefix += tokens
            done += len(tokens)
            if done < len(ids) and (len(tokens) > 1 or done % PROGRESS_ROWS == 0):
                yield Prefilling(done, len(ids))
        # Models without chains are left out, because restoring their state was not tried.
        if self.has_fixed_positions and self.longest_chain > 1:
            self._prompt = _ReadPrompt(tuple(ids), logits.clone(), self.snapshot())
        yield Prefilling(len(ids), len(ids))
        return logits

    def forward(self, block: Block) -> Tensor:
        """Return logits [R, vocab] of a chain's wanted rows. A single row is committed at once.

        Raises ValueError for a tree, or for more than `max_rows` rows."""
        rows, start = len(block), block.positions[0]
        if rows > self.max_rows or block.positions != tuple(range(start, start + rows)):
            raise ValueError(
                f"this model takes a chain of at most {self.max_rows} rows, not positions {block.positions}"
            )
        self._take_back()
        pending = self._prefix[len(self._prefix) - self.pending :]
        if rows > 1:
            self._before = self.snapshot()
        logits = self.feed([*pending, *block.tokens], start - len(pending), rows)
        self._block = block
        if rows == 1:
            self.commit((0,))
        if block.wanted == tuple(range(rows)):
            return logits
        # An uploaded array, because indexing with a list would wait for the device.
        return logits[uploaded(np.array(block.wanted, dtype=np.int64), logits.device)]

    @torch.inference_mode()
    def forward_siblings(self, tokens: Sequence[int]) -> Tensor:
        """Feed one batch of texts without the state; each text is the prefix and one of these tokens."""
        texts = np.array([[*self._prefix, token] for token in tokens])
        wanted = {"logits_to_keep": 1} if "logits_to_keep" in self._accepts else {}
        output = self.model(input_ids=uploaded(texts, self.model.device), use_cache=False, **wanted)
        logits: Tensor = output.logits[:, -1]
        return logits

    def sampler(self, sampling: Sampling, from_logits: bool = False) -> Sampler:
        del from_logits
        return make_sampler(sampling, str(self.model.device))

    def commit(self, rows: Sequence[int]) -> None:
        """Keep the state if all rows are accepted. Otherwise restore the state before the block, and make the
        accepted rows pending; a state that only grows is truncated instead. A single row is committed already."""
        if self._block is None:
            return
        tokens = self._block.tokens[: len(rows)]
        if len(rows) < len(self._block):
            self.pending = self._take_back(self.pending + len(rows))
        else:
            self.pending = 0
        self._block = self._before = None
        self._prefix += tokens

    @torch.inference_mode()
    def snapshot(self) -> Snapshot:
        return Snapshot(self._state)

    def forget(self) -> None:
        """Drop the prefix, the newest prompt and the state. The model makes a new state, or gets transformers'
        usual cache."""
        self._state = {} if self.makes_cache else {CACHE_NAME: stock_cache(self.model.config)}
        self._prefix, self.pending = [], 0
        self._block = self._before = self._prompt = None

    @torch.inference_mode()
    def feed(self, tokens: Sequence[int], start: int, keep: int = 1) -> Tensor:
        """Feed tokens, after dropping everything if `start` is 0; return logits [keep, vocab] of the last `keep`
        tokens."""
        if start == 0:
            self.forget()
        device = self.model.device
        optional = {
            "position_ids": uploaded(np.arange(start, start + len(tokens))[None], device),
            "logits_to_keep": keep,
        }
        output = self.model(
            input_ids=uploaded(np.array([tokens]), device),
            use_cache=True,
            **{name: value for name, value in optional.items() if name in self._accepts},
            **self._state,
        )
        names = (CACHE_NAME, STATE_NAME, "state")  # RWKV calls it state
        self._state = {name: value for name, value in output.items() if name in names} or self._state
        if not self._state and CACHE_NAME in self._accepts:  # RecurrentGemma never makes a cache itself
            self.makes_cache = False
            return self.feed(tokens, start, keep)
        logits: Tensor = output.logits[0, -keep:]
        return logits

    def _resume(self, ids: Sequence[int]) -> int:
        """Keep the current state, or return to the state after the newest prompt, if the ids begin with its
        tokens; otherwise drop the state. Return how many of the ids need not be read again."""
        self._take_back()
        fed = self._prefix[: len(self._prefix) - self.pending]
        if self.has_fixed_positions and 0 < common_length(fed, ids) == len(fed) < len(ids):
            self._prefix, self.pending = fed, 0
            return len(fed)
        prompt = self._prompt
        if prompt is None or common_length(prompt.ids, ids) < len(prompt.ids):
            self.forget()
            return 0
        self._state = prompt.state.restore()
        self._prompt = replace(prompt, state=self.snapshot())
        self._prefix, self.pending = list(prompt.ids), 0
        return len(prompt.ids)

    @torch.inference_mode()
    def _take_back(self, rows: int = 0) -> int:
        """Undo a pass that is not committed; return how many of its first `rows` rows could not be kept."""
        kept = 0
        if self._before is not None:
            kept = rows if self._before.only_grows else 0
            self._state = self._before.restore(kept)
        self._block = self._before = None
        return rows - kept
