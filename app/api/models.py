"""GET /v1/models."""

from typing import Any

from fastapi import APIRouter

from app.api.services import ApiServices, ServedModel


def models_router(services: ApiServices) -> APIRouter:
    """The routes."""
    router = APIRouter()

    @router.get("/models")
    def list_models() -> dict[str, Any]:
        """The models on this machine, the current one first, and the embedding model."""
        found = [_described(model) for model in services.models()]
        if folder := services.embedder():
            found += [_model(folder.name)] if folder.name not in [one["id"] for one in found] else []
        return {"object": "list", "data": found}

    @router.get("/models/{name:path}")
    def show_model(name: str) -> dict[str, Any]:
        """One of them."""
        folder = services.embedder()
        return _model(name) if folder and folder.name == name else _described(services.find(name))

    def _described(model: ServedModel) -> dict[str, Any]:
        loaded = services.engine.status().model
        is_loaded = loaded is not None and model.id == services.current().id
        return _model(model.id) | ({"context_length": loaded.context} if loaded and is_loaded else {})

    return router


def _model(name: str) -> dict[str, Any]:
    # No model on a disk knows when it was made: OpenAI's clients want a number.
    return {"id": name, "object": "model", "created": 0, "owned_by": "foresight"}
