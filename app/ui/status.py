"""The line at the top of the page, and a model in words."""

from html import escape

from app.messages import EngineStatus, ModelInfo
from app.ui.words import parameters_in_words


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
