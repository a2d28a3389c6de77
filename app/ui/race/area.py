"""The race's view: prompt, lanes and the board on the left, what races have told on the right."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from app.messages import Decoding
from app.race_messages import MOST_LANES
from app.ui.file_export import build_file_output
from app.ui.page_events import PageEvents
from app.ui.page_sessions import PageValue
from app.ui.race.actions import RaceActions, RaceSeat
from app.ui.race.controls import DECODERS, FIRST_LANES, NOBODY, USUAL_TOKENS
from app.ui.race.words import KINDS


@dataclass(frozen=True, slots=True)
class LanePicker:
    """One lane's decoder, and its sizes."""

    decoder: gr.Dropdown
    sizes: gr.Row
    numbers: tuple[gr.Number, gr.Number, gr.Number]


@dataclass(frozen=True, slots=True)
class RaceArea:
    """The view's components."""

    kind: gr.Radio
    another: gr.Button
    text: gr.Textbox
    tokens: gr.Number
    lanes: tuple[LanePicker, ...]
    start: gr.Button
    stop: gr.Button
    problem: gr.HTML
    status: gr.HTML
    board: gr.HTML
    notes: gr.HTML
    texts: gr.HTML
    history: gr.HTML
    save_picture: gr.Button
    save_json: gr.Button
    file: gr.HTML
    seat: PageValue[RaceSeat]

    @property
    def asked(self) -> list[gr.components.Component]:
        """The controls, in the order of `actions.start`."""
        lanes = [each for lane in self.lanes for each in (lane.decoder, *lane.numbers)]
        return [self.kind, self.text, self.tokens, *lanes]


def build_race_area(first_prompt: str, sizes: Decoding) -> RaceArea:
    """Build the view inside the current Blocks; lookahead's boxes begin with these sizes."""
    with gr.Row(elem_id="race"):
        with gr.Column(elem_id="race-course", scale=1):
            kind, another, text = _prompt(first_prompt)
            with gr.Row(elem_id="race-lanes"):
                lanes = tuple(_lane(number, sizes) for number in range(MOST_LANES))
                tokens, start, stop = _begin()
            problem, status, board = _html("problem"), _html("status"), _html("board")
            picture, everything = _saving()
            notes, texts = _html("notes"), _html("texts")
        with gr.Column(elem_id="race-side", scale=0, min_width=320):
            history = _html("history")
        file = build_file_output("race-file")
    return RaceArea(
        kind, another, text, tokens, lanes, start, stop, problem, status, board, notes, texts, history, picture,
        everything, file, PageValue(RaceSeat),
    )  # fmt: skip


def wire_race(area: RaceArea, actions: RaceActions, events: PageEvents) -> None:
    """Join the view's events with what they do."""
    for choosing in (area.kind.input, area.another.click):
        events.on(choosing, actions.choose, [area.seat, area.kind, area.text], area.text)
    events.on(area.text.input, actions.own, None, area.kind, trigger_mode="always_last")
    for lane in area.lanes:
        events.on(lane.decoder.input, _sizes_for, lane.decoder, [lane.sizes, *lane.numbers[1:]])
    events.on(area.start.click, actions.start, area.asked, area.problem)
    events.on(area.stop.click, actions.stop)
    for button, made in ((area.save_picture, actions.picture), (area.save_json, actions.everything)):
        events.on(button.click, made, None, area.file)


def _html(name: str) -> gr.HTML:
    return gr.HTML(elem_id=f"race-{name}", js_on_load=None)


def _prompt(first: str) -> tuple[gr.Radio, gr.Button, gr.Textbox]:
    with gr.Row(elem_id="race-kinds"):
        kind = gr.Radio(
            [(words, kind) for kind, words in KINDS.items()], value="chat", label="What kind of text",
            show_label=False, container=False, elem_id="race-kind", scale=1,
        )  # fmt: skip
        another = gr.Button("Another prompt", elem_id="race-another", size="sm", scale=0, min_width=0)
    text = gr.Textbox(
        first, label="Prompt", show_label=False, container=False, lines=2, max_lines=5, elem_id="race-text",
        placeholder="The prompt that every lane gets",
    )  # fmt: skip
    return kind, another, text


def _lane(number: int, sizes: Decoding) -> LanePicker:
    choices = [*DECODERS, ("No third lane", NOBODY)] if number == MOST_LANES - 1 else list(DECODERS)
    with gr.Column(elem_classes="picker", min_width=180):
        decoder = gr.Dropdown(
            choices, value=FIRST_LANES[number], label=f"Lane {number + 1}", filterable=False,
            elem_id=f"race-lane-{number + 1}",
        )  # fmt: skip
        with gr.Row(visible=False, elem_classes="sizes") as row:
            boxes = (("W", sizes.window), ("N", sizes.ngram), ("G", sizes.guesses))
            window, ngram, guesses = (
                gr.Number(value, precision=0, label=name, min_width=48, elem_id=f"race-{name}-{number + 1}")
                for name, value in boxes
            )
    return LanePicker(decoder, row, (window, ngram, guesses))


def _sizes_for(decoder: str) -> tuple[Any, ...]:
    """Lookahead has W, N and G, Jacobi W alone; the others have none."""
    has_all = decoder == "lookahead"
    return (
        gr.update(visible=has_all or decoder == "jacobi"),
        gr.update(visible=has_all),
        gr.update(visible=has_all),
    )


def _begin() -> tuple[gr.Number, gr.Button, gr.Button]:
    tokens = gr.Number(
        USUAL_TOKENS, precision=0, label="Tokens, at most", elem_id="race-tokens", min_width=84, scale=0
    )
    with gr.Column(elem_id="race-begin", scale=0, min_width=96):
        start = gr.Button("Start", elem_id="race-start", variant="primary", min_width=0)
        stop = gr.Button("Stop", elem_id="race-stop", variant="primary", min_width=0)
    return tokens, start, stop


def _saving() -> tuple[gr.Button, gr.Button]:
    button = partial(gr.Button, size="sm", scale=0, min_width=0)
    with gr.Row(elem_id="race-saving"):
        picture = button("Save picture", elem_id="race-save-picture")
        everything = button("Save JSON", elem_id="race-save-json")
    return picture, everything
