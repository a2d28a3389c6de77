"""The chat's components: the thread, the reply being written, the message box and its buttons."""

from dataclasses import dataclass
from functools import partial

import gradio as gr

from app.ui.chat.actions import ChatActions
from app.ui.chat.seat import Seat
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue

MESSAGES = f"foresight.thread(element); {LISTEN}"

EXAMPLES = (
    "How does lookahead decoding work?",
    "I want to book a table for two",
    "How do I list all files with ls?",
    "Write a Python function that returns the sum of a list.",
)
"""First messages that the small demo model answers well."""

WELCOME = """
<h1>Several tokens per step, all checked.</h1>
<p>Foresight chats with a model on this computer and lets it write several tokens in one forward pass,
each of them checked by the model itself. Send a message and watch the numbers beside the chat.</p>
"""
PRIVATE = '<p id="private-note">This chat is private: it is never stored, and gone when Foresight ends.</p>'


@dataclass(frozen=True, slots=True)
class ChatArea:
    """The chat's components."""

    thread: gr.HTML
    live: gr.HTML
    note: gr.HTML
    examples: tuple[gr.Button, ...]
    message: gr.Textbox
    send: gr.Button
    stop: gr.Button
    meter: gr.HTML
    chip: gr.HTML


def build_chat_area() -> ChatArea:
    """Build the chat inside the current Blocks."""
    with gr.Column(elem_id="chat", scale=1):
        with gr.Column(elem_id="thread"):
            with gr.Column(elem_id="welcome"):
                gr.HTML(WELCOME)
                with gr.Row(elem_id="examples"):
                    examples = tuple(gr.Button(text, size="sm") for text in EXAMPLES)
            gr.HTML(PRIVATE, elem_id="private")
            thread = gr.HTML(elem_id="messages", js_on_load=MESSAGES)
            live = gr.HTML(elem_id="live", js_on_load=MESSAGES)
            note = gr.HTML(elem_id="reply-note", js_on_load=None)
        chip = gr.HTML(elem_id="chip", js_on_load=f"foresight.chip(element); {LISTEN}")
        message, send, stop = _composer()
        meter = gr.HTML(elem_id="meter", js_on_load=None)
    return ChatArea(thread, live, note, examples, message, send, stop, meter, chip)


def wire_chat(
    area: ChatArea,
    question: gr.HTML,
    actions: ChatActions,
    seat: PageValue[Seat],
    controls: list[gr.components.Component],
    events: PageEvents,
) -> None:
    """Join the chat's events with what they do; `question` is what must be answered first."""
    given, outcome = [seat, area.message, *controls], [area.message, question]
    for sending in (area.send.click, area.message.submit):
        events.on(sending, actions.ask, given, outcome)
    for text, button in zip(EXAMPLES, area.examples, strict=True):
        events.on(button.click, partial(actions.ask_example, text), [seat, *controls], outcome)
    for place in (area.thread, question):
        events.on(place.click, actions.act, given, outcome)
    events.on(area.message.input, actions.type, [seat, area.message], trigger_mode="always_last")
    events.on(area.stop.click, actions.stop, seat)


def _composer() -> tuple[gr.Textbox, gr.Button, gr.Button]:
    with gr.Row(elem_id="composer"):
        message = gr.Textbox(
            elem_id="message",
            show_label=False,
            label="Message",
            container=False,
            lines=1,
            max_lines=8,
            autofocus=True,
            placeholder="Write a message. Enter sends, Shift+Enter starts a new line.",
            scale=1,
        )
        send = gr.Button("Send", elem_id="send", variant="primary", scale=0, min_width=0)
        stop = gr.Button("Stop", elem_id="stop", variant="primary", scale=0, min_width=0)
    return message, send, stop
