"""Which models can decode blocks. The others decode plainly, and the person is told why.

What the config tells is asked first: a recurrent state cannot be taken back, and of sliding layers we must see the
window. Then the model is tried: a small tree goes through our attention and cache, and its paths through the model
as transformers runs it. Only equal logits earn lookahead, so a model with a positional bias, chunked layers or
attention code of its own is found out before it can write wrong text.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine import attention
from app.engine.block import Block, chain_block
from app.engine.kv_cache import BlockCache, layer_windows
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.runner import run_block

_PREFIX = (3, 1, 4, 1, 5)
_PATHS = ((9, 2, 6), (9, 5))
"""Token ids of the trial: behind the prefix and the current token 9, the model is asked about 2 6 and 5."""

TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.15, torch.float16: 0.05}
"""How far the trial's logits may be apart, in standard deviations of all logits."""


def lookahead_note(model: PreTrainedModel) -> str:
    """Why this model decodes plainly; "" when it can decode blocks, and then its attention is set to ours."""
    windows = layer_windows(model.config.get_text_config(decoder=True))
    if windows is None:
        return "This model carries a state that cannot be taken back, so it decodes plainly."
    stock = model.config._attn_implementation
    expected = _path_logits(model)
    try:
        model.set_attn_implementation(attention.NAME)
        note = _trial(model, expected, windows)
    except (TypeError, ValueError, RuntimeError, KeyError, IndexError, AttributeError) as error:
        note = f"This model has attention code of its own ({type(error).__name__}), so it decodes plainly."
    if note:
        model.set_attn_implementation(stock)
    return note


@torch.inference_mode()
def _path_logits(model: PreTrainedModel) -> Tensor:
    """What transformers says behind each of the tree's nodes [nodes, vocab], path by path."""
    first, second = (
        model(input_ids=torch.tensor([[*_PREFIX, *path]], device=model.device), use_cache=False).logits[0]
        for path in _PATHS
    )
    return torch.cat((first[len(_PREFIX) :], second[len(_PREFIX) + 1 :]))


def _trial(model: PreTrainedModel, expected: Tensor, windows: list[int]) -> str:
    cache = BlockCache()
    run_block(model, cache, chain_block(_PREFIX, 0, wanted=()))
    cache.commit(range(len(_PREFIX)))
    logits, view = run_block(model, cache, _tree_block())
    if view.windows != windows:
        return "This model's layers do not say how far they see, so it decodes plainly."
    difference = (logits.float() - expected.float()).abs().max() / expected.float().std()
    if not difference < TOLERANCE[logits.dtype]:
        return "This model's attention needs more than to know who sees whom, so it decodes plainly."
    return ""


def _tree_block() -> Block:
    tree = DraftTree(_PATHS[0][0])
    for path in _PATHS:
        node = 0
        for token in path[1:]:
            node = tree.add(node, token, "prompt")
    positions = tuple(len(_PREFIX) + depth for depth in tree.depths)
    return Block(tuple(tree.tokens), positions, tree.visible(), tuple(range(len(tree))))
