"""Tests whether a model can decode draft trees, only chains, or only token by token.

The logits must be those of transformers' own code. So models with a positional bias, chunked attention, their
own attention code or an unknown recurrence may not decode trees. They are tried again without our attention.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine import attention
from app.engine.attention import Attend, sdpa
from app.engine.block.block import Block, chain_block
from app.engine.layers.recurrent_layers import read_chains, read_trees
from app.engine.machine.device_faults import is_no_verdict
from app.engine.machine.hardware import is_close, tolerance_of
from app.engine.machine.process_memory import is_out_of_memory
from app.engine.runner.kv_cache import BlockCache, attention_windows, block_cache, layer_windows
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import run_block
from app.engine.runner.sequential_runner import LONGEST_CHAIN, SequentialRunner
from app.errors import ModelBroken

_PREFIX = (3, 1, 4, 1, 5)
_PATHS = ((9, 2, 6), (9, 5))
"""The tokens of a trial, in tenths of the vocabulary: a prefix, then two paths of a draft tree. Both begin with the
current token 9; one continues with 2 and 6, the other with 5."""

ROWS = (3, 33, 128)
"""Row counts of the trials that compare two ways to run a model. Few and many rows may use different kernels."""

_CONTINUED = (*_PATHS[0], _PATHS[1][-1])
"""The tree's first path and one more token."""

_NO_PLAIN_CACHE = "This model keeps more than keys and values (it is recurrent, hybrid or reads in chunks)"
"""A reason against draft trees; `kernel_choice.py` completes its sentence."""


def reason_against_trees(model: PreTrainedModel, attend: Attend) -> str:
    """Return why this model cannot decode draft trees, and leave the model as it was. If it can, return "", set its
    attention to ours, and let its recurrent layers read trees. Raises errors for which `is_no_verdict` is true."""
    config = model.config.get_text_config(decoder=True)
    cache = block_cache(config)
    windows = attention_windows(config) if cache.is_recurrent else layer_windows(config)
    is_possible = rotary_of(config, 1).kind == "fixed" if cache.is_recurrent else bool(windows)
    if not is_possible:
        return _NO_PLAIN_CACHE
    stock = model.config._attn_implementation
    try:
        # Eager attention is the reference, because transformers' default may omit a soft cap (Gemma 2, 5.17).
        model.set_attn_implementation("eager")
        texts = [_tokens(model, *_PREFIX, *path) for path in _PATHS]
        expected = torch.cat([_logits(model, text)[len(_PREFIX) + 1 :] for text in texts])
        later = _logits(model, _tokens(model, *_PREFIX, *_CONTINUED))[-1:] if cache.is_recurrent else expected
        model.set_attn_implementation(attention.NAME)
        if cache.is_recurrent:
            read_trees(model)
        cache = _read_prefix(model, attend)
        logits, view = run_block(model, cache, tree_block(model), attend)
        reason = ""
        if windows and not view.windows:
            reason = "This model has its own attention code"
        elif view.windows != windows:
            reason = "This model's layers do not pass on the length of their attention window"
        elif not is_close(logits, expected, tolerance_of(model)):
            reason = "This model's attention depends on more than which rows see each other"
        elif cache.is_recurrent and not is_close(
            _continued_logits(model, cache, attend), later, tolerance_of(model)
        ):
            reason = "This model's state after a path of a tree is not that of the same text"
    except Exception as error:  # models, torch and drivers raise errors of their own types
        if is_no_verdict(error):
            raise
        own_attention = f"This model has its own attention code ({type(error).__name__})"
        reason = _NO_PLAIN_CACHE if cache.is_recurrent else own_attention
    if reason:
        model.set_attn_implementation(stock)
        read_chains(model)
    return reason


def _continued_logits(model: PreTrainedModel, cache: BlockCache, attend: Attend) -> Tensor:
    """Commit the tree's first path, feed a token after it, and return this token's logits [1, vocab]."""
    *path, token = _tokens(model, *_CONTINUED)
    cache.commit(range(len(path)))
    return run_block(model, cache, chain_block([token], len(_PREFIX) + len(path), wanted=(0,)), attend)[0]


def check_sequential(runner: SequentialRunner, model: PreTrainedModel) -> None:
    """Feed tokens row by row, in chunks and as a chain; set the runner's chunk size and longest chain accordingly.

    Raises ModelBroken if row-by-row logits are wrong. If chunks fail (Mamba, RecurrentGemma), prompts are
    read row by row after their first chunk. If chunks or chains (Zamba 2) fail, lookahead uses no chains."""
    text, read = _tokens(model, *_PREFIX, *_PATHS[0]), len(_PREFIX)
    expected, tolerance = _logits(model, text)[read - 1 :], tolerance_of(model)
    if not is_close(_row_by_row(runner, text, read), expected, tolerance):
        raise ModelBroken(
            "This model cannot write text token by token: choose one that is made for chat or text."
        )
    runner.feed(text[:read], 0)
    if not is_close(runner.feed(text[read:], read), expected[-1:], tolerance):
        runner.chunk = 1
    elif not _chain_is_taken_back(runner, model):
        runner.longest_chain = 1
    runner.forget()


