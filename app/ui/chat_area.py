"""The chat: finished turns, the reply being written, the message box and its buttons."""

from dataclasses import dataclass

import gradio as gr

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


@dataclass(frozen=True, slots=True)
class ChatArea:
    """The chat's components."""

    chatbot: gr.Chatbot
    live: gr.Markdown
    note: gr.HTML
    welcome: gr.Column
    examples: tuple[gr.Button, ...]
    message: gr.Textbox
    send: gr.Button
    stop: gr.Button
    regenerate: gr.Button


def build_chat_area() -> ChatArea:
    """Build the chat inside the current Blocks."""
    with gr.Column(elem_id="chat", scale=1):
        with gr.Column(elem_id="thread"):
            with gr.Column(elem_id="welcome") as welcome:
                gr.HTML(WELCOME)
                with gr.Row(elem_id="examples"):
                    examples = tuple(gr.Button(text, size="sm") for text in EXAMPLES)
            chatbot = _chatbot()
            live = gr.Markdown(elem_id="live", line_breaks=True, latex_delimiters=[], sanitize_html=True)
            with gr.Row(elem_id="ending"):
                note = gr.HTML(elem_id="reply-note", js_on_load=None)
                regenerate = gr.Button("Regenerate", elem_id="regenerate", size="sm", interactive=False)
        message, send, stop = _composer()
    return ChatArea(chatbot, live, note, welcome, examples, message, send, stop, regenerate)


def _chatbot() -> gr.Chatbot:
    return gr.Chatbot(
        elem_id="chatbot",
        show_label=False,
        container=False,
        visible=False,
        height=None,
        layout="bubble",
        buttons=["copy"],
        feedback_options=None,
        sanitize_html=True,
        allow_tags=False,
        allow_file_downloads=False,
        autoscroll=False,
        latex_delimiters=[],
        group_consecutive_messages=False,
    )


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
        stop = gr.Button("Stop", elem_id="stop", variant="primary", visible=False, scale=0, min_width=0)
    return message, send, stop
