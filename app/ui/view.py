"""What a page shows, as plain values: no Gradio, no engine, so every state of the page has a unit test."""

from dataclasses import dataclass
from html import escape

from app.conversation import ReplyState
from app.messages import DecoderName, EngineStatus, Finished, ModelInfo, StopReason
from app.ui.chatbot_format import AnsweredTurn, ChatbotMessage, chatbot_messages, safe_markdown
from app.ui.live_panel import Trail, panel, seconds_in_words


@dataclass(frozen=True, slots=True)
class Screen:
    """Everything that follows the conversation and the engine."""

    chat: tuple[ChatbotMessage, ...]
    live: str
    note: str
    panel: str
    status: str
    is_busy: bool
    is_empty: bool


def screen(
    earlier: tuple[ChatbotMessage, ...],
    newest: tuple[AnsweredTurn, ...],
    trail: Trail,
    asked: DecoderName,
    status: EngineStatus,
) -> Screen:
    """The page for the messages of earlier turns and the newest turn, if any, which may still be written."""
    last = newest[-1][1] if newest else ReplyState(phase="finished")
    return Screen(
        chat=(*earlier, *chatbot_messages(newest)),
        live=live_markdown(last),
        note=note_html(last) if newest else "",
        panel=panel(last, trail, _decoder(last, asked, status.model), status.model),
        status=status_html(status),
        is_busy=not last.is_done,
        is_empty=not newest,
    )


def live_markdown(state: ReplyState) -> str:
    """The reply while it is written; nothing once it is done and stands in the chat."""
    # gr.Markdown takes the common margin off all lines but the first: an empty first line keeps
    # the indentation of code inside the reply.
    return f"\n{safe_markdown(state.text)}" if state.text and not state.is_done else ""


def note_html(state: ReplyState) -> str:
    """The line under the reply: what is awaited, or how the reply ended."""
    if state.is_done:
        return f'<p class="note">{escape(_ending(state))}</p>'
    words = _awaited(state)
    return f'<p class="note waiting" role="status"><i></i>{escape(words)}{_progress(state)}</p>'


def _awaited(state: ReplyState) -> str:
    done, total = state.progress
    match state.phase:
        case "loading":
            return state.note
        case "prefilling":
            return f"Reading the chat: {done:,} of {total:,} tokens"
        case "decoding":
            return f"Writing: {state.statistics.tokens:,} tokens"
    return "Waiting for the model"


def _progress(state: ReplyState) -> str:
    done, total = state.progress
    if state.phase == "decoding" or not total:
        return ""
    return f'<progress value="{done}" max="{total}"></progress>'


ENDINGS: dict[StopReason, str] = {
    "eos": "",
    "stop_string": "",
    "max_tokens": "Cut at the limit of max tokens",
    "context": "Cut where the model's context ends",
    "stopped": "Stopped",
}


def _ending(state: ReplyState) -> str:
    if state.finished is None:
        return ""
    return " · ".join(part for part in (ENDINGS[state.finished.reason], *_measures(state.finished)) if part)


def _measures(finished: Finished) -> tuple[str, ...]:
    numbers = finished.statistics
    if not numbers.steps:
        return (finished.decoder,)
    return (
        f"{numbers.tokens:,} tokens in {numbers.steps:,} steps",
        f"{numbers.tokens_per_second:,.0f} tokens/s",
        f"first token after {seconds_in_words(numbers.time_to_first_token)}",
        finished.decoder,
    )


def _decoder(state: ReplyState, asked: DecoderName, model: ModelInfo | None) -> DecoderName:
    """How the reply is decoded: as asked, unless the model cannot; a finished reply says it itself."""
    if state.finished:
        return state.finished.decoder
    return "plain" if model and model.lookahead_note else asked


def status_html(status: EngineStatus) -> str:
    """The line at the top: the loaded model, and what the worker does if that is not plain."""
    is_plain = status.model is not None and status.phase in ("ready", "busy") and not status.note
    words = describe(status.model) if status.model and is_plain else status.note or PHASES[status.phase]
    kind = status.phase if not status.note or status.model is None else "noted"
    return f'<p class="status {kind}" role="status" title="{escape(words)}"><i></i><span>{escape(words)}</span></p>'


MOST = 0.8
"""Share of the weights from which on a model is simply called quantised."""

PHASES = {
    "starting": "Starting…",
    "loading": "Loading the model…",
    "ready": "Ready",
    "busy": "Writing…",
    "failed": "The model could not be loaded: choose another one under Model.",
    "closed": "Foresight is closing.",
}


def describe(model: ModelInfo) -> str:
    """A model in one line: demo · 7.3M parameters · int4 weights · bfloat16 · cpu · sdpa attention."""
    name = model.name if model.label in ("", model.name) else f"{model.name} ({model.label})"
    size = parameters_in_words(model.parameters)
    attention = [f"{model.attention} attention"] if model.attention else []
    return " · ".join([name, size, *_quantisation_in_words(model), model.dtype, model.device, *attention])


def _quantisation_in_words(model: ModelInfo) -> list[str]:
    """Experts and a head tied to the embedding stay as they are: where that is much, it is said."""
    if model.quantisation == "none":
        return []
    is_most = model.quantised_share >= MOST
    return [
        f"{model.quantisation} weights"
        if is_most
        else f"{model.quantisation} for {model.quantised_share:.0%}"
    ]


def parameters_in_words(count: int) -> str:
    """A count of parameters: 260K, 7.3M, 1.5B."""
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= unit:
            size = f"{count / unit:.1f}" if count < 10 * unit else f"{count / unit:.0f}"
            return f"{size.removesuffix('.0')}{letter} parameters"
    return f"{count} parameters"
