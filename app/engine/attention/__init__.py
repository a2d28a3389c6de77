"""Attention over the committed prefix and a block: one signature, several backends, one hook into transformers."""

from app.engine.attention.signature import (
    NAME,
    Attend,
    BlockView,
    LayerCache,
    Scoring,
    attend_layer,
    register,
)

__all__ = ["NAME", "Attend", "BlockView", "LayerCache", "Scoring", "attend_layer", "register"]
