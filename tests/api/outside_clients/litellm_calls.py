"""What programs do with LiteLLM: arguments are the address, the key and the model."""

import json
import sys

import litellm

url, key, model = sys.argv[1:]
litellm.suppress_debug_info = True
asked = {
    "model": f"openai/{model}",
    "api_base": url,
    "api_key": key,
    "messages": [{"role": "user", "content": "Describe Ada."}],
    "max_tokens": 100,
    "timeout": 120,
}
schema = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["age"],
    "additionalProperties": False,
}
tools = {"tools": [{"type": "function", "function": {"name": "people", "parameters": schema}}]}
forced = {**tools, "tool_choice": "required"}
form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


def rebuilt(**more: object) -> object:
    """A stream as LiteLLM joins it."""
    chunks = list(litellm.completion(**asked, **more, stream=True))
    return litellm.stream_chunk_builder(chunks, messages=asked["messages"]).choices[0].message


whole = litellm.completion(**asked, temperature=0).choices[0].message.content
assert whole and rebuilt(temperature=0).content == whole
for message in (litellm.completion(**asked, **forced).choices[0].message, rebuilt(**forced)):
    assert message.tool_calls[0].function.name == "people"
    assert json.loads(message.tool_calls[0].function.arguments)["age"] in range(1, 100)
answer = litellm.completion(**asked, response_format=form).choices[0].message.content
assert json.loads(answer)["age"] in range(1, 100)
for kind, more in (
    (litellm.AuthenticationError, {"api_key": "sk-other"}),
    (litellm.NotFoundError, {"model": "openai/none"}),
    (litellm.BadRequestError, {"messages": [{"role": "user", "content": "word " * 5000}]}),
):
    try:
        litellm.completion(**{**asked, **more})
    except kind:
        continue
    raise AssertionError(f"{kind} was not raised for {list(more)}")
