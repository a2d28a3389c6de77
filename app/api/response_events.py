"""A response and the events that tell of it: created, an item, its text or arguments, completed.

response.created  response.in_progress
response.output_item.added  response.content_part.added  response.output_text.delta …
response.output_text.done  response.content_part.done  response.output_item.done
response.completed | response.incomplete | response.failed
"""

import secrets
from collections.abc import Iterator
from time import time
from typing import Any

from app.api.engine_reply import EngineReply
from app.api.event_stream import frame
from app.api.tool_calls import ArgumentsDelta, CallDelta, Delta, TextDelta
from app.api.usage import foresight_block, usage
from app.values.messages import Request


class ResponseEvents:
    """Builds the response while it is written, and the frame of each event."""

    def __init__(self, echoed: dict[str, Any]) -> None:
        """`echoed` is what the response repeats of its request."""
        self.response: dict[str, Any] = {
            "id": f"resp_{secrets.token_hex(16)}",
            "object": "response",
            "created_at": int(time()),
            "completed_at": None,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "output": [],
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "truncation": "disabled",
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "top_logprobs": 0,
            "max_tool_calls": None,
            "prompt_cache_key": None,
            "safety_identifier": None,
            "user": None,
            "usage": None,
            **echoed,
        }
        self._number = 0
        self._is_open = False

    def begin(self) -> Iterator[bytes]:
        """The first events."""
        yield self._event("response.created", response=self.response)
        yield self._event("response.in_progress", response=self.response)

    def add(self, delta: Delta) -> Iterator[bytes]:
        """The events of a delta."""
        match delta:
            case TextDelta(text):
                if not self._is_writing("message"):
                    yield from self._open_message()
                self._newest["content"][0]["text"] += text
                yield self._of_part("response.output_text.delta", delta=text, logprobs=[])
            case CallDelta(_, call, name):
                yield from self._close("completed")
                yield from self._open(
                    {
                        "id": f"fc_{call}",
                        "type": "function_call",
                        "call_id": call,
                        "name": name,
                        "arguments": "",
                    }
                )
            case ArgumentsDelta(_, text):
                self._newest["arguments"] += text
                yield self._of_item("response.function_call_arguments.delta", delta=text)

    def end(self, reply: EngineReply, request: Request) -> Iterator[bytes]:
        """The last events."""
        is_cut = reply.finish_reason == "length"
        if not self.response["output"]:
            yield from self._open_message()
        yield from self._close("incomplete" if is_cut else "completed")
        status = "incomplete" if is_cut else "completed"
        details = {"reason": "max_output_tokens"} if is_cut else None
        self.response |= {
            "status": status,
            "incomplete_details": details,
            "completed_at": None if is_cut else int(time()),
            "usage": _usage(reply),
            "foresight": foresight_block(reply, request),
        }
        yield self._event(f"response.{status}", response=self.response)

    def fail(self, sentence: str) -> bytes:
        """The last event where the engine failed."""
        self.response |= {"status": "failed", "error": {"code": "server_error", "message": sentence}}
        return self._event("response.failed", response=self.response)

    @property
    def _newest(self) -> dict[str, Any]:
        newest: dict[str, Any] = self.response["output"][-1]
        return newest

    def _is_writing(self, kind: str) -> bool:
        return self._is_open and self._newest["type"] == kind

    def _open_message(self) -> Iterator[bytes]:
        yield from self._close("completed")
        item = {"id": f"msg_{secrets.token_hex(16)}", "type": "message", "role": "assistant", "content": []}
        yield from self._open(item)
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._newest["content"].append(part)
        yield self._of_part("response.content_part.added", part=part)

    def _open(self, item: dict[str, Any]) -> Iterator[bytes]:
        self.response["output"].append({**item, "status": "in_progress"})
        self._is_open = True
        yield self._of_place("response.output_item.added", item=self._newest)

    def _close(self, status: str) -> Iterator[bytes]:
        """End the item that is being written, if there is one."""
        if not self._is_open:
            return
        self._is_open = False
        item = self._newest
        if item["type"] == "message":
            part = item["content"][0]
            yield self._of_part("response.output_text.done", text=part["text"], logprobs=[])
            yield self._of_part("response.content_part.done", part=part)
        else:
            yield self._of_item(
                "response.function_call_arguments.done", arguments=item["arguments"], name=item["name"]
            )
        item["status"] = status
        yield self._of_place("response.output_item.done", item=item)

    def _of_part(self, kind: str, **values: Any) -> bytes:
        return self._of_item(kind, content_index=0, **values)

    def _of_item(self, kind: str, **values: Any) -> bytes:
        return self._of_place(kind, item_id=self._newest["id"], **values)

    def _of_place(self, kind: str, **values: Any) -> bytes:
        return self._event(kind, output_index=len(self.response["output"]) - 1, **values)

    def _event(self, kind: str, **values: Any) -> bytes:
        body = {"type": kind, "sequence_number": self._number, **values}
        self._number += 1
        return frame(body, kind)


def _usage(reply: EngineReply) -> dict[str, Any]:
    """As responses name it."""
    numbers = usage([reply])
    cached = numbers["prompt_tokens_details"]["cached_tokens"]
    details = {"cached_tokens": cached, "cache_write_tokens": 0}
    return {
        "input_tokens": numbers["prompt_tokens"],
        "input_tokens_details": details,
        "output_tokens": numbers["completion_tokens"],
        "output_tokens_details": {
            "reasoning_tokens": 0,
            **{
                name: numbers["completion_tokens_details"][name]
                for name in ("accepted_prediction_tokens", "rejected_prediction_tokens")
            },
        },
        "total_tokens": numbers["total_tokens"],
    }
