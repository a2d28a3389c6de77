"""What is chosen from reply to reply, beside the chat: the first half of `OptionControls`."""

from dataclasses import dataclass

import gradio as gr

from app.messages import Options
from app.ui.controls import OptionControls, show_options


@dataclass(frozen=True, slots=True)
class SettingsArea:
    """The option controls that stand beside the chat, and the line under them that says what is wrong."""

    controls: tuple[gr.components.Component, ...]
    seed: gr.Number
    problem: gr.HTML


def build_settings_area(options: Options) -> SettingsArea:
    """Build the settings inside the current Blocks."""
    now = show_options(options)
    with gr.Column(elem_id="drawer"):
        lookahead = _switch(now.lookahead, "Lookahead", "Takes effect on the next reply", "lookahead")
        temperature = gr.Slider(
            0, 2, now.temperature, step=0.05, label="Temperature", info="0 always takes the likeliest token",
            elem_id="temperature",
        )  # fmt: skip
        with gr.Row(elem_classes="pair"):
            max_new_tokens = _whole(now.max_new_tokens, "Max tokens", "max-tokens")
            seed = _whole(now.seed, "Seed", "seed")
        problem = gr.HTML(elem_id="problem", js_on_load=None)
        sampling = _sampling(now)
    return SettingsArea((lookahead, temperature, max_new_tokens, seed, *sampling), seed, problem)


def _sampling(now: OptionControls) -> tuple[gr.components.Component, ...]:
    with gr.Accordion("Sampling", open=False):
        with gr.Row(elem_classes="pair"):
            top_k = _whole(now.top_k, "Top-k (0: off)", "top-k")
            top_p = _fraction(now.top_p, "Top-p (1: off)", "top-p")
        with gr.Row(elem_classes="pair"):
            min_p = _fraction(now.min_p, "Min-p (0: off)", "min-p")
            penalty = _fraction(now.repetition_penalty, "Repetition penalty", "repetition-penalty")
    return top_k, top_p, min_p, penalty


def _switch(value: bool, label: str, info: str, name: str) -> gr.Checkbox:
    return gr.Checkbox(value, label=label, info=info, elem_id=name, elem_classes="switch")


def _whole(value: int | None, label: str, name: str) -> gr.Number:
    return gr.Number(value, precision=0, label=label, elem_id=name, min_width=70)


def _fraction(value: float | None, label: str, name: str) -> gr.Number:
    return gr.Number(value, step=0.05, label=label, elem_id=name, min_width=70)
