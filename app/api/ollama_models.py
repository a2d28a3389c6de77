"""Ollama's routes about models: /api/version, tags, ps and show."""

from datetime import UTC, datetime
from hashlib import sha256

from fastapi import APIRouter

from app.api.answers import Json
from app.api.request_fields import Body, JsonRoute
from app.api.services import ApiServices, ServedModel

VERSION = "0.13.0"
"""The version of Ollama whose routes these are: programs refuse to talk to much older ones."""


class ModelName(Body):
    model: str = ""
    name: str = ""

    @property
    def id(self) -> str:
        """The model's id. Programs add a tag to it, which no model has here."""
        return (self.model or self.name).removesuffix(":latest")


def ollama_models_router(services: ApiServices) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.get("/version")
    def version() -> Json:
        """Return the version of Ollama that these routes follow."""
        return {"version": VERSION}

    @router.get("/tags")
    def tags() -> Json:
        """List the models on this machine."""
        return {"models": [_described(services, model) for model in services.models()]}

    @router.get("/ps")
    def loaded() -> Json:
        """List the loaded model, if there is one."""
        is_loaded = services.engine.status().model is not None
        return {"models": [_described(services, services.current())] if is_loaded else []}

    @router.post("/show")
    async def show(asked: ModelName) -> Json:
        """Describe a model and what it can do."""
        model = await services.chosen(asked.id)
        thinks = len((await services.chat_format(model)).modes) > 1
        described = _described(services, model)
        family, info = described["details"]["family"], services.engine.status().model
        context = {f"{family}.context_length": info.context} if info and family else {}
        return {
            **described,
            "modelfile": f"FROM {model.id}",
            "parameters": "",
            "template": services.template(model.choice),
            "model_info": {"general.architecture": family, **context},
            "capabilities": ["completion", "tools", *(["thinking"] if thinks else [])],
        }

    return router


def _described(services: ApiServices, model: ServedModel) -> Json:
    """Describe a model; only of the loaded one more than its name is known."""
    info = services.engine.status().model if model.id == services.current().id else None
    family = info.architecture if info else ""
    details = {
        "parent_model": "",
        "format": "safetensors",
        "family": family,
        "families": [family] if family else [],
        "parameter_size": f"{info.parameters / 1e9:.1f}B" if info else "",
        "quantization_level": (info.weights or info.dtype) if info else "",
    }
    digest = sha256(model.id.encode()).hexdigest()
    when = datetime.fromtimestamp(0, UTC).isoformat()
    return {
        "name": model.id,
        "model": model.id,
        "modified_at": when,
        "size": 0,
        "digest": digest,
        "details": details,
    }
