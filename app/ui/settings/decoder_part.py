"""Which decoder runs while lookahead is on, and how wide: the second half of `OptionValues`."""

from dataclasses import dataclass

import gradio as gr

from app.messages import MAX_ROWS, PRESETS
from app.ui.option_controls import OptionValues
from app.ui.page_events import LISTEN

DECODERS = (
    ("Auto: rows as they pay", "auto"),
    ("Lookahead with W, N, G", "lookahead"),
    ("Prompt lookup", "prompt-lookup"),
    ("Jacobi iteration", "jacobi"),
)


@dataclass(frozen=True, slots=True)
class DecoderPart:
    """The decoder's components."""

    decoder: gr.Dropdown
    rows: gr.Slider
    window: gr.Slider
    ngram: gr.Slider
    guesses: gr.Slider
    same_text: gr.Checkbox
    presets: gr.HTML
    cost: gr.HTML

    @property
    def controls(self) -> tuple[gr.components.Component, ...]:
        """The controls in the order of `OptionValues`, behind those of the drawer."""
        return (self.decoder, self.rows, self.window, self.ngram, self.guesses, self.same_text)

    @property
    def sizes(self) -> list[gr.components.Component]:
        """What the cost depends on, beside the switch in the drawer."""
        return [self.decoder, self.rows, self.window, self.ngram, self.guesses]


def build_decoder_part(now: OptionValues) -> DecoderPart:
    """Build the part inside the current Blocks."""
    with gr.Column(elem_id="decoding", elem_classes="part"):
        gr.HTML("<h3>Decoder</h3><p class='hint'>Used while the Lookahead switch beside the chat is on.</p>",
                js_on_load=None)  # fmt: skip
        decoder = gr.Dropdown(
            list(DECODERS), value=now.decoder, label="Decoder", show_label=False, container=False,
            elem_id="decoder", filterable=False,
        )  # fmt: skip
        cost = gr.HTML(elem_id="cost", js_on_load=None)
        rows = _slider(0, MAX_ROWS, now.rows, "Rows per step", "0 lets auto find out what pays", "rows")
        window = _slider(0, 128, now.window, "W: window", "Columns of guesses ahead; 0 closes it", "window")
        ngram = _slider(2, 16, now.ngram, "N: n-gram", "Tokens of an n-gram", "ngram")
        guesses = _slider(0, 128, now.guesses, "G: guesses", "N-grams checked in a step", "guesses")
        presets = gr.HTML(presets_html(), elem_id="advised-sizes", js_on_load=LISTEN)
        same_text = gr.Checkbox(
            now.same_text, label="Same text on and off", elem_id="same-text", elem_classes="switch",
            info="Half precision rounds by the rows of a step; on, the text stays the same. Costs some speed.",
        )  # fmt: skip
    return DecoderPart(decoder, rows, window, ngram, guesses, same_text, presets, cost)


def presets_html() -> str:
    """Sizes that lookahead's authors advise, as buttons."""
    buttons = "".join(_preset(name, sizes) for name, sizes in PRESETS.items())
    return (
        f'<div class="actions"><span class="hint">As its authors advise, for models of</span>{buttons}</div>'
    )


def _preset(name: str, sizes: tuple[int, int, int]) -> str:
    words = f"{name.upper()}: {', '.join(map(str, sizes))}"
    return f'<button type="button" class="act" data-do="preset" data-name="{name}">{words}</button>'


def _slider(least: int, most: int, value: int | None, label: str, info: str, name: str) -> gr.Slider:
    return gr.Slider(least, most, value, step=1, label=label, info=info, elem_id=name)
