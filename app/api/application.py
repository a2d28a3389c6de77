"""The API as a web app: its routes, the access check before them, and a server for the API alone."""

import socket
from time import sleep
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from app.api.access import OPEN_PATH, AccessCheck
from app.api.anthropic_messages import messages_router
from app.api.api_key import ApiKey
from app.api.chat import chat_router
from app.api.completions import completions_router
from app.api.embeddings import embeddings_router
from app.api.errors import add_error_handlers
from app.api.ollama import ollama_router
from app.api.responses import responses_router
from app.api.services import ApiServices, ServedModel
from app.web.origin_check import OWN_NAMES, IsOwnName, Origins
from app.web.server_thread import ServerThread

PREFIX = "/v1"
REFUSALS: dict[int | str, dict[str, Any]] = {"4XX": {"description": "An error in the format of the route"}}


def build_api(
    services: ApiServices, key: ApiKey, is_own: IsOwnName = OWN_NAMES.__contains__, origins: Origins = tuple
) -> ASGIApp:
    """Build the API's app, which accepts clients with the key. The schema of its routes is at /v1/openapi.json."""
    app = FastAPI(title="Foresight", docs_url=None, redoc_url=None, openapi_url=f"{PREFIX}/openapi.json")
    add_error_handlers(app)
    routes = APIRouter(prefix=PREFIX, responses=REFUSALS)
    for make in ROUTERS:
        routes.include_router(make(services))
    app.include_router(routes)
    app.include_router(ollama_router(services), prefix="/api", responses=REFUSALS)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)  # for Ollama's command line
    @app.api_route(OPEN_PATH, methods=["GET", "HEAD"], include_in_schema=False)
    def health() -> dict[str, str]:
        """Report that the server runs."""
        return {"status": "ok"}

    return AccessCheck(app, key, is_own, origins)


def models_router(services: ApiServices) -> APIRouter:
    router = APIRouter()

    @router.api_route("/models", methods=["GET", "HEAD"])
    @router.get("/models/", include_in_schema=False)
    def list_models() -> dict[str, Any]:
        """List the models on this machine: the current model first, the embedding model last."""
        found = [_described(model) for model in services.models()]
        if folder := services.embedder():
            found += [_model(folder.name)] if folder.name not in [one["id"] for one in found] else []
        return {"object": "list", "data": found}

    @router.api_route("/models/{name:path}", methods=["GET", "HEAD"])
    def show_model(name: str) -> dict[str, Any]:
        """Describe the model of this name."""
        folder = services.embedder()
        return _model(name) if folder and folder.name == name else _described(services.find(name))

    def _described(model: ServedModel) -> dict[str, Any]:
        loaded = services.engine.status().model
        is_loaded = loaded is not None and model.id == services.current().id
        return _model(model.id) | ({"context_length": loaded.context} if loaded and is_loaded else {})

    return router


def _model(name: str) -> dict[str, Any]:
    # `created` is required to be a number, but a model's files do not record when it was made.
    return {"id": name, "object": "model", "created": 0, "owned_by": "foresight"}


ROUTERS = (
    models_router, chat_router, completions_router, embeddings_router, responses_router, messages_router,
)  # fmt: skip


class RunningApi:
    """The API at a listening socket, served without a page."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self.host, self.port = listener.getsockname()[:2]
        self._server = ServerThread(app, listener, ws="none", lifespan="off")

    @property
    def url(self) -> str:
        """The base URL for clients of the API."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"

    @property
    def is_serving(self) -> bool:
        return self._server.is_alive

    def wait(self) -> None:
        """Return when the server has ended; a KeyboardInterrupt passes through."""
        while self.is_serving:
            sleep(0.5)

    def close(self) -> None:
        """Stop the server. It is safe to call this twice."""
        self._server.close()
