"""Finds models on this machine and fetches them from the hub. Knows no torch: it deals in files alone."""

from app.models_registry.hub import Hub
from app.models_registry.locating import locate

__all__ = ["Hub", "locate"]
