"""The controls of the decoder that runs while lookahead is on, and of its sizes."""

from dataclasses import dataclass

import gradio as gr

from app.ui.frame.option_controls import OptionValues
from app.ui.frame.page_events import LISTEN
from app.ui.settings.render import presets_html
from app.values.messages import MAX_ROWS

DECODERS = (
    ("Auto", "auto"),
    ("Lookahead with W, N, G", "lookahead"),
    ("Prompt lookup", "prompt-lookup"),
    ("Jacobi iteration", "jacobi"),
)


@dataclass(frozen=True, slots=True)
class DecoderControls:
    """The components."""

    decoder: gr.Dropdown
    rows: gr.Slider
    window: gr.Slider
    ngram: gr.Slider
    guesses: gr.Slider
    same_text: gr.Checkbox
    presets: gr.HTML
    cost: gr.HTML
    problem: gr.HTML
    advanced: gr.Accordion

    @property
    def controls(self) -> tuple[gr.components.Component, ...]:
        """The controls in the order of `OptionValues`, after those beside the chat."""
        return (self.decoder, self.rows, self.window, self.ngram, self.guesses, self.same_text)

    @property
    def sizes(self) -> list[gr.components.Component]:
        """What the cost depends on, in addition to the Lookahead switch."""
        return [self.decoder, self.rows, self.window, self.ngram, self.guesses]


def build_decoder_controls(now: OptionValues) -> DecoderControls:
    """Create the components inside the current Blocks."""
    with gr.Column(elem_id="decoding", elem_classes="part"):
        gr.HTML("<h3>Lookahead</h3><p class='hint'>The decoder while the switch beside the chat is on.</p>",
                js_on_load=None)  # fmt: skip
        decoder = gr.Dropdown(
            list(DECODERS), value=now.decoder, label="Decoder", show_label=False, container=False,
            elem_id="decoder", filterable=False,
        )  # fmt: skip
        cost = gr.HTML(elem_id="cost", js_on_load=None)
        same_text = gr.Checkbox(
            now.same_text, label="Same text with and without lookahead", elem_id="same-text", elem_classes="switch",
            info="Only matters in half precision, where results depend on the rows of a step. Costs some speed.",
        )  # fmt: skip
    with gr.Accordion("Advanced", open=now.decoder != "auto", elem_id="advanced") as advanced:
        problem = gr.HTML(elem_id="decoder-problem", elem_classes="problem-line", js_on_load=None)
        rows = _slider(0, MAX_ROWS, now.rows, "Rows per step", "0: chosen automatically at each step", "rows")
        window = _slider(
            0, 128, now.window, "W: window", "Columns of guesses; 0 turns the window off", "window"
        )
        ngram = _slider(2, 16, now.ngram, "N: n-gram", "Tokens per n-gram", "ngram")
        guesses = _slider(0, 128, now.guesses, "G: guesses", "N-grams verified per step", "guesses")
        presets = gr.HTML(presets_html(), elem_id="advised-sizes", js_on_load=LISTEN)
    return DecoderControls(decoder, rows, window, ngram, guesses, same_text, presets, cost, problem, advanced)


def _slider(least: int, most: int, value: int | None, label: str, info: str, name: str) -> gr.Slider:
    return gr.Slider(least, most, value, step=1, label=label, info=info, elem_id=name)