def _row_by_row(runner: SequentialRunner, text: list[int], read: int) -> Tensor:
    """Compute logits [T, vocab] after the first `read` tokens and after each following token, fed one by one."""
    rows = [runner.feed(text[:read], 0)]
    rows += [runner.feed(text[index : index + 1], index) for index in range(read, len(text))]
    return torch.cat(rows)


def _chain_is_taken_back(runner: SequentialRunner, model: PreTrainedModel) -> bool:
    """Feed a chain and reject its guesses, then feed a text as a chain, and row by row; return whether both
    ways give the logits of one pass. Sets the runner's longest chain to LONGEST_CHAIN."""
    if not runner.has_fixed_positions:
        return False
    read, (current, *guesses) = len(_PREFIX), _PATHS[0]
    line = (*_PREFIX, current, *(2 + row % 7 for row in range(LONGEST_CHAIN - 1)))
    text, wrong = _tokens(model, *line)[: runner.context], _tokens(model, current, *guesses)
    runner.longest_chain = LONGEST_CHAIN
    try:
        for _ in runner.prefill(text[:read]):
            pass
        runner.forward(chain_block(wrong, read, wanted=(0,)))
        runner.commit((0,))
        chain = chain_block(text[read + 1 :], read + 1, tuple(range(len(text) - read - 1)))
        expected, tolerance = _logits(model, text)[read + 1 :], tolerance_of(model)
        is_chain_right = is_close(runner.forward(chain), expected, tolerance)
        return is_chain_right and is_close(_row_by_row(runner, text, read)[2:], expected, tolerance)
    except Exception as error:  # errors of any type, for example because the model's state cannot be copied
        if is_no_verdict(error):
            raise
        return False


def _tokens(model: PreTrainedModel, *tenths: int) -> list[int]:
    """Return the tokens at these tenths of the vocabulary. The first tokens of a vocabulary are not used, because
    they are often control tokens, after which rounding errors grow."""
    step = max(1, model.config.get_text_config(decoder=True).vocab_size // 10)
    return [step * tenth for tenth in tenths]


@torch.inference_mode()
def _logits(model: PreTrainedModel, text: list[int]) -> Tensor:
    """Compute logits [T, vocab] after every token of a text, in one pass of transformers' own code."""
    logits: Tensor = model(input_ids=torch.tensor([text], device=model.device), use_cache=False).logits[0]
    return logits


def trial_blocks(model: PreTrainedModel, counts: Iterable[int] = ROWS) -> list[Block]:
    """Make chains of these row counts after the prefix, except those that exceed the model's positions."""
    positions = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    most = (positions or len(_PREFIX) + max(ROWS)) - len(_PREFIX)
    lines = (_tokens(model, *(2 + row % 7 for row in range(rows))) for rows in counts if rows <= most)
    return [chain_block(line, len(_PREFIX), tuple(range(len(line)))) for line in lines]


def block_logits(model: PreTrainedModel, attend: Attend) -> Callable[[Block], Tensor]:
    """Read the prefix; return a function that computes the logits of a block's wanted rows after it."""
    cache = _read_prefix(model, attend)
    return lambda block: run_block(model, cache, block, attend)[0]


def _read_prefix(model: PreTrainedModel, attend: Attend) -> BlockCache:
    cache = block_cache(model.config)
    run_block(model, cache, chain_block(_tokens(model, *_PREFIX), 0, wanted=()), attend)
    cache.commit(range(len(_PREFIX)))
    return cache


def rows_that_differ(
    found: Callable[[Block], Tensor],
    expected: Callable[[Block], Tensor],
    blocks: Sequence[Block],
    tolerance: float = 0.0,
) -> int:
    """Return the row count of the first block whose logits are not close; 0 if all are close.

    If memory runs out in a block after the first, this block and the blocks after it are left out."""
    for block in blocks:
        try:
            agrees = is_close(found(block), expected(block), tolerance)
        except Exception as error:
            if block is not blocks[0] and is_out_of_memory(error):
                return 0
            raise
        if not agrees:
            return len(block)
    return 0


def compare_with_torch(
    ours: PreTrainedModel, attend: Attend, model: PreTrainedModel, rows: Iterable[int]
) -> None:
    """Compare the logits of `ours` with this attention to those of `model` with torch's, in a draft tree and in
    chains of these row counts. Raises ArithmeticError if they differ."""
    differing = rows_that_differ(
        block_logits(ours, attend),
        block_logits(model, sdpa.attend),
        [tree_block(model), *trial_blocks(model, rows)],
        tolerance_of(model),
    )
    if differing:
        raise ArithmeticError(f"steps of {differing} rows give different logits")


def tree_block(model: PreTrainedModel) -> Block:
    """Make the draft tree of _PATHS after the prefix."""
    read = len(_PREFIX)
    tokens = tuple(_tokens(model, *_PATHS[0], _PATHS[1][1]))
    # The root is not wanted, so that the number of logits shows whether the model computes only wanted rows.
    return Block(tokens, (read, read + 1, read + 2, read + 1), (-1, 0, 1, 0), wanted=(1, 2, 3))
