"""Which model is loaded, and how."""

from dataclasses import dataclass
from typing import get_args

import gradio as gr

from app.messages import AttentionChoice, Device, DType, ModelChoice
from app.quantisation import Quantisation


@dataclass(frozen=True, slots=True)
class ModelArea:
    """The model's components."""

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


def build_model_area(choice: ModelChoice) -> ModelArea:
    """Build the model's settings inside the current Blocks."""
    with gr.Column(elem_id="model", elem_classes="part"):
        gr.HTML("<h3>Model</h3>", js_on_load=None)
        name = gr.Textbox(
            choice.name,
            label="Name, folder or hub id",
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
    return ModelArea(name, dtype, device, quantisation, attention, load, problem)


def _choice(choices: tuple[str, ...], value: str, label: str, name: str) -> gr.Dropdown:
    return gr.Dropdown(list(choices), value=value, label=label, elem_id=name, min_width=100, filterable=False)
