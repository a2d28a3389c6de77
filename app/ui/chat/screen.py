"""What a page shows of its chat, as plain values: no Gradio, no engine, so every state of it has a unit test."""

from dataclasses import dataclass, replace
from html import escape

from app.chat_messages import ChatSettings, StoredMessage, Thread
from app.conversation import ContextFit, ReplyState
from app.messages import DecoderName, EngineStatus, Finished, ModelInfo
from app.ui.chat.following import Following
from app.ui.chat.message import Look
from app.ui.chat.meter import meter_html
from app.ui.chat.thread import thread_html
from app.ui.live.panel import panel
from app.ui.live.trail import Trail
from app.ui.page_stream import Blocks, Parts
from app.ui.status import status_html
from app.ui.words import problem_html

UNSAVED = "The reply above is not saved: that is tried again with your next message, and when Foresight ends."


@dataclass(frozen=True, slots=True)
class Screen:
    """What follows the chats and the engine. `live` is what there is of message `answer`, below the thread;
    `rewritten` counts how often another page changed the instructions of the chat that is looked at."""

    sidebar: str
    thread: str
    answer: int
    live: tuple[str, ...]
    note: str
    panel: str
    status: str
    meter: str
    chip: str
    is_busy: bool
    is_empty: bool
    is_private: bool
    sitting: int
    rewritten: int
    manner: ChatSettings
    engine: EngineStatus


def chat_parts(now: Screen) -> Parts:
    """A screen as the parts of the page: see page_stream.py.

    Somebody may be typing instructions: they are filled in anew only when `instructions` changes."""
    return {
        "chats": now.sidebar,
        "messages": now.thread,
        "live": Blocks(now.answer, now.live),
        "reply-note": now.note,
        "panel": now.panel,
        "status": now.status,
        "meter": now.meter,
        "chip": now.chip,
        "is-busy": now.is_busy,
        "is-empty": now.is_empty,
        "is-private": now.is_private,
        "instructions": f"{now.sitting}.{now.rewritten}",
    }


@dataclass(frozen=True, slots=True)
class Seen:
    """What a watcher has seen of one chat; `first_read` is the first message that stays where it does not fit."""

    thread: Thread
    is_writing: bool
    problem: str
    following: Following | None
    coloured: frozenset[int]
    is_private: bool
    sitting: int
    rewritten: int
    asked: DecoderName
    fit: ContextFit | None
    first_read: int = 0
    leaves_out: bool = False
    chip: str = ""


def screen(seen: Seen, messages: str, sidebar: str, status: EngineStatus) -> Screen:
    """The page for a chat whose `messages` are drawn; the answer that is not stored yet stands below them, in a
    place of its own."""
    thread, unstored = seen.thread, _unstored(seen)
    state = numbers_of(seen)
    decoder = _decoder(state, seen.asked, status.model)
    return Screen(
        sidebar=sidebar,
        thread=messages,
        answer=unstored.writing.message if unstored else 0,
        live=unstored.blocks if unstored else (),
        note=_note(seen),
        panel=panel(state, seen.following.trail if seen.following else Trail(), decoder, status.model),
        status=status_html(status),
        meter=meter_html(seen.fit, seen.leaves_out),
        chip=seen.chip,
        is_busy=seen.is_writing,
        is_empty=not thread.messages and not thread.earlier,
        is_private=seen.is_private,
        sitting=seen.sitting,
        rewritten=seen.rewritten,
        manner=thread.settings,
        engine=status,
    )


def _unstored(seen: Seen) -> Following | None:
    """The reply that is being written, or could not be stored at its end."""
    return seen.following if seen.is_writing or seen.problem else None


def _note(seen: Seen) -> str:
    if seen.is_writing:
        return note_html(seen.following.state) if seen.following else ""
    return problem_html(f"{seen.problem} {UNSAVED}") if seen.problem else ""


def messages_html(seen: Seen) -> str:
    """The messages but the one that stands below them. It takes as long as the chat is: not for every step."""
    thread, unstored = seen.thread, _unstored(seen)
    if unstored:
        others = (message for message in thread.messages if message.id != unstored.writing.message)
        thread = replace(thread, messages=tuple(others))
    return thread_html(thread, Look(seen.coloured, seen.is_writing, *cut_of(seen)))


def cut_of(seen: Seen) -> tuple[int, bool]:
    """The first message that the model still reads, 0 where it reads all, and whether the person allowed that."""
    sent = seen.following.writing.first_read if seen.following else 0
    if seen.is_writing or seen.fit is None:
        return sent, True
    return seen.first_read, seen.leaves_out


def numbers_of(seen: Seen) -> ReplyState:
    """The reply that the numbers beside the chat are about: the one followed, else the newest stored one."""
    if seen.following:
        return seen.following.state
    answer = latest_answer(seen.thread)
    return stored_state(answer) if answer else ReplyState(phase="finished")


def latest_answer(thread: Thread) -> StoredMessage | None:
    """The newest answer on the path that is shown."""
    return next((message for message in reversed(thread.messages) if message.role == "assistant"), None)


def stored_state(message: StoredMessage) -> ReplyState:
    """A stored answer as the state of a reply that has ended."""
    provenance = message.content.provenance
    if provenance is None:
        return ReplyState(phase="failed", text=message.text, note=message.content.note)
    finished = Finished(provenance.reason, provenance.statistics, provenance.model, provenance.decoder)
    return ReplyState("finished", message.text, provenance.statistics, finished=finished)


def note_html(state: ReplyState) -> str:
    """The line under a reply that is being written: what is awaited."""
    words = _awaited(state)
    return f'<p class="note waiting" role="status"><i></i>{escape(words)}{_progress(state)}</p>'


def _awaited(state: ReplyState) -> str:
    done, total = state.progress
    match state.phase:
        case "loading":
            return state.note
        case "prefilling":
            return f"Reading the chat: {done:,} of {total:,} tokens"
        case "waiting":
            return "Waiting for the model"
    return "Writing"


def _progress(state: ReplyState) -> str:
    done, total = state.progress
    is_known = total and state.phase in ("loading", "prefilling")
    return f'<progress value="{done}" max="{total}"></progress>' if is_known else ""


def _decoder(state: ReplyState, asked: DecoderName, model: ModelInfo | None) -> DecoderName:
    """How the reply is decoded: as asked, unless the model cannot; a finished reply says it itself."""
    if state.finished:
        return state.finished.decoder
    return "plain" if model and model.lookahead_note else asked
