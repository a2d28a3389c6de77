"""The Race view: prompt, lanes and chart on the left, the history of races on the right."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gradio as gr

from app.conversation.race.race import Race, next_prompt, ready_prompts
from app.errors import AppError, impossible_values
from app.ui.frame.event_handlers import UNCHECKED, PageEvents, faults_html, hidden_output
from app.ui.frame.option_controls import changed_options
from app.ui.frame.page_connections import PageValue
from app.ui.frame.services import Services, with_drawn_seed
from app.ui.frame.templates import problem_html
from app.ui.race.formatting import KINDS, json_file
from app.values.messages import DecoderName, Decoding, ModelChoice, Options
from app.values.race import MOST_LANES, RacePlan, RacePrompt, TextKind

NO_LANE = "none"
"""The value of the last lane's decoder box if there is no such lane."""
DECODERS = (
    ("Auto", "auto"),
    ("Plain", "plain"),
    ("Lookahead, fixed sizes", "lookahead"),
    ("Prompt lookup", "prompt-lookup"),
    ("Jacobi", "jacobi"),
)
DEFAULT_LANES = ("plain", "auto", NO_LANE)
DEFAULT_TOKENS = 128
SIZES = ("window", "ngram", "guesses")
USED_SIZES = {"lookahead": 3, "jacobi": 1}
"""How many of the sizes W, N and G, in this order, a decoder uses; decoders not listed use none."""


@dataclass(slots=True)
class RaceViewState:
    """One page's state in this view: the user's own prompt, which is kept while examples are shown, and the last
    valid sizes of each lane. All lanes have the `max_new_tokens` that is stored for lane 0."""

    own_prompt: str = ""
    options: dict[int, Options] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RaceActions:
    _race: Race
    _prompts: tuple[RacePrompt, ...]
    _options: Callable[[], Options]
    _model: Callable[[], ModelChoice]

    def choose_prompt(self, state: RaceViewState, kind: TextKind, text: str) -> str:
        """Return the next example of a kind of text, or for "own" the user's own prompt, if any. A text that is not
        an example is kept in `state` as the user's own prompt."""
        if text.strip() and not any(prompt.text == text.strip() for prompt in self._prompts):
            state.own_prompt = text
        return next_prompt(self._prompts, kind, text) or state.own_prompt or text

    def judge(self, lane: int, ids: Mapping[str, str], state: RaceViewState, *values: Any) -> str:
        """Keep the valid values of a lane's boxes, whose element ids are in `ids`. Returns faults as HTML."""
        faults = self._keep(state, lane, dict(zip(ids, values, strict=True)))
        return faults_html({box: faults.get(name, "") for name, box in ids.items()})

    def _keep(self, state: RaceViewState, lane: int, given: Mapping[str, Any]) -> dict[str, str]:
        base = state.options.get(lane) or replace(self._options(), max_new_tokens=DEFAULT_TOKENS)
        state.options[lane], faults = changed_options(base, given)
        return faults

    def start(
        self, state: RaceViewState, kind: TextKind, text: str, tokens: float | None, *lanes: Any
    ) -> tuple[str, str]:
        """Start a race, with the last valid value of each box. Returns why it did not start, as HTML."""
        if not text.strip():
            return "", faults_html({"race-text": "There is no prompt. Write one, or choose an example."})
        try:
            is_example = any((one.kind, one.text) == (kind, text.strip()) for one in self._prompts)
            prompt = RacePrompt(kind if is_example else "own", text.strip())
            self._race.start(self._plan(state, prompt, tokens, lanes))
        except AppError as error:
            return problem_html(str(error)), ""
        return "", faults_html({"race-text": ""})

    def _plan(
        self, state: RaceViewState, prompt: RacePrompt, tokens: float | None, lanes: Sequence[Any]
    ) -> RacePlan:
        """Make the plan. `lanes` has a decoder and its sizes for each lane; other options are the chat's."""
        self._keep(state, 0, {"max_new_tokens": tokens})
        options = replace(self._options(), max_new_tokens=state.options[0].max_new_tokens)
        each = [lanes[start : start + 4] for start in range(0, len(lanes), 4)]
        chosen = [(number, *lane) for number, lane in enumerate(each) if lane[0] != NO_LANE]
        with impossible_values():
            decodings = tuple(self._decoding(state, *lane) for lane in chosen)
            return RacePlan(prompt, decodings, options, self._model())

    def export(self) -> str:
        """Return the HTML that makes the page download the finished race as JSON; "" if none has finished."""
        result = self._race.state.result
        return json_file(result) if result else ""

    def _decoding(self, state: RaceViewState, number: int, decoder: DecoderName, *sizes: Any) -> Decoding:
        """Return a lane's decoding. Sizes that its decoder does not use are those of the chat."""
        used = SIZES[: USED_SIZES.get(decoder, 0)]
        self._keep(state, number, dict(zip(used, sizes, strict=False)))
        known = state.options[number].decoding
        return replace(
            self._options().decoding, decoder=decoder, **{name: getattr(known, name) for name in used}
        )


