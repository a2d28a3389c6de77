"""The boxes that choose the model and how it is loaded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import gradio as gr

from app.errors import AppError, BadOption, impossible_values
from app.messages import AttentionChoice, Device, DType, ModelChoice
from app.quantisation import Quantisation
from app.ui.templates import problem_html

AskOrLoad = Callable[[ModelChoice], str]
"""Loads a model. The result is a question that must be answered first, or nothing."""


@dataclass(frozen=True, slots=True)
class ModelControls:
    """The boxes, the button, and the line that says what is wrong."""

    name: gr.Textbox
    dtype: gr.Dropdown
    device: gr.Dropdown
    quantisation: gr.Dropdown
    attention: gr.Dropdown
    load: gr.Button
    problem: gr.HTML

    @property
    def inputs(self) -> list[gr.components.Component]:
        """The boxes, in the order of `ModelChoice`."""
        return [self.name, self.dtype, self.device, self.quantisation, self.attention]


def build_model_controls(choice: ModelChoice) -> ModelControls:
    """Build the controls inside the current Blocks."""
    with gr.Column(elem_id="model", elem_classes="part"):
        gr.HTML("<h3>Model</h3>", js_on_load=None)
        name = gr.Textbox(
            choice.name,
            label="Name, folder, GGUF file or hub id",
            placeholder="demo, a folder, or org/model",
            elem_id="model-name",
            max_lines=1,
        )
        with gr.Row(elem_classes="pair"):
            dtype = _choice(get_args(DType), choice.dtype, "Precision", "dtype")
            quantisation = _choice(get_args(Quantisation), choice.quantisation, "Weights", "quantisation")
        with gr.Row(elem_classes="pair"):
            device = _choice(get_args(Device), choice.device, "Device", "device")
            attention = _choice(get_args(AttentionChoice), choice.attention, "Attention", "attention")
        problem = gr.HTML(elem_id="model-problem", js_on_load=None)
        load = gr.Button("Load", elem_id="load", size="md")
    return ModelControls(name, dtype, device, quantisation, attention, load, problem)


def _choice(choices: tuple[str, ...], value: str, label: str, name: str) -> gr.Dropdown:
    return gr.Dropdown(list(choices), value=value, label=label, elem_id=name, min_width=100, filterable=False)


def to_model(name: str, *choices: Any) -> ModelChoice:
    """Return the model for the values of the boxes. Raises BadOption."""
    if not name.strip():
        raise BadOption(
            'The model box is empty: type "demo", a folder, a GGUF file, or a hub id such as org/model.'
        )
    with impossible_values():
        return ModelChoice(name.strip(), *choices)


def load_model(ask_or_load: AskOrLoad, name: str, *choices: str) -> tuple[str, str]:
    """Have the model loaded. The result is what is wrong with the choice, and the question to ask first."""
    try:
        return "", ask_or_load(to_model(name, *choices))
    except AppError as error:
        return problem_html(str(error)), ""
