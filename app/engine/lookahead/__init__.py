"""Lookahead decoding: pool, window, draft tree, verification, the tuner, and the decoder that joins them."""

from app.engine.lookahead.decoder import lookahead, make_lookahead
from app.engine.lookahead.model_statistics import ModelStatistics

__all__ = ["ModelStatistics", "lookahead", "make_lookahead"]
