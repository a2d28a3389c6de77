"""What is asked before something is lost: a sentence and two buttons, of which the second changes nothing."""

import json
from dataclasses import astuple
from html import escape

from app.errors import impossible_values
from app.messages import ModelChoice
from app.model_messages import Download, InstalledModel, gigabytes
from app.ui.pieces import button

NOTHING = ""


def ask(sentence: str, yes: str, no: str = button("Keep it", "no")) -> str:
    """The question as HTML."""
    return (
        '<div class="question" role="alertdialog" aria-modal="true" aria-labelledby="asked"><div>'
        f'<p id="asked">{escape(sentence)}</p><div class="actions">{yes}{no}</div></div></div>'
    )


def about_deleting(model: InstalledModel, frees: int) -> str:
    """Before a model's files go."""
    yes = button("Delete", "delete-now", str(model.path), about=model.name, kind="danger")
    return ask(f"Delete {model.name} from this machine? That frees {gigabytes(frees)}.", yes)


def about_cancelling(download: Download) -> str:
    """Before what has come of a download goes."""
    yes = button("Cancel the download", "cancel-now", download.name, kind="danger")
    return ask(f"Cancel {download.name}? The {gigabytes(download.done)} that have come are removed.", yes)


def about_switching(choice: ModelChoice) -> str:
    """Before a reply is stopped for another model."""
    value = json.dumps(astuple(choice))
    yes = button("Stop it and load", "load-now", choice.name, kind="primary", value=value)
    no = button("Let it finish", "no")
    return ask(f"A reply is being written. Stop it, and load {choice.name.partition('@')[0]}?", yes, no)


def about_unloading() -> str:
    """Before a reply is stopped so that its model can go."""
    yes = button("Stop it and unload", "unload-now", kind="primary")
    return ask("A reply is being written. Stop it, and unload the model?", yes, button("Let it finish", "no"))


def chosen_in(value: str) -> ModelChoice:
    """The choice that the button of `about_switching` carries."""
    with impossible_values():
        return ModelChoice(*json.loads(value))
