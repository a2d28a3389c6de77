"""The line below the message box: how much of the model's context the chat takes, and what does not fit."""

import json
from dataclasses import astuple, dataclass
from html import escape

from markupsafe import Markup

from app.conversation import Fit
from app.ui.pieces import button
from app.ui.templates import render_macro


def meter_html(fit: Fit | None, leaves_out: bool = False) -> str:
    """The meter; nothing while no model is there to count for. `leaves_out` as in `Conversations`."""
    if fit is None:
        return ""
    is_settled = fit.fits or (leaves_out and fit.fits_without_oldest)
    share = min(1.0, fit.tokens / fit.context)
    return (
        f'<p class="meter{"" if is_settled else " full"}"><meter min="0" max="1" value="{share:.4f}" '
        f'aria-label="Context in use"></meter><span>{escape(in_words(fit, leaves_out))}</span></p>'
    )


def in_words(fit: Fit, leaves_out: bool = False) -> str:
    """The chat against the context, and what will have to be chosen where it is too long."""
    used = f"{fit.tokens:,} of {fit.context:,} tokens"
    if fit.fits:
        return used
    if leaves_out and fit.fits_without_oldest:
        return f"{used}: the {fit.left_out} oldest messages are not sent."
    return f"{used}: too long with a reply of {fit.reserve:,}. You will be asked what to leave out."


@dataclass(frozen=True, slots=True)
class Pending:
    """A deed that waits for an answer: ask, regenerate, continue or edit, of which message, with what text."""

    deed: str
    name: str = ""
    value: str = ""


def overflow_html(fit: Fit, pending: Pending) -> str:
    """The question before anything is left out; its buttons carry the deed that they let go on."""
    value = json.dumps(astuple(pending))
    choices = []
    if fit.fits_without_oldest:
        words = f"Leave out the {fit.left_out} oldest messages"
        choices.append(button(words, "oldest", kind="primary", value=value))
    if fit.can_be_shorter:
        choices.append(button(f"Reply with at most {fit.room:,} tokens", "shorter", value=value))
    choices.append(button("New chat", "new"))
    sentence = (
        f"This chat has {fit.tokens:,} tokens; with {fit.reserve:,} kept for the reply that is more than the "
        f"{fit.context:,} of the model's context. Nothing is left out unless you say so."
    )
    buttons = Markup("".join(choices) + button("Cancel", "no"))
    return render_macro("macros.html", "dialog", sentence=sentence, buttons=buttons)


def pending_in(value: str) -> Pending:
    """The deed that a button of the question carries."""
    return Pending(*json.loads(value))
