"""What programs do with the packages ollama and anthropic: arguments are the address, the key and the model."""

import sys

import anthropic
import ollama

url, key, model = sys.argv[1:]
url = url.removesuffix("/v1")
ASKED = [{"role": "user", "content": "Say hello"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 4}}, "required": ["city"]}

client = ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"})
options = {"num_predict": 12, "temperature": 0}
assert client.list().models[0].model == model
assert client.show(model).capabilities
whole = client.chat(model, ASKED, options=options)
parts = client.chat(model, ASKED, options=options, stream=True)
assert "".join(part.message.content for part in parts) == whole.message.content
assert client.generate(model, "Say hello", options=options).response == whole.message.content
try:
    client.chat("nothing", ASKED)
except ollama.ResponseError as error:
    assert error.status_code == 404
else:
    raise AssertionError

messages = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0).messages
asked = {"model": model, "max_tokens": 12, "messages": ASKED, "extra_body": {"temperature": 0}}
answer = messages.create(**asked)
with messages.stream(**asked) as stream:
    assert "".join(stream.text_stream) == answer.content[0].text
    assert stream.get_final_message().stop_reason == answer.stop_reason
tools = [{"name": "weather", "input_schema": SCHEMA}]
with messages.stream(**asked | {"tools": tools, "tool_choice": {"type": "any"}, "max_tokens": 90}) as stream:
    [call] = stream.get_final_message().content
assert call.type == "tool_use" and set(call.input) == {"city"}
result = {"type": "tool_result", "tool_use_id": call.id, "content": "21"}
turns = [*ASKED, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
assert messages.create(**asked | {"messages": turns, "tools": tools}).usage.output_tokens
assert messages.count_tokens(model=model, messages=turns, tools=tools).input_tokens > 20
try:
    messages.create(**asked | {"model": "nothing"})
except anthropic.NotFoundError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
