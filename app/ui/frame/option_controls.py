"""The controls of the reply options: the panel beside the chat, the values of all controls, and their events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import gradio as gr

from app.errors import AppError, BadOption, impossible_values
from app.ui.frame.services import Services
from app.ui.frame.templates import problem_html
from app.values.messages import DecoderName, Decoding, Options, Sampling


class OptionValues(NamedTuple):
    """The values of the controls, in the order in which events pass them; None for an empty box.

    Without `max_new_tokens` a reply is limited by the context alone."""

    lookahead: bool
    temperature: float | None
    max_new_tokens: int | None
    seed: int | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    decoder: DecoderName
    rows: int | None
    window: int | None
    ngram: int | None
    guesses: int | None
    same_text: bool


def to_values(options: Options) -> OptionValues:
    """Return what the controls show for these options."""
    sampling, decoding = options.sampling, options.decoding
    return OptionValues(
        lookahead=decoding.decoder != "plain",
        temperature=sampling.temperature,
        max_new_tokens=options.max_new_tokens or None,
        seed=sampling.seed,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        # The decoder's box has no "plain", because that is the switch turned off.
        decoder=decoding.decoder if decoding.decoder != "plain" else "auto",
        rows=decoding.rows,
        window=decoding.window,
        ngram=decoding.ngram,
        guesses=decoding.guesses,
        same_text=decoding.same_text,
    )


def to_options(values: OptionValues, base: Options) -> Options:
    """Return the options for these values. Options without a control are taken from `base`. Raises BadOption."""
    for name, value in values._asdict().items():
        if value is None and name != "max_new_tokens":
            raise BadOption(f"The box for {name.replace('_', ' ')} is empty: type a number.")
    with impossible_values():
        sampling = Sampling(
            temperature=_number(values.temperature),
            top_k=_integer(values.top_k),
            top_p=_number(values.top_p),
            min_p=_number(values.min_p),
            repetition_penalty=_number(values.repetition_penalty),
            seed=_integer(values.seed),
        )
        decoding = Decoding(
            decoder=values.decoder if values.lookahead else "plain",
            window=_integer(values.window),
            ngram=_integer(values.ngram),
            guesses=_integer(values.guesses),
            rows=_integer(values.rows),
            same_text=values.same_text,
        )
        longest = _integer(values.max_new_tokens)
        return replace(base, sampling=sampling, decoding=decoding, max_new_tokens=longest)


def _number(value: float | None) -> float:
    return float(value or 0)


def _integer(value: float | None) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError(f"this box takes a whole number, got {value!r}")
    return int(number) if isinstance(value, float) else int(value or 0)


@dataclass(frozen=True, slots=True)
class OptionPanel:
    """Some of the controls of `OptionValues`, and the line that shows what is wrong."""

    controls: tuple[gr.components.Component, ...]
    problem: gr.HTML


def build_lookahead_switch(options: Options) -> gr.Checkbox:
    """Build the switch inside the current Blocks: it is above the live numbers, which it changes."""
    return gr.Checkbox(
        to_values(options).lookahead, label="Lookahead", info="Takes effect on the next reply",
        elem_id="lookahead", elem_classes="switch",
    )  # fmt: skip


def build_option_panel(options: Options, lookahead: gr.Checkbox) -> OptionPanel:
    """Build the sampling's boxes inside the current Blocks, and the line that shows what is wrong."""
    now = to_values(options)
    with gr.Column(elem_id="reply-options"):
        gr.HTML("<p class='hint'>In all chats, from the next reply on:</p>", js_on_load=None)
        temperature = gr.Slider(
            0, 2, now.temperature, step=0.05, label="Temperature", info="0 always takes the likeliest token",
            elem_id="temperature",
        )  # fmt: skip
        with gr.Row(elem_classes="pair"):
            max_new_tokens = _integer_box(now.max_new_tokens, "Max tokens", "max-tokens", "no limit")
            seed = _integer_box(now.seed, "Seed", "seed")
        problem = gr.HTML(elem_id="problem", elem_classes="problem-line", js_on_load=None)
        with gr.Accordion("More sampling", open=False):
            with gr.Row(elem_classes="pair"):
                top_k = _integer_box(now.top_k, "Top-k (0: off)", "top-k")
                top_p = _fraction_box(now.top_p, "Top-p (1: off)", "top-p")
            with gr.Row(elem_classes="pair"):
                min_p = _fraction_box(now.min_p, "Min-p (0: off)", "min-p")
                penalty = _fraction_box(now.repetition_penalty, "Repetition penalty", "repetition-penalty")
    return OptionPanel((lookahead, temperature, max_new_tokens, seed, top_k, top_p, min_p, penalty), problem)


def _integer_box(value: int | None, label: str, name: str, empty: str | None = None) -> gr.Number:
    return gr.Number(value, precision=0, label=label, elem_id=name, min_width=70, placeholder=empty)


def _fraction_box(value: float | None, label: str, name: str) -> gr.Number:
    return gr.Number(value, step=0.05, label=label, elem_id=name, min_width=70)


def saved_with(control: str) -> Sequence[str]:
    """Return the names of the values to save with this control; switch and decoder are one option."""
    decoder = ("lookahead", "decoder")
    return decoder if control in decoder else (control,)


class OptionActions:
    """The event handlers of the controls. It has no state of its own."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def choose_options(self, changed: Sequence[str], *controls: Any) -> str:
        """Save the options named in `changed`; returns a message about invalid values of the page, or "".

        The page's other values are not saved: another page may have changed these options since, and these boxes
        may be invalid."""
        values = OptionValues(*controls)
        news = {name: getattr(values, name) for name in changed}
        try:
            self._services.change_options(lambda now: to_options(to_values(now)._replace(**news), now))
            to_options(values, self._services.settings.options)
        except AppError as error:
            return problem_html(str(error))
        return ""
