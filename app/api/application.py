"""The API as a web app: its routes, the access check before them, and a server for the API alone."""

import socket
from time import sleep
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from app.api import anthropic_messages, chat_completions, completions, embeddings, ollama, responses
from app.api.access import OPEN_PATH, AccessCheck
from app.api.api_key import ApiKey
from app.api.errors import add_error_handlers
from app.api.services import ApiServices, ServedModel, Services
from app.web.origin_check import OWN_NAMES, IsOwnName, Origins
from app.web.server_thread import ServerThread

PREFIX = "/v1"
ROUTES = (chat_completions, completions, embeddings, responses, anthropic_messages)
READ = ["GET", "HEAD"]
REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "The request was refused. The error has the format that this route's clients expect."
    }
}
router = APIRouter()


def build_api(
    services: ApiServices, key: ApiKey, is_own: IsOwnName = OWN_NAMES.__contains__, origins: Origins = tuple
) -> ASGIApp:
    """Build the API's app, which accepts clients with the key. The schema of its routes is at /v1/openapi.json."""
    app = FastAPI(title="Foresight", docs_url=None, redoc_url=None, openapi_url=f"{PREFIX}/openapi.json")
    app.state.services = services
    add_error_handlers(app)
    app.include_router(router, responses=REFUSALS)
    for module in ROUTES:
        app.include_router(module.router, prefix=PREFIX, responses=REFUSALS)
    app.include_router(ollama.router, prefix="/api", responses=REFUSALS)
    return AccessCheck(app, key, is_own, origins)


@router.api_route("/", methods=READ, include_in_schema=False)  # for Ollama's command line
@router.api_route(OPEN_PATH, methods=READ, include_in_schema=False)
def health() -> dict[str, str]:
    """Report that the server runs."""
    return {"status": "ok"}


@router.api_route(f"{PREFIX}/models", methods=READ)
@router.get(f"{PREFIX}/models/", include_in_schema=False)
def list_models(services: Services) -> dict[str, Any]:
    """List the models on this machine: the current model first, then the others and the embedding model."""
    found = [_described(services, model) for model in services.models()]
    if folder := services.embedder():
        found += [_model(folder.name)] if folder.name not in [one["id"] for one in found] else []
    return {"object": "list", "data": found}


@router.api_route(PREFIX + "/models/{name:path}", methods=READ)
def show_model(services: Services, name: str) -> dict[str, Any]:
    """Describe the model of this name."""
    folder = services.embedder()
    return _model(name) if folder and folder.name == name else _described(services, services.find(name))


def _described(services: ApiServices, model: ServedModel) -> dict[str, Any]:
    loaded = services.engine.status().model
    is_loaded = loaded is not None and model.id == services.current().id
    return _model(model.id) | ({"context_length": loaded.context} if loaded and is_loaded else {})


def _model(name: str) -> dict[str, Any]:
    # `created` is required to be a number, but a model's files do not record when it was made.
    return {"id": name, "object": "model", "created": 0, "owned_by": "foresight"}


class RunningApi(ServerThread):
    """The API at a listening socket, served without a page."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self.host, self.port = listener.getsockname()[:2]
        super().__init__(app, listener, ws="none", lifespan="off")

    @property
    def url(self) -> str:
        """The base URL for clients of the API."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"

    def wait(self) -> None:
        while self.is_alive:
            sleep(0.5)
