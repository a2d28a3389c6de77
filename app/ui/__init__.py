"""The window: a Gradio page on 127.0.0.1. Importing this package is cheap; `serve` imports Gradio."""

from app.ui.about.surroundings import Door, Surroundings
from app.ui.services import Engine, Services
from app.ui.serving import Running, prepare_environment, serve
from app.ui.uploads import discard_all

__all__ = [
    "Services",
    "Door",
    "Engine",
    "Running",
    "Surroundings",
    "discard_all",
    "prepare_environment",
    "serve",
]
