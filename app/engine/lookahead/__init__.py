"""Lookahead decoding: pool, window, draft tree, layout, verification, the decoder that joins them, the tuner."""

from app.engine.lookahead.decoder import lookahead
from app.engine.lookahead.experience import Experience
from app.engine.lookahead.factory import make_lookahead

__all__ = ["Experience", "lookahead", "make_lookahead"]
