"""A stream begins before its reply does if the reply has to wait."""

import asyncio
import json

import pytest
from fastapi.responses import StreamingResponse
from starlette.requests import Request as HttpRequest
from starlette.types import Message

from app.api import answers
from app.api.anthropic_messages import MessagesPlan
from app.api.chat_completions import ChatCompletionPlan, ChatPlan, ChatRequest, chat_plan
from app.api.errors import ApiError
from app.api.ollama import OllamaPlan
from app.engine import Engine
from tests.api.conftest import services_of

ASKED = {"messages": [{"role": "user", "content": "Say hello"}], "temperature": 0, "max_tokens": 4}


async def connected() -> Message:
    """A client that stays until its connection is closed."""
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("make", [ChatCompletionPlan, MessagesPlan, OllamaPlan])
def test_a_stream_that_waits_for_its_turn_has_headers_and_comments(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, make: type[ChatPlan]
) -> None:
    monkeypatch.setattr(answers, "PATIENCE", 0.01)
    monkeypatch.setattr(answers, "COMMENT_SECONDS", 0.01)

    async def frames(is_cancelled: bool) -> list[bytes]:
        services = services_of(engine)
        plan = await chat_plan(services, ChatRequest.model_validate(ASKED), make)
        http = HttpRequest({"type": "http"}, connected)
        await services.turns.acquire()
        answer = await plan.answer(services, http, is_stream=True)
        assert isinstance(answer, StreamingResponse)
        body = answer.body_iterator
        assert [await anext(body), await anext(body)] == [plan.comment] * 2
        if is_cancelled:
            await body.aclose()  # type: ignore[attr-defined]
        services.turns.release()
        if is_cancelled:  # it waits for its turn no longer
            async with services.turns:
                return []
        return [bytes(frame) async for frame in body if frame != plan.comment]  # type: ignore[arg-type]

    events = [frame for frame in asyncio.run(frames(False)) if b"[DONE]" not in frame]
    for event in events:
        json.loads(event.partition(b"data: ")[2] or event)
    assert len(events) > 2
    assert asyncio.run(frames(True)) == []


def test_a_request_whose_check_takes_long_is_refused_before_its_stream_begins(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PATIENCE", 0.0)
    form = {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}

    async def answered() -> None:
        services = services_of(engine)
        asked = ChatRequest.model_validate({**ASKED, "response_format": form})
        plan = await chat_plan(services, asked, ChatCompletionPlan)
        await plan.answer(services, HttpRequest({"type": "http"}, connected), is_stream=True)

    with pytest.raises(ApiError, match="not"):
        asyncio.run(answered())
