"""The live view: the numbers beside the chat, and the X-ray, a picture of one decoding step."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Literal, cast, get_args

import gradio as gr

from app.ui.frame.event_handlers import PageEvents, hidden_output
from app.ui.frame.file_export import file_html
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_connections import PageValue
from app.ui.frame.page_updates import Parts
from app.ui.frame.templates import render
from app.ui.live.step_history import StepHistory, TracedReply
from app.ui.live.xray import texts_of, xray_html

Move = Literal["live", "pause", "first", "back", "forward", "last", "go"]
MOVES = get_args(Move)
LIVE_SECONDS = 0.2
"""Minimum seconds between two drawings of the X-ray while the reply is being written."""
FORMAT, VERSION = "foresight-xray", 2


@dataclass(slots=True)
class XrayState:
    """What one page's X-ray shows while it is open: the newest step if `is_live`, else step number `shown`."""

    is_open: bool = False
    is_live: bool = True
    shown: int = 0

    def number(self, history: StepHistory) -> int:
        """Return the number of the kept step that is nearest to the wanted step; 0 without steps."""
        if not history.traced:
            return 0
        return history.last if self.is_live else min(max(self.shown, history.first), history.last)

    def move(self, move: Move, on_screen: int, history: StepHistory) -> None:
        """Apply a control while the page shows step `on_screen`; `pause` and `go` stay at that step."""
        current = on_screen if self.is_live else self.number(history)
        steps = {"first": history.first, "back": current - 1, "forward": current + 1, "last": history.last}
        self.is_live = move == "live"
        self.shown = max(steps.get(move, on_screen), 0)
        self.shown = self.number(history)


class XrayRenderer:
    """Draws one page's X-ray while it is open, from the reply that the page follows."""

    def __init__(self, state: XrayState, followed: Callable[[], TracedReply | None]) -> None:
        self._state = state
        self._followed = followed
        self._parts: Parts = {}
        self._drawn: tuple[object, ...] = ()
        self._drawn_for: tuple[object, ...] = ()
        self._due = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the page shows the X-ray, so that it must be drawn."""
        return self._state.is_open

    def render(self) -> Parts:
        """Return the picture; the same object while nothing changed."""
        state, reply = self._state, self._followed()
        history = reply.history if reply else StepHistory()
        number = state.number(history)
        shown = (state.is_live, number, history.first, history.last, reply)
        # The effect of a control is shown at once; a growing reply only every LIVE_SECONDS.
        is_same = (state.is_live, state.is_live or number) == self._drawn_for
        if state.is_open and shown != self._drawn and not (is_same and monotonic() < self._due):
            self._drawn_for = (state.is_live, state.is_live or number)
            self._drawn, self._due = shown, monotonic() + LIVE_SECONDS
            read_texts = reply.reader.texts if reply else lambda ids: ("",) * len(ids)
            self._parts = {"xray-picture": xray_html(history, number, state.is_live, read_texts)}
        return self._parts


def use_control(state: XrayState, reply: TracedReply | None, event: gr.EventData) -> Any:
    """Apply a control: a move, `open`, `close` or `export`. The event's value is the step on the screen. Returns
    the HTML of a file to save for `export`, else no change."""
    do, _, value = pressed(event)
    if do == "export" and reply:
        name = f"{FORMAT}-{datetime.now():%Y%m%d-%H%M%S}.json"
        return file_html(name, exported(reply), "application/json")
    if do in ("open", "close"):
        state.is_open = do == "open"
    elif do in MOVES:
        history = reply.history if reply else StepHistory()
        state.move(cast(Move, do), int(value) if value.isdecimal() else 0, history)
    return gr.skip()


def exported(reply: TracedReply) -> str:
    """Return the kept steps as JSON: the engine's token ids, their `texts` by id, settings and statistics."""
    history, numbers = reply.history, reply.history.statistics
    texts = texts_of(history.traced, (), reply.reader.texts)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "settings": {
            "model": asdict(reply.writing.settings.model),
            "options": asdict(reply.writing.settings.options),
        },
        "statistics": asdict(numbers)
        | {"tokens_per_step": numbers.tokens_per_step, "hit_rate": numbers.hit_rate},
        "texts": {str(token): text for token, text in texts.items()},
        "steps": [
            {"number": number, **asdict(step.trace), "written": step.token_ids}
            for number, step in enumerate(history.traced, start=history.first)
        ],
    }
    return json.dumps(document, ensure_ascii=False)


def build_live_panel() -> None:
    """Build the numbers inside the current Blocks, beside the chat."""
    with gr.Column(elem_id="live-numbers", min_width=0):
        gr.HTML(elem_id="panel", js_on_load=None)
        with gr.Row(elem_id="live-buttons"):
            gr.Button("X-ray", elem_id="open-xray", size="sm", scale=0, min_width=0)
            gr.Button("Fewer numbers", elem_id="fewer-numbers", size="sm", scale=0, min_width=0)


def build_xray(
    chat: PageValue[Any], followed: Callable[[Any], TracedReply | None], events: PageEvents
) -> PageValue[XrayState]:
    """Build the X-ray inside the current Blocks: in a tab of the panel, from which it opens over the page.
    `followed` returns the reply that a page's chat follows."""
    state = PageValue(XrayState)

    def use(state: XrayState, chat_state: Any, event: gr.EventData) -> Any:
        return use_control(state, followed(chat_state), event)

    with gr.Column(elem_id="xray"):
        bar = gr.HTML(
            render("xray_bar.html"), elem_id="xray-bar", js_on_load="foresight.xray(element, trigger)"
        )
        gr.HTML(elem_id="xray-picture", js_on_load=None)
        file = hidden_output("xray-file")
    # "multiple", so that no press is dropped while an earlier one is being handled.
    events.on(bar.click, use, [state, chat], file, trigger_mode="multiple")
    return state
