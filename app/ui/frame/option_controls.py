"""The controls of the reply options: the panel beside the chat, the values of all controls, and their events."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import gradio as gr

from app.ui.frame.event_handlers import Actions, faults_html, succeeded
from app.values.messages import NEW_SEED, DecoderName, Options
from app.values.validation import ImpossibleValue, require


class OptionValues(NamedTuple):
    """The values of the controls, in the order in which events pass them; None for an empty box."""

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


EMPTY: Mapping[str, int] = MappingProxyType({"max_new_tokens": 0, "seed": NEW_SEED})
"""The value that an empty box means: no limit, or a new seed for each reply. All other boxes need a number."""
LARGEST = 2**53 - 1
"""The largest whole number that a box can report exactly, because the page's numbers are floats."""


def to_values(options: Options) -> OptionValues:
    """Return what the controls show for these options."""
    shown: dict[str, Any] = {name: getattr(_owner(options, name), name) for name in OptionValues._fields[1:]}
    shown |= {name: None for name, value in EMPTY.items() if shown[name] == value}
    is_on = shown["decoder"] != "plain"
    # The decoder's box has no "plain", because turning the switch off selects it.
    return OptionValues(lookahead=is_on, **shown | ({} if is_on else {"decoder": "auto"}))


def to_options(values: OptionValues, base: Options) -> Options:
    """Return `base` with these values, except impossible ones."""
    return judged(base, values)[0]


def judged(base: Options, values: OptionValues) -> tuple[Options, dict[str, str]]:
    """Return `base` with these values, and what is wrong with each impossible value, by name.

    An option with an impossible value stays as in `base`."""
    given = values._asdict()
    if not given.pop("lookahead"):
        given["decoder"] = "plain"
    return changed_options(base, given)


def changed_options(base: Options, given: Mapping[str, Any]) -> tuple[Options, dict[str, str]]:
    """Change the options of these names one by one. Returns all options, and the faults by option name."""
    options, faults = base, dict[str, str]()
    for name, value in given.items():
        owner = _owner(options, name)
        try:
            changed = replace(owner, **{name: _typed(name, value, getattr(owner, name))})
            is_exact = not isinstance(value, int | float) or value <= LARGEST
            require(is_exact, f"type a number up to {LARGEST:,}", value)
        except ImpossibleValue as error:
            faults[name] = error.sentence
            continue
        if owner is options:
            options = changed
        else:
            part = "sampling" if owner is options.sampling else "decoding"
            options = replace(options, **{part: changed})
    return options, faults


def _owner(options: Options, name: str) -> Any:
    return next(part for part in (options.sampling, options.decoding, options) if hasattr(part, name))


def _typed(name: str, value: Any, now: Any) -> Any:
    """Return the value of a control with the type of the option that it changes. Raises ImpossibleValue."""
    if isinstance(now, bool | str):
        return value
    number = EMPTY.get(name) if value is None else value
    if not isinstance(number, int | float):
        raise ImpossibleValue("type a number", value)
    if isinstance(now, float):
        return float(number)
    require(float(number).is_integer(), "type a whole number", value)
    return int(number)


def build_lookahead_switch(options: Options) -> gr.Checkbox:
    """Build the switch inside the current Blocks, above the live numbers."""
    return gr.Checkbox(
        to_values(options).lookahead, label="Lookahead", info="Takes effect on the next reply",
        elem_id="lookahead", elem_classes="switch",
    )  # fmt: skip


def build_option_panel(options: Options, lookahead: gr.Checkbox) -> tuple[gr.components.Component, ...]:
    """Build the boxes for sampling inside the current Blocks. Returns the controls of `OptionValues` up to
    `repetition_penalty`, the switch `lookahead` first."""
    now = to_values(options)
    with gr.Column(elem_id="reply-options"):
        gr.HTML("<p class='hint'>In all chats, from the next reply on:</p>", js_on_load=None)
        temperature = gr.Slider(
            0, 2, now.temperature, step=0.05, label="Temperature", info="0 always takes the likeliest token",
            elem_id="temperature",
        )  # fmt: skip
        with gr.Row(elem_classes="pair"):
            max_new_tokens = _integer_box(now.max_new_tokens, "Max new tokens", "max-tokens", "no limit")
            seed = _integer_box(now.seed, "Seed", "seed", "new each time")
        with gr.Accordion("More sampling", open=False):
            with gr.Row(elem_classes="pair"):
                top_k = _integer_box(now.top_k, "Top-k (0: off)", "top-k")
                top_p = _fraction_box(now.top_p, "Top-p (1: off)", "top-p")
            with gr.Row(elem_classes="pair"):
                min_p = _fraction_box(now.min_p, "Min-p (0: off)", "min-p")
                penalty = _fraction_box(now.repetition_penalty, "Repetition penalty", "repetition-penalty")
    return lookahead, temperature, max_new_tokens, seed, top_k, top_p, min_p, penalty


def _integer_box(value: int | None, label: str, name: str, empty: str | None = None) -> gr.Number:
    return gr.Number(value, precision=0, label=label, elem_id=name, min_width=70, placeholder=empty)


def _fraction_box(value: float | None, label: str, name: str) -> gr.Number:
    return gr.Number(value, step=0.05, label=label, elem_id=name, min_width=70)


def saved_with(control: str) -> Sequence[str]:
    """Return the names of the values to save with this control; switch and decoder are one option."""
    decoder = ("lookahead", "decoder")
    return decoder if control in decoder else (control,)


class OptionActions(Actions):
    """The event handlers of the controls."""

    def choose_options(self, changed: Sequence[str], boxes: Sequence[str], *controls: Any) -> str:
        """Save the options named in `changed`. Returns what is wrong in the boxes of these ids, as HTML. The page's
        other values are not saved, because they may be invalid, and another page may have changed them since."""
        values = OptionValues(*controls)
        changes, problems = {name: getattr(values, name) for name in changed}, list[str]()

        def change(now: Options) -> Options:
            return to_options(to_values(now)._replace(**changes), now)

        succeeded(problems.append, lambda: self._services.change_options(change))
        faults = judged(self._services.settings.options, values)[1]
        faults |= dict(zip(changed, problems, strict=False))
        return faults_html(
            {box: faults.get(name, "") for name, box in zip(values._fields, boxes, strict=True)}
        )
