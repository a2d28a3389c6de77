"""The option controls of the Settings view: what applies to all chats, and the decoder that lookahead uses."""

from functools import partial

import gradio as gr
from markupsafe import Markup

from app.ui.frame.event_handlers import LISTEN, PageEvents, succeeded, toast
from app.ui.frame.option_controls import OptionValues
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.values.display_text import counted
from app.values.largest_step import StepRows, largest_step
from app.values.messages import MAX_ROWS, PRESETS, Decoding
from app.values.model import RowPrice, gigabytes

SWITCHES = (
    ("rolling_context", "Rolling context", "A long chat continues without its oldest messages; you are not asked"),
    ("keeps_thoughts", "Send earlier reasoning", "The model reads the reasoning of earlier answers, too"),
    ("titles_by_model", "Titles by the model", "When the model is idle, it titles new chats"),
)  # fmt: skip
"""The field of `ChatDefaults`, the label, and a description of what the switch does."""
DECODERS = (
    ("Auto", "auto"),
    ("Lookahead, fixed sizes", "lookahead"),
    ("Prompt lookup", "prompt-lookup"),
    ("Jacobi iteration", "jacobi"),
)
SIZES = (
    ("rows", 0, MAX_ROWS, "Rows per step", "Positions that a step computes, on average; 0: automatic"),
    ("window", 0, 128, "W: window", "How many neighbouring positions it guesses; 0: off"),
    ("ngram", 2, 16, "N: n-gram", "Length of token sequences; each guess has up to N - 1 tokens"),
    ("guesses", 0, 128, "G: guesses", "Maximum number of guesses that a step checks; 0: none"),
)
"""The decoder's sliders: the field of `OptionValues`, its least and greatest value, the label and a description."""
FORMULAS = {
    "lookahead": "The tree (guesses to check) has 1 + G·(N-1) rows, the window (guesses to refine) W·(N-1) - 1.",
    "jacobi": "The rows are the current token and W guesses.",
    "prompt-lookup": "The rows are the current token and up to 10 tokens copied from the text.",
    "plain": "Each step computes one token.",
    "auto": "This is the average over a reply.",
}


def build_chat_defaults(services: Services, events: PageEvents) -> list[gr.components.Component]:
    """Build the controls inside the current Blocks, and connect them with the settings. Returns the box of the
    system prompt and the switches, in the order of `SWITCHES`."""

    def choose(name: str, value: str | bool) -> None:
        succeeded(toast, lambda: services.choose_chat_defaults(**{name: value}))

    defaults = services.settings.chats
    with gr.Column(elem_classes="part"):
        gr.HTML("<h3>New chats</h3>", js_on_load=None)
        system = gr.Textbox(
            defaults.system, elem_id="default-system", label="System prompt", lines=3, max_lines=8,
            placeholder="You are a careful editor.", info="New chats begin with this prompt",
        )  # fmt: skip
        events.on(system.input, partial(choose, "system"), system, trigger_mode="always_last")
    with gr.Column(elem_id="chat-defaults", elem_classes="part"):
        gr.HTML("<h3>All chats</h3>", js_on_load=None)
        switches = [
            gr.Checkbox(
                getattr(defaults, name), label=label, info=info, elem_id=name.replace("_", "-"),
                elem_classes="switch",
            )
            for name, label, info in SWITCHES
        ]  # fmt: skip
    for (name, *_), switch in zip(SWITCHES, switches, strict=True):
        events.on(switch.input, partial(choose, name), switch)
    return [system, *switches]


class DecoderControls:
    """The decoder's controls (`OptionValues` from `decoder` on), the recommended sizes and the decoder's cost,
    built inside the current Blocks. `model` shows and changes the precision and attention of the loaded model."""

    def __init__(self, now: OptionValues) -> None:
        with gr.Column(elem_id="decoding", elem_classes="part"):
            gr.HTML("<h3>Decoder</h3>"
                    "<p class='hint'>How replies are written while “Lookahead” beside the chat is on.</p>",
                    js_on_load=None)  # fmt: skip
            decoder = gr.Dropdown(
                list(DECODERS), value=now.decoder, label="Decoder", show_label=False, container=False,
                elem_id="decoder", filterable=False,
            )  # fmt: skip
            self.cost = gr.HTML(elem_id="cost", js_on_load=None)
            sliders = [
                gr.Slider(least, most, getattr(now, name), step=1, label=label, info=info, elem_id=name)
                for name, least, most, label, info in SIZES
            ]
            advised = {name: ", ".join(map(str, sizes)) for name, sizes in PRESETS.items()}
            buttons = render_macro("settings.html", "presets", presets=advised)
            self.presets = gr.HTML(buttons, elem_id="advised-sizes", js_on_load=LISTEN)
            same_text = gr.Checkbox(
                now.same_text, label="Same text with and without lookahead", elem_id="same-text",
                elem_classes="switch",
                info="This only matters in bfloat16 and float16, where results depend on the size of a step. "
                "It costs some speed.",
            )  # fmt: skip
        self.model = gr.HTML(elem_id="load-choices", elem_classes="part", js_on_load=LISTEN)
        self.controls: list[gr.components.Component] = [decoder, *sliders, same_text]


def cost_html(decoding: Decoding, price: RowPrice | None, model: str) -> Markup:
    """Return how many rows these sizes take in the largest step, and their memory; `price` is for one row."""
    rows = largest_step(decoding)
    window = f"{rows.tree} for the tree, {rows.window} for the window; " if rows and rows.window else ""
    return render_macro(
        "settings.html",
        "cost",
        decoder=decoding.decoder,
        total=counted(rows.total, "row") if rows else "",
        parts=f"{window}{counted(rows.read, 'row')} with scores (logits)" if rows else "",
        rows=rows,
        tree_share=rows.tree / rows.total if rows else 0.0,
        formula=FORMULAS[decoding.decoder],
        memory=_memory_words(rows, price, model) if rows else "",
    )


def _memory_words(rows: StepRows, price: RowPrice | None, model: str) -> str:
    if price is None:
        return "Load a model to see the memory that these rows take."
    logits, cache = gigabytes(rows.read * price.logits), gigabytes(rows.total * price.cache)
    return (
        f"With {model}, each step takes an estimated {logits} for scores and {cache} for keys and values, which "
        "attention reads."
    )
