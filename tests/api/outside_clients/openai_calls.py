"""What programs do with openai-python: arguments are the address, the key and the model."""

import asyncio
import sys
from typing import Literal

import openai
from pydantic import BaseModel, Field

url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)
messages = [{"role": "user", "content": "Describe Ada."}]


class Person(BaseModel):
    """A form of answers."""

    name: str = Field(max_length=12)
    kind: Literal["a", "b"]
    tags: list[Literal["x", "y"]] = Field(max_length=2)


class Weather(BaseModel):
    """A tool's arguments."""

    city: str = Field(max_length=10)
    unit: Literal["C", "F"]


tool = openai.pydantic_function_tool(Weather)
flat = {"type": "function", "name": "Weather", "parameters": Weather.model_json_schema(), "strict": True}

# Chat completions: parsed, streamed by the client's own accumulator, called and answered.
chats = client.chat.completions
parsed = chats.parse(model=model, messages=messages, max_tokens=200, response_format=Person)
assert isinstance(parsed.choices[0].message.parsed, Person)
called = chats.parse(model=model, messages=messages, max_tokens=200, tools=[tool], tool_choice="required")
answer = called.choices[0].message
assert isinstance(answer.tool_calls[0].function.parsed_arguments, Weather)
result = {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "20 degrees"}
assert chats.create(model=model, messages=[*messages, answer, result], tools=[tool], max_tokens=8).usage
with chats.stream(model=model, messages=messages, max_tokens=200, response_format=Person) as stream:
    kinds = {event.type for event in stream}
    assert isinstance(stream.get_final_completion().choices[0].message.parsed, Person)
assert {"chunk", "content.delta", "content.done"} <= kinds, kinds
named = {"type": "function", "function": {"name": "Weather"}}
with chats.stream(
    model=model, messages=messages, max_tokens=200, tools=[tool], tool_choice=named, logprobs=True
) as stream:
    kinds = {event.type for event in stream}
    call = stream.get_final_completion().choices[0].message.tool_calls[0]
assert isinstance(call.function.parsed_arguments, Weather)
assert "tool_calls.function.arguments.done" in kinds, kinds

# Responses.
parsed = client.responses.parse(model=model, input="Hi", text_format=Person, max_output_tokens=200)
assert isinstance(parsed.output_parsed, Person)
called = client.responses.create(
    model=model, input="Hi", tools=[flat], tool_choice="required", max_output_tokens=200
)
call = called.output[0]
Weather.model_validate_json(call.arguments)
items = [
    {"role": "user", "content": "Hi"},
    call,
    {"type": "function_call_output", "call_id": call.call_id, "output": "ok"},
]
assert client.responses.create(model=model, input=items, tools=[flat], max_output_tokens=8).usage
with client.responses.stream(model=model, input="Hi", max_output_tokens=64, temperature=0) as stream:
    kinds = [event.type for event in stream]
    assert stream.get_final_response().output_text
assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds


async def asked_at_once() -> set[str]:
    """What eight clients get."""
    async with openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=120) as several:
        asked = [
            several.chat.completions.create(model=model, messages=messages, max_tokens=6, temperature=0)
            for _ in range(8)
        ]
        return {one.choices[0].message.content for one in await asyncio.gather(*asked)}


assert len(asyncio.run(asked_at_once())) == 1
