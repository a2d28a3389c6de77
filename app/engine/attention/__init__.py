"""Attention over the committed prefix and a block: one signature, several backends, one hook into transformers."""

from app.engine.attention.hook import NAME, attend_layer, register
from app.engine.attention.signature import Attend, BlockView, LayerCache, Scoring

__all__ = ["NAME", "Attend", "BlockView", "LayerCache", "Scoring", "attend_layer", "register"]
