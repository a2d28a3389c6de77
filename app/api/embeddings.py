"""POST /v1/embeddings: runs the sentence-embedding model that also serves the search of documents."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field

from app.api.errors import CONTEXT_EXCEEDED, ApiError
from app.api.request_fields import Body, JsonRoute, Texts, each_text, refuse
from app.api.services import ApiServices, Services
from app.errors import BadOption

MOST_INPUTS = 2048
LONGEST_INPUT, MOST_IDS = 50_000, 12_500
"""Maximum characters or token ids of an input. They are limited because embedding makes replies wait."""


class EmbeddingsRequest(Body):
    input: Texts
    model: str | None = ""
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = Field(None, ge=1)


router = APIRouter(route_class=JsonRoute)


@router.post("/embeddings")
async def embed(services: Services, asked: EmbeddingsRequest) -> dict[str, Any]:
    """Embed the given texts as unit vectors."""
    vectors, name, tokens = await embedded(services, asked)
    numbers = vectors.astype("<f4")
    is_base64 = asked.encoding_format == "base64"
    rows = [base64.b64encode(row).decode() for row in numbers] if is_base64 else numbers.tolist()
    data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
    used = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": name, "usage": used}


async def embedded(services: ApiServices, asked: EmbeddingsRequest) -> tuple[np.ndarray, str, int]:
    """Return the vectors of the given texts, the model's name, and how many tokens were read. Raises ApiError."""
    folder = await asyncio.to_thread(services.embedder)
    if folder is None:
        raise ApiError(
            "There is no embedding model on this machine. Download it in Foresight, in the view Documents.",
            "model", 404, "model_not_found",
        )  # fmt: skip
    inputs, counts = _inputs(asked.input), list[int]()
    answer = services.engine.embed(folder, inputs, counts.append)
    try:
        vectors = await asyncio.wrap_future(answer)
    except BadOption as error:
        raise ApiError(str(error), "input") from error
    has_other_size = asked.dimensions not in (None, vectors.shape[1])
    refuse(has_other_size, "dimensions", f"the model's vectors always have {vectors.shape[1]}")
    return vectors, folder.name, sum(counts)


def _inputs(given: str | list[Any]) -> Sequence[str | tuple[int, ...]]:
    inputs = each_text(given, "input", MOST_INPUTS)
    for one in inputs:
        is_text = isinstance(one, str)
        if len(one) > (most := LONGEST_INPUT if is_text else MOST_IDS):
            what = "characters" if is_text else "tokens"
            raise ApiError(
                f"One text of input has {len(one):,} {what}: send at most {most:,} per text.", "input",
                code=CONTEXT_EXCEEDED,
            )  # fmt: skip
    return inputs
