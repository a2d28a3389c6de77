"""The bar at the top of the page: the status line, the buttons that lead to the views, and the notice."""

from collections.abc import Callable

import gradio as gr
from markupsafe import Markup

from app.database.restoring import StagedBackup
from app.ui.frame.event_handlers import LISTEN, succeeded, toast
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.templates import render, render_macro
from app.ui.frame.theme import asset
from app.values.messages import EngineStatus, ModelInfo
from app.values.model import parameters_label

MOSTLY_QUANTISED = 0.8
"""If a smaller share of the weights is quantised, `describe` adds the share. Experts that are stacked in one
tensor, for example, are not quantised."""

PHASES = {
    "starting": "Starting…",
    "loading": "Loading the model…",
    "ready": "Ready",
    "busy": "Writing…",
    "failed": "The model could not be loaded: choose another one under Models.",
    "closed": "Foresight is closing.",
}


def describe(model: ModelInfo) -> str:
    """Describe a model in one line: demo · 7.3M parameters · int4 weights · bfloat16 · cpu · sdpa attention."""
    if model.server:
        return f"{model.name} · remote · {model.device}"
    name = model.name if model.label in ("", model.name) else f"{model.name} ({model.label})"
    size = f"{parameters_label(model.parameters)} parameters"
    attention = f"{model.attention} attention" if model.attention else ""
    quantised = model.weights
    if model.quantisation != "none" and model.quantised_share < MOSTLY_QUANTISED:
        quantised = f"{model.quantisation} for {model.quantised_share:.0%}"
    return " · ".join(filter(None, (name, size, quantised, model.dtype, model.device, attention)))


def short_name(model: ModelInfo) -> str:
    """Return the model's name without its organisation: "Qwen3-0.6B", or "Qwen3-0.6B · remote" on a server."""
    return model.name.rsplit("/", 1)[-1] + (" · remote" if model.server else "")


def status_html(status: EngineStatus) -> str:
    """Return the status line: the engine's note, the model's name while it is ready or busy, or the phase."""
    about = words = status.note or PHASES[status.phase]
    if status.model and status.phase in ("ready", "busy") and not status.note:
        words, about = short_name(status.model), describe(status.model)
    kind = status.phase if not status.note or status.model is None else "noted"
    return render("status.html", kind=kind, words=words, about=about)


class Notice:
    """The notice above all views: the newest note from `note` until the user dismisses it on any page, and the
    `backup` that will be restored at the next start, until the user discards it."""

    def __init__(self, note: Callable[[], str], backup: StagedBackup) -> None:
        self.backup = backup
        self._note = note
        self._read = ""

    def html(self) -> str:
        """Return the notice as HTML, without a note that was dismissed."""
        note = self._note()
        unread = note if note != self._read else ""
        return render("notice.html", note=unread, backup=self.backup.name)

    def act(self, event: gr.EventData) -> None:
        """Handle a button: dismiss the note, or discard the backup."""
        if pressed(event).do == "keep-chats":
            succeeded(toast, self.backup.discard)
        else:
            self._read = self._note()


class TopBar:
    """The components of the bar that have events, built inside the current Blocks."""

    def __init__(self) -> None:
        with gr.Row(elem_id="top"):
            icon = Markup(asset("icon.svg").read_text(encoding="utf-8"))
            gr.HTML(render_macro("top_bar.html", "brand", icon=icon), elem_id="brand", js_on_load=None)
            self.status = gr.HTML(elem_id="status", js_on_load=LISTEN)
            _, self.to_models, _, _, self.to_settings = [
                gr.Button(view, elem_id=f"to-{view.lower()}", size="sm", scale=0, min_width=0)
                for view in ("Chat", "Models", "Documents", "Race", "Settings")
            ]
            gr.HTML(render_macro("top_bar.html", "panel_buttons"), elem_id="side-switch", js_on_load=None)
        script = f"foresight.modelPicker(element, trigger); {LISTEN}"
        self.picker = gr.HTML(elem_id="model-picker", js_on_load=script)
