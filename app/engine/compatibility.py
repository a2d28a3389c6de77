"""Which models can decode blocks. The others decode plainly, and a note says why.

What the config tells is asked first: a recurrent state cannot be taken back, and of sliding layers we must see the
window. Then the model is tried: a small tree goes through our attention and cache, and its paths through the model
as transformers runs it. Only equal logits earn lookahead, so a model with a positional bias, chunked layers or
attention code of its own is found out before it can write wrong text.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine import attention
from app.engine.attention import Attend
from app.engine.block import Block, chain_block
from app.engine.kv_cache import BlockCache, layer_windows
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.memory import is_out_of_memory
from app.engine.runner import SequentialRunner
from app.engine.steps import run_block
from app.errors import ModelBroken

_PREFIX = (3, 1, 4, 1, 5)
_PATHS = ((9, 2, 6), (9, 5))
"""Token ids of the trial: behind the prefix and the current token 9, the model is asked about 2 6 and 5."""

_NO_PLAIN_CACHE = (
    "This model keeps more than keys and values (it is recurrent, hybrid or reads in chunks), "
    "so it decodes plainly."
)

TOLERANCE = {torch.float32: 1e-2, torch.bfloat16: 0.15, torch.float16: 0.05}
"""How far a trial's logits may be apart, in standard deviations of all logits. Wrong ones differ by 1 and more."""


def lookahead_note(model: PreTrainedModel, attend: Attend) -> str:
    """Why this model decodes plainly; "" when it can decode blocks, and then its attention is set to ours."""
    windows = layer_windows(model.config.get_text_config(decoder=True))
    if not windows:
        return _NO_PLAIN_CACHE
    stock = model.config._attn_implementation
    try:
        # Written-out attention is the reference: transformers' default may leave a soft cap out (Gemma 2, 5.17).
        model.set_attn_implementation("eager")
        expected = _path_logits(model)
        model.set_attn_implementation(attention.NAME)
        note = _trial(model, expected, windows, attend)
    except (TypeError, ValueError, RuntimeError, LookupError, AttributeError) as error:
        if is_out_of_memory(error):
            raise
        note = f"This model has attention code of its own ({type(error).__name__}), so it decodes plainly."
    if note:
        model.set_attn_implementation(stock)
    return note


def check_sequential(runner: SequentialRunner, model: PreTrainedModel) -> None:
    """Feed a text whole, in chunks and row by row; raises ModelBroken where rows say something else.

    Where chunks do (Mamba, RecurrentGemma), the runner reads long prompts row by row."""
    text, read = [*_PREFIX, *_PATHS[0]], len(_PREFIX)
    expected = _logits(model, text)[read - 1 :]
    runner.feed(text[:read], 0)
    chunk = runner.feed(text[read:], read)
    rows = [runner.feed(text[:read], 0)]
    rows += [runner.feed(text[place : place + 1], place) for place in range(read, len(text))]
    runner.forget()
    if not is_close(torch.stack(rows), expected):
        raise ModelBroken(
            "This model cannot write text token by token: choose one that is made for chat or text."
        )
    if not is_close(chunk, expected[-1]):
        runner.chunk = 1


def _path_logits(model: PreTrainedModel) -> Tensor:
    """transformers' own logits behind each of the tree's drafts [nodes - 1, vocab], path by path."""
    return torch.cat([_logits(model, [*_PREFIX, *path])[len(_PREFIX) + 1 :] for path in _PATHS])


@torch.inference_mode()
def _logits(model: PreTrainedModel, text: list[int]) -> Tensor:
    """Logits [T, vocab] behind every token of a text, in one pass of transformers' own."""
    logits: Tensor = model(input_ids=torch.tensor([text], device=model.device), use_cache=False).logits[0]
    return logits


def _trial(model: PreTrainedModel, expected: Tensor, windows: list[int], attend: Attend) -> str:
    cache = BlockCache()
    run_block(model, cache, chain_block(_PREFIX, 0, wanted=()), attend)
    cache.commit(range(len(_PREFIX)))
    logits, view = run_block(model, cache, _tree_block(), attend)
    if not view.windows:
        return "This model has attention code of its own, so it decodes plainly."
    if view.windows != windows:
        return "This model's layers do not say how far they see, so it decodes plainly."
    if not is_close(logits, expected):
        return "This model's attention needs more than to know who sees whom, so it decodes plainly."
    return ""


def is_close(logits: Tensor, expected: Tensor) -> bool:
    """Whether logits agree up to rounding."""
    difference = (logits.float() - expected.float()).abs().max() / expected.float().std()
    return bool(difference < TOLERANCE[logits.dtype])


def _tree_block() -> Block:
    tree = DraftTree(_PATHS[0][0])
    for path in _PATHS:
        node = 0
        for token in path[1:]:
            node = tree.add(node, token, "prompt")
    positions = tuple(len(_PREFIX) + depth for depth in tree.depths)
    # The root is not asked about: a model that answers for every row is found out by the number of its answers.
    return Block(tuple(tree.tokens), positions, tree.visible(), wanted=tuple(range(1, len(tree))))