class RaceView:
    """Builds the view inside the current Blocks, and connects its events."""

    def __init__(self, services: Services, events: PageEvents) -> None:
        prompts, settings = ready_prompts(), services.settings
        self._events, self._state = events, PageValue(RaceViewState)
        self._actions = actions = RaceActions(
            services.race, prompts, lambda: with_drawn_seed(services.settings.options), lambda: services.model
        )
        with gr.Row(elem_id="race"):
            with gr.Column(elem_id="race-main", scale=1):
                kind, text = self._build_prompt(prompts[0].text)
                with gr.Row(elem_id="race-lanes"):
                    lanes = [
                        self._build_lane(number, settings.options.decoding) for number in range(MOST_LANES)
                    ]
                    tokens = gr.Number(
                        DEFAULT_TOKENS, precision=0, label="Max new tokens", elem_id="race-tokens", min_width=84,
                        scale=0, placeholder="no limit",
                    )  # fmt: skip
                    with gr.Column(elem_id="race-buttons", scale=0, min_width=96):
                        start = gr.Button("Start", elem_id="race-start", variant="primary", min_width=0)
                        stop = gr.Button("Stop", elem_id="race-stop", variant="primary", min_width=0)
                problem, _, _ = _html("problem"), _html("status"), _html("chart")
                with gr.Row(elem_id="race-export"):
                    export = gr.Button(
                        "Export JSON", elem_id="race-export-json", size="sm", scale=0, min_width=0
                    )
                _html("notes"), _html("outputs")
            with gr.Column(elem_id="race-side", scale=0, min_width=320):
                _html("history")
            file = hidden_output("race-file")
        self._judge(0, {"max_new_tokens": tokens})
        given = [self._state, kind, text, tokens, *(each for lane in lanes for each in lane)]
        events.on(start.click, actions.start, given, [problem, events.faults], **UNCHECKED)
        events.on(stop.click, services.race.stop)
        events.on(export.click, actions.export, outputs=file)

    def _build_prompt(self, first_prompt: str) -> tuple[gr.Radio, gr.Textbox]:
        with gr.Row(elem_id="race-kinds"):
            kind = gr.Radio(
                [(words, kind) for kind, words in KINDS.items()], value="chat", label="Kind of text",
                show_label=False, container=False, elem_id="race-kind", scale=1,
            )  # fmt: skip
            another = gr.Button("Next example", elem_id="race-another", size="sm", scale=0, min_width=0)
        text = gr.Textbox(
            first_prompt, label="Prompt", show_label=False, container=False, lines=2, max_lines=5,
            elem_id="race-text", placeholder="The prompt for all lanes",
        )  # fmt: skip
        chosen = [self._state, kind, text]
        self._events.on((kind.input, another.click), self._actions.choose_prompt, chosen, text)
        self._events.on(text.input, lambda: "own", (), kind, trigger_mode="always_last")
        return kind, text

    def _build_lane(self, number: int, sizes: Decoding) -> tuple[gr.components.Component, ...]:
        choices = [*DECODERS, ("No third lane", NO_LANE)] if number == MOST_LANES - 1 else list(DECODERS)
        with gr.Column(elem_classes="lane-controls", min_width=180):
            decoder = gr.Dropdown(
                choices, value=DEFAULT_LANES[number], label=f"Lane {number + 1}", filterable=False,
                elem_id=f"race-lane-{number + 1}",
            )  # fmt: skip
            with gr.Row(visible=False, elem_classes="sizes") as row:
                boxes = {
                    name: gr.Number(
                        getattr(sizes, name), precision=0, label=label, min_width=48,
                        elem_id=f"race-{label[0]}-{number + 1}",
                    )
                    for name, label in zip(SIZES, ("Window", "N-gram", "Guesses"), strict=True)
                }  # fmt: skip
        numbers = list(boxes.values())

        def show_sizes(name: str) -> tuple[Any, ...]:
            return tuple(gr.update(visible=USED_SIZES.get(name, 0) > used) for used in range(len(SIZES)))

        self._events.on(decoder.input, show_sizes, decoder, [row, *numbers[1:]])
        self._judge(number, boxes)
        return decoder, *numbers

    def _judge(self, lane: int, boxes: Mapping[str, gr.Number]) -> None:
        """Check the values of these boxes while the user types. `boxes` maps the name of an option to its box."""
        judge = partial(self._actions.judge, lane, {name: box.elem_id or "" for name, box in boxes.items()})
        given, faults = [self._state, *boxes.values()], self._events.faults
        # One event for all boxes, because results of several events may arrive in another order.
        typed = partial(gr.on, [box.input for box in boxes.values()])
        self._events.on(typed, judge, given, faults, trigger_mode="always_last", **UNCHECKED)


def _html(name: str) -> gr.HTML:
    return gr.HTML(elem_id=f"race-{name}", js_on_load=None)
