"""The Load dialog: how a model is loaded, whether it fits so, and what went wrong when it was tried."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from markupsafe import Markup

from app.errors import AppError, BadOption
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_events import unexpected
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.models.fit_bar import fit_values
from app.ui.models.inventory import CONTEXT, InventoryCache, load_name
from app.ui.models.load_options import (
    DraftOptions,
    LoadOptions,
    choice_from,
    contexts,
    draft_options,
    options_here,
)
from app.ui.models.recommended import quantisation_for
from app.values.messages import EngineStatus, ModelChoice
from app.values.model import Fit, InstalledModel, copying_words, gigabytes
from app.values.quantisation import Quantisation

STOP = "stop"
"""The name of the button that also stops the reply which is being written."""
LONGEST = 10_000_000
PACKED: tuple[Quantisation, ...] = ("int8", "int4")


@dataclass(frozen=True, slots=True)
class LoadForm:
    """What the dialog shows. `longest` is the model's own context, `drafts` the models that can draft for it.

    `recommended` is the quantisation that is fastest here. `problem` says why it could not be loaded."""

    model: InstalledModel
    choice: ModelChoice
    options: LoadOptions
    longest: int
    drafts: DraftOptions
    fit: Fit | None
    recommended: Quantisation = "none"
    problem: str = ""
    is_loading: bool = False


class LoadDialog:
    """The dialog of one page: its form while it is open."""

    def __init__(self) -> None:
        self.form: LoadForm | None = None


class LoadActions:
    """Opens the dialog, and does what its controls say."""

    def __init__(self, services: Services, inventory: InventoryCache) -> None:
        self._services = services
        self._inventory = inventory

    def open(self, dialog: LoadDialog, model: InstalledModel) -> None:
        """Ask how to load this model: as it was loaded last, else with the quantisation that suits it best."""
        found = self._inventory.get()
        options = options_here(found.gpus if found else ())
        choice = options.allowed(self._services.settings.choice_of(load_name(model)))
        drafts = draft_options(self._services.models.draft_models(model), choice.draft_model)
        fit = self._fit(model, replace(choice, quantisation="none"))
        recommended = quantisation_for(found, model.name, fit) if found else "none"
        form = self._judged(LoadForm(model, choice, options, self._longest(model), drafts, fit, recommended))
        is_new = not self._services.settings.was_loaded(choice.name)
        dialog.form = self._preselected(form) if is_new else form

    def open_path(self, dialog: LoadDialog, path: str) -> None:
        """Ask how to load the model in this folder or GGUF file. Raises ModelError."""
        self.open(dialog, self._services.models.open_path(path))

    def act(self, dialog: LoadDialog, event: gr.EventData) -> None:
        """A control was changed, or a button pressed."""
        do, name, value = pressed(event)
        form = dialog.form
        if do == "close-load" or form is None:
            dialog.form = None
            return
        try:
            form = replace(form, choice=choice_from(form.choice, form_values(value)), problem="")
            dialog.form = self._judged(form)
            if do == "load-form":
                self._load(dialog, dialog.form, is_stopping=name == STOP)
        except AppError as error:
            dialog.form = replace(form, problem=str(error))

    def _load(self, dialog: LoadDialog, form: LoadForm, is_stopping: bool) -> None:
        if self._services.is_busy and not is_stopping:
            return  # it is drawn anew, with what to do about the reply
        self._services.conversations.stop_all()
        dialog.form = loading = replace(form, is_loading=True)
        self._services.choose_model(form.choice, self._ended(dialog, loading))

    def _ended(self, dialog: LoadDialog, loading: LoadForm) -> Callable[[bool], None]:
        def ended(is_loaded: bool) -> None:
            if dialog.form != loading:  # closed meanwhile, or opened for another model
                return
            sentence = self._services.engine.status().note
            dialog.form = None if is_loaded else replace(loading, is_loading=False, problem=sentence)

        return ended

    def _preselected(self, form: LoadForm) -> LoadForm:
        """The form of a model that was never loaded: with the recommended quantisation, or one that fits."""
        if form.recommended != "none":
            return self._judged(replace(form, choice=replace(form.choice, quantisation=form.recommended)))
        return form if form.fit is None or form.fit.verdict == "fits" else self._quantised(form)

    def _quantised(self, form: LoadForm) -> LoadForm:
        """The form with the first quantisation that fits; as it is where none does."""
        here = {option.value for option in form.options.quantisation}
        tried = (
            self._judged(replace(form, choice=replace(form.choice, quantisation=one)))
            for one in PACKED
            if one in here
        )
        return next((one for one in tried if one.fit and one.fit.verdict == "fits"), form)

    def _longest(self, model: InstalledModel) -> int:
        fit = self._fit(model, ModelChoice(load_name(model), context=LONGEST))
        return fit.context if fit else CONTEXT

    def _judged(self, form: LoadForm) -> LoadForm:
        return replace(form, fit=self._fit(form.model, form.choice))

    def _fit(self, model: InstalledModel, choice: ModelChoice) -> Fit | None:
        found, models = self._inventory.get(), self._services.models
        memory = found.memory if found and choice.device != "cpu" else models.memory(choice.device)
        try:
            return self._inventory.judge(model, choice, memory)
        except AppError:  # loading it says what is wrong
            return None


def form_values(value: str) -> dict[str, Any]:
    """The values of the form. Raises BadOption."""
    try:
        values = json.loads(value or "{}")
    except ValueError as error:
        raise BadOption(unexpected(error)) from error
    return values if isinstance(values, dict) else {}


def load_dialog_html(form: LoadForm | None, status: EngineStatus, is_busy: bool) -> Markup:
    """The dialog; nothing while it is closed."""
    if form is None:
        return Markup()
    choice = form.choice
    return render_macro(
        "load_dialog.html",
        "load_dialog",
        form=form,
        facts=[gigabytes(form.model.size), f"{form.longest:,} tokens of context"],
        contexts=contexts(form.longest, choice.context),
        fit=fit_values(form.fit) if form.fit else None,
        slow=f"Slow: about {copying_words(form.fit.offloaded)}." if form.fit and form.fit.offloaded else "",
        progress=(status.note or "Loading…") if form.is_loading else "",
        is_busy=is_busy and not form.is_loading,
        stop=STOP,
    )
