"""The API as a web app: its routes below /v1, behind the gate."""

from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from app.api.chat import chat_router
from app.api.completions import completions_router
from app.api.embeddings import embeddings_router
from app.api.errors import add_error_handlers
from app.api.gate import Gate
from app.api.key import ApiKey
from app.api.models import models_router
from app.api.responses import responses_router
from app.api.services import ApiServices
from app.web.request_check import OWN_NAMES, IsOwnName

PREFIX = "/v1"
REFUSALS: dict[int | str, dict[str, Any]] = {"4XX": {"description": "An error in OpenAI's form"}}


def build_api(services: ApiServices, key: ApiKey, is_own: IsOwnName = OWN_NAMES.__contains__) -> ASGIApp:
    """The app, for clients with the key."""
    return Gate(build_routes(services), key, is_own)


def build_routes(services: ApiServices) -> FastAPI:
    """The routes alone; their schema is at /v1/openapi.json."""
    app = FastAPI(title="Foresight", docs_url=None, redoc_url=None, openapi_url=f"{PREFIX}/openapi.json")
    add_error_handlers(app)
    routes = APIRouter(prefix=PREFIX, responses=REFUSALS)
    for make in (models_router, chat_router, completions_router, embeddings_router, responses_router):
        routes.include_router(make(services))
    app.include_router(routes)
    return app
