"""What is written to one choice: deltas as they come, and the whole of them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from app.api.engine_reply import EngineReply
from app.api.tool_calls import ArgumentsDelta, CallDelta, Delta, ReplyParser, TextDelta
from app.values.logits import LikelyToken, TokenLogprobs


@dataclass(slots=True)
class WrittenCall:
    """A call of a tool."""

    id: str
    name: str
    arguments: str = ""

    @property
    def body(self) -> dict[str, Any]:
        """As a chat completion has it."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


@dataclass(slots=True)
class Written:
    """Everything so far."""

    text: str = ""
    calls: list[WrittenCall] = field(default_factory=list)

    def add(self, delta: Delta) -> None:
        """Take the next delta."""
        match delta:
            case TextDelta(text):
                self.text += text
            case CallDelta(_, call, name):
                self.calls.append(WrittenCall(call, name))
            case ArgumentsDelta(place, text):
                self.calls[place].arguments += text

    def finish_reason(self, reply: EngineReply) -> str:
        """Why it ended, as OpenAI names it."""
        return "tool_calls" if self.calls and reply.finish_reason == "stop" else reply.finish_reason


async def deltas(
    reply: EngineReply, parser: ReplyParser, written: Written
) -> AsyncIterator[tuple[Delta, tuple[TokenLogprobs, ...]]]:
    """The reply's deltas, each with the log probabilities since the one before; `written` takes them."""
    waiting: tuple[TokenLogprobs, ...] = ()
    async for text, logprobs in reply.texts():
        waiting += logprobs
        for delta in parser.push(text):
            written.add(delta)
            yield delta, waiting
            waiting = ()
    rest = parser.flush(reply.finish_reason == "length") or ([TextDelta("")] if waiting else [])
    for delta in rest:
        written.add(delta)
        yield delta, waiting
        waiting = ()


def chat_logprobs(tokens: tuple[TokenLogprobs, ...] | list[TokenLogprobs]) -> dict[str, Any]:
    """As chat completions have them."""
    return {"content": [_token(one) for one in tokens], "refusal": None}


def _token(one: TokenLogprobs) -> dict[str, Any]:
    return {**_likely(one.chosen), "top_logprobs": [_likely(other) for other in one.likeliest]}


def _likely(one: LikelyToken) -> dict[str, Any]:
    is_half = "\N{REPLACEMENT CHARACTER}" in one.text
    shown = None if is_half else list(one.text.encode(errors="replace"))
    return {"token": one.text, "logprob": max(one.logprob, -9999.0), "bytes": shown}
