"""The engine: one worker thread that owns the model. Importing this does not import torch."""

from app.engine.session.worker import Engine

__all__ = ["Engine"]
