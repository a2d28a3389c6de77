"""Lookahead decoding: pool, window, draft tree, layout, verification, and the decoder that joins them."""

from app.engine.lookahead.decoder import make_lookahead

__all__ = ["make_lookahead"]
