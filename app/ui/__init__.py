"""The page: a Gradio app on 127.0.0.1. Importing this package is cheap; `serve` imports Gradio."""

from app.ui.frame.services import AppContext, Endpoint, Services
from app.ui.frame.undo import Deletions
from app.ui.frame.uploads import discard_all
from app.ui.serving import Running, prepare_environment, serve

__all__ = [
    "Services", "Deletions", "Endpoint", "Running", "AppContext", "discard_all", "prepare_environment", "serve",
]  # fmt: skip
