"""How programs are set up to use the API: one example for each, as in docs/api.md."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Connection:
    """What a program needs to know: the address, the key, and the model with its context in tokens."""

    address: str
    key: str
    model: str
    context: int


@dataclass(frozen=True, slots=True)
class Example:
    """An example for a program: where it goes, and its text, if there is one."""

    program: str
    hint: str
    text: str = ""


CURL = """\
curl {address}/chat/completions -H "Authorization: Bearer {key}" \\
  -H "Content-Type: application/json" -d '{{"messages": [{{"role": "user", "content": "Hello"}}]}}'"""
OPENAI = """\
from openai import OpenAI

client = OpenAI(base_url="{address}", api_key="{key}")
answer = client.chat.completions.create(model={model}, messages=[{{"role": "user", "content": "Hello"}}])
print(answer.choices[0].message.content, answer.usage.completion_tokens_details.accepted_prediction_tokens)"""
LLM = """\
- model_id: foresight
  model_name: {model}
  api_base: {address}
  api_key_name: foresight"""
LLM_HINT = (
    "In extra-openai-models.yaml, beside the file that “llm logs path” names. "
    "Then “llm keys set foresight” with the key, and “llm -m foresight Hello”."
)
CONTINUE = """\
models:
  - name: Foresight
    provider: openai
    model: {model}
    apiBase: {address}
    apiKey: {key}"""
ZED = """\
"language_models": {{"openai_compatible": {{"Foresight": {{
  "api_url": "{address}",
  "available_models": [{{"name": {model}, "max_tokens": {context}}}]
}}}}}}"""
OPEN_WEBUI_HINT = (
    "Under Admin Settings, Connections, OpenAI API: the address and the key above. A container can't reach this "
    "computer's own address: run it with --network=host."
)


def client_examples(connection: Connection) -> list[Example]:
    """The examples with this address, key and model."""
    values = {
        "address": connection.address,
        "key": connection.key,
        "model": json.dumps(connection.model),  # a string of Python, YAML and JSON
        "context": connection.context,
    }
    return [
        Example("curl", "In a terminal.", CURL.format(**values)),
        Example("openai-python", "After “pip install openai”.", OPENAI.format(**values)),
        Example("llm", LLM_HINT, LLM.format(**values)),
        Example("Continue", "In ~/.continue/config.yaml.", CONTINUE.format(**values)),
        Example(
            "Zed", "In settings.json. The key goes into the agent panel's settings.", ZED.format(**values)
        ),
        Example("Open WebUI", OPEN_WEBUI_HINT),
    ]
