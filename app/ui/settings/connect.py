"""Connect, in the Settings view: serves the API to other programs, and shows how they are set up."""

import json

import gradio as gr

from app.api.access import ApiSwitch
from app.ui.frame.event_handlers import LISTEN, Actions, Notify, PageEvents, toast, try_at_box
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.services import Endpoint, Services
from app.ui.frame.templates import render_macro
from app.web.origin_check import checked_origins

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
    "Add this to extra-openai-models.yaml, in the folder of the file that “llm logs path” names. "
    "Then run “llm keys set foresight”, enter the key, and run “llm -m foresight Hello”."
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
    "Enter the address and the key above under Admin Settings, Connections, OpenAI API. "
    "If Open WebUI runs in a container, start the container with --network=host, so that it reaches this address."
)


def client_examples(address: str, key: str, model: str, context: int) -> list[tuple[str, str, str]]:
    """Return each example as (program, instructions, text to copy). `context` is the model's, in tokens."""
    # The model is written as a string that is valid in Python, YAML and JSON.
    values = {"address": address, "key": key, "model": json.dumps(model), "context": context}
    return [
        ("curl", "Run this in a terminal.", CURL.format(**values)),
        ("openai-python", "Run “pip install openai” first.", OPENAI.format(**values)),
        ("llm", LLM_HINT, LLM.format(**values)),
        ("Continue", "Add this to ~/.continue/config.yaml.", CONTINUE.format(**values)),
        ("Zed", "Add this to settings.json; enter the key in the agent panel.", ZED.format(**values)),
        ("Open WebUI", OPEN_WEBUI_HINT, ""),
    ]


USUAL_CONTEXT = 2048
"""The context length in tokens that examples contain while no model is loaded."""


class ConnectActions(Actions):
    def __init__(
        self, services: Services, api: ApiSwitch, endpoint: Endpoint, notify: Notify = toast
    ) -> None:
        super().__init__(services, notify)
        self._api = api
        self._endpoint = endpoint

    def open(self) -> tuple[bool, str]:
        """Return the switch's value and the instructions for programs."""
        return self._api.is_on, self._shown()

    def turn(self, is_on: bool) -> tuple[bool, str]:
        """Turn the API on or off, and save the choice."""
        self._succeeded(lambda: self._api.turn(is_on))
        self._succeeded(lambda: self._services.choose(has_api=self._api.is_on))
        return self.open()

    def allow(self, origins: str) -> tuple[str, str]:
        """Save the origins of web apps that may use the API. Returns the box's text, and what is wrong with it."""
        save = self._services.choose
        is_saved, faults = try_at_box("api-origins", lambda: save(api_origins=checked_origins(origins)))
        return " ".join(self._services.settings.api_origins) if is_saved else origins, faults

    def click(self, event: gr.EventData) -> str:
        """Handle a button; `renew-key` replaces the key. Returns the instructions for programs."""
        is_new = pressed(event).do == "renew-key" and self._succeeded(self._api.key.renew)
        return self._shown(is_new)

    def _shown(self, is_new: bool = False) -> str:
        """Return the address, the key, and examples for programs; "" if the API is off or has no readable key."""
        key = self._try(self._api.key.read) if self._api.is_on else None
        if key is None:
            return ""
        loaded = self._services.engine.status().model
        context = loaded.context if loaded and loaded.context else USUAL_CONTEXT
        address = f"{self._endpoint.origin}/v1"
        examples = client_examples(address, key, self._services.settings.local_model.name, context)
        return render_macro(
            "connect.html", "connection", address=address, key=key, examples=examples, is_new=is_new
        )


def build_connect(
    services: Services, api: ApiSwitch, endpoint: Endpoint, opening: gr.Button, events: PageEvents
) -> gr.Textbox:
    """Build the section inside the current Blocks and connect its events; `opening` leads to the view. Returns the
    box of the web apps' origins."""
    actions = ConnectActions(services, api, endpoint)
    with gr.Column(elem_classes="part"):
        gr.HTML("<h3>Connect</h3>", js_on_load=None)
        switch = gr.Checkbox(
            services.settings.has_api, label="Serve other programs", elem_id="serve-api", elem_classes="switch",
            info="Editors and scripts can use the model through OpenAI's, Anthropic's or Ollama's API, with a key.",
        )  # fmt: skip
        origins = gr.Textbox(
            " ".join(services.settings.api_origins), label="Web apps that may also use the API", max_lines=1,
            info="Enter their origins, such as http://localhost:3000 or app://obsidian.md. They also need the key.",
            elem_id="api-origins",
        )  # fmt: skip
        allow = gr.Button("Allow", elem_id="allow-origins", size="sm")
    connection = gr.HTML(elem_id="connection-details", js_on_load=LISTEN)
    events.on(switch.input, actions.turn, switch, [switch, connection])
    for submitted in (allow.click, origins.submit):
        events.on(submitted, actions.allow, origins, [origins, events.faults])
    events.on(connection.click, actions.click, outputs=connection)
    events.on(opening.click, actions.open, outputs=[switch, connection])
    return origins
