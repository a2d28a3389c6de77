"""The Load dialog: the options for loading a model, whether it fits with them, and why loading failed."""

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from app.errors import AppError, BadOption, impossible_values
from app.ui.frame.event_handlers import unexpected
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.models.inventory import InventoryCache, fit_values, is_same_model, load_name
from app.values.messages import EngineStatus, ModelChoice
from app.values.model import (
    USUAL_CONTEXT,
    DraftModels,
    Fit,
    FolderContents,
    InstalledModel,
    copying_words,
    gigabytes,
)
from app.values.quantisation_sizes import Quantisation


@dataclass(frozen=True, slots=True)
class Option:
    """A value of a field of `ModelChoice`; `words` describe its advantages and its costs."""

    value: str
    label: str
    words: str = ""


AUTO = Option("auto", "Automatic")
PRECISIONS = (AUTO, Option("float32", "float32"), Option("bfloat16", "bfloat16 (half the memory of float32)"))
FLOAT16 = Option("float16", "float16 (for GPUs without bfloat16)")
FASTEST = Option("auto", "Automatic", "int8 if it makes the model faster with hardly any loss, else none.")
PLAIN = Option("none", "None", "The weights keep the precision chosen above.")
INT8_ON_CPU = (
    "It is about 5 times as fast as float32 and predicts hardly worse (its perplexity is 0.4% higher; measured "
    "with SmolLM2-135M, one token per step and a C compiler)."
)
ON_CPU = (
    Option("int8", "int8", f"Its weights take a quarter of float32's memory. {INT8_ON_CPU}"),
    Option(
        "int4",
        "int4",
        "Takes the least memory, but changes the text most; with float32 it is slower than no quantisation.",
    ),
)
ON_GPU = (
    Option("int8", "int8", "Takes half the memory of bfloat16 and changes the text little."),
    Option("int4", "int4", "Takes the least memory, but changes the text most, above all with small models."),
)
SDPA = Option("sdpa", "sdpa (torch)")
NATIVE = Option("native", "native (Foresight's own for CPUs)")
GPU_ATTENTION = {"triton": Option("triton", "triton"), "flash_attn": Option("flash", "flash (flash-attn)")}
"""Attention backends for a GPU, by the package that each needs."""
NO_DRAFT_MODEL = Option("", "None")
FIELDS = ("dtype", "quantisation", "device", "attention", "draft_model")
CONTEXTS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)
STOP = "stop"
"""The name of the button that stops the current reply and then loads."""
LONGEST = 10_000_000
"""A context in tokens that the estimate shortens to the model's own context."""
PACKED: tuple[Quantisation, ...] = ("int8", "int4")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options for four fields of `ModelChoice`. A field with a single option is not shown."""

    dtype: tuple[Option, ...]
    quantisation: tuple[Option, ...]
    device: tuple[Option, ...]
    attention: tuple[Option, ...]

    def allowed(self, choice: ModelChoice) -> ModelChoice:
        """Replace values that this machine lacks by the first option. Another machine may have saved them."""
        for field in fields(self):
            known = [option.value for option in getattr(self, field.name)]
            if getattr(choice, field.name) not in known:
                choice = replace(choice, **{field.name: known[0]})
        return choice


def options_here(
    gpus: Sequence[str], has_package: Any = find_spec, system: tuple[str, str] | None = None
) -> LoadOptions:
    """Return the options of this machine, given its GPUs, its packages, and its (system, processor)."""
    name, processor = system or (platform.system(), platform.machine())
    has_gpu = bool(gpus) or (name, processor) == ("Darwin", "arm64")
    packed = (ON_GPU if has_package("triton") else ON_GPU[1:]) if gpus else () if has_gpu else ON_CPU
    cuda = [Option("cuda", f"GPU ({gpus[0]})")] if gpus else []
    kernels = [option for package, option in GPU_ATTENTION.items() if gpus and has_package(package)]
    if name == "Linux" and not gpus:
        kernels.append(NATIVE)
    return LoadOptions(
        dtype=(*PRECISIONS, FLOAT16) if has_gpu else PRECISIONS,
        quantisation=(FASTEST, PLAIN, *packed),
        device=(AUTO, Option("cpu", "CPU"), *cuda) if has_gpu else (AUTO,),
        attention=(AUTO, SDPA, *kernels),
    )


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """The models that can draft for a model, "None" first. `hint` is a sentence on a draft model that is known to
    work well; "" if none is known."""

    models: tuple[Option, ...]
    hint: str = ""


def draft_options(found: DraftModels, chosen: str) -> DraftOptions:
    """Return the draft models to choose from, including the chosen one if it is not listed."""
    models = [Option(load_name(one), one.name) for one in found.installed]
    if chosen and all(one.value != chosen for one in models):
        models.append(Option(chosen, Path(chosen).name))
    is_here = any(one.name == found.known for one in found.installed)
    known = f"{found.known} is known to work well{'.' if is_here else ': download it in Models.'}"
    return DraftOptions((NO_DRAFT_MODEL, *models), known if found.known else "")


def contexts(longest: int, chosen: int) -> list[tuple[int, str]]:
    """Return the context lengths to choose from, in tokens, with their labels; 0 is the model's own length."""
    shorter = sorted({one for one in (*CONTEXTS, chosen) if 0 < one < longest})
    return [(0, f"Model's own ({longest:,} tokens)"), *((one, f"{one:,} tokens") for one in shorter)]


def choice_from(choice: ModelChoice, values: dict[str, Any]) -> ModelChoice:
    """Return the choice with a form's values, which omit unticked boxes. Raises BadOption."""
    changes: dict[str, Any] = {name: values[name] for name in FIELDS if name in values}
    with impossible_values():
        context, offload = int(values.get("context", choice.context)), "offload" in values
        return replace(choice, context=context, offload=offload, **changes)


def form_values(value: str) -> dict[str, Any]:
    """Parse the values of a form from JSON. Raises BadOption."""
    try:
        values = json.loads(value or "{}")
    except ValueError as error:
        raise BadOption(unexpected(error)) from error
    return values if isinstance(values, dict) else {}


@dataclass(frozen=True, slots=True)
class LoadForm:
    """What the dialog shows. `longest` is the model's own context; `drafts` are the models that can draft for it;
    `automatic` is the quantisation that "auto" selects here; `problem` is why the model could not be loaded."""

    model: InstalledModel
    choice: ModelChoice
    options: LoadOptions
    longest: int
    drafts: DraftOptions
    fit: Fit | None
    automatic: Quantisation = "none"
    problem: str = ""
    is_loading: bool = False


class LoadDialog:
    """The dialog of one page: its form while it is open, or the folder that the user browses. `problem` is why
    another folder or model could not be opened."""

    def __init__(self) -> None:
        self.form: LoadForm | None = None
        self.folder: FolderContents | None = None
        self.problem = ""


class LoadActions:
    """Opens the dialog, and handles the events of its controls."""

    def __init__(self, services: Services, inventory: InventoryCache) -> None:
        self._services = services
        self._inventory = inventory

    def open(self, dialog: LoadDialog, model: InstalledModel) -> None:
        """Open the dialog with the options of the model's last load; with preselected ones if it had none."""
        found = self._inventory.get()
        options = options_here(found.gpus if found else ())
        choice = options.allowed(self._services.settings.choice_of(load_name(model)))
        drafts = draft_options(self._services.models.draft_models(model), choice.draft_model)
        fit = self._fit(model, replace(choice, dtype="auto", quantisation="auto"))
        automatic = fit.quantisation if fit else "none"
        longest = self._fit(model, ModelChoice(load_name(model), context=LONGEST))
        context = longest.context if longest else USUAL_CONTEXT
        form = self._judged(LoadForm(model, choice, options, context, drafts, fit, automatic))
        is_new = not self._services.settings.was_loaded(choice.name)
        dialog.form, dialog.folder = self._preselected(form) if is_new else form, None

    def browse(self, dialog: LoadDialog, typed: str) -> None:
        """Let the user look for a model: in the typed folder, else in its parent, else in the home folder."""
        path = Path(typed.strip() or "~").expanduser()
        folders = [one for one in (path, path.parent, Path.home()) if one.is_absolute() and one.is_dir()]
        self._look_into(dialog, "browse", str(folders[0]) if folders else path.anchor)

    def _look_into(self, dialog: LoadDialog, do: str, path: str) -> None:
        dialog.problem = ""
        try:
            if do == "browse":
                dialog.form, dialog.folder = None, self._services.models.list_folder(Path(path))
            else:
                self.open(dialog, self._services.models.open_path(path))
        except AppError as error:
            dialog.problem = str(error)
            dialog.folder = dialog.folder or FolderContents(Path(path), Path(path).parent)

    def act(self, dialog: LoadDialog, event: gr.EventData) -> None:
        do, name, value = pressed(event)
        form = dialog.form
        if do == "cancel-load":
            return self._services.engine.cancel_load()
        if do in ("browse", "open-model"):
            return self._look_into(dialog, do, name)
        if do == "close-load" or form is None:
            dialog.form = dialog.folder = None
            return None
        try:
            form = replace(form, choice=choice_from(form.choice, form_values(value)), problem="")
            dialog.form = self._judged(form)
            if do == "load-form":
                self._load(dialog, dialog.form, is_stopping=name == STOP)
        except AppError as error:
            dialog.form = replace(form, problem=str(error))

    def _load(self, dialog: LoadDialog, form: LoadForm, is_stopping: bool) -> None:
        if self._services.conversations.is_busy and not is_stopping:
            return  # the dialog is drawn again and asks what to do about the reply
        self._services.conversations.stop_all()
        dialog.form = loading = replace(form, is_loading=True)

        def ended(is_loaded: bool) -> None:
            if dialog.form == loading:  # it was not closed in the meantime, nor opened for another model
                sentence = self._services.engine.status().note
                dialog.form = None if is_loaded else replace(loading, is_loading=False, problem=sentence)

        self._services.choose_model(form.choice, ended)

    def _preselected(self, form: LoadForm) -> LoadForm:
        """Return the form of a model that was never loaded, with a quantisation that fits if "auto" does not."""
        if form.fit is None or form.fit.verdict == "fits":
            return form
        here = {option.value for option in form.options.quantisation}
        choices = (replace(form.choice, quantisation=one) for one in PACKED if one in here)
        tried = (self._judged(replace(form, choice=choice)) for choice in choices)
        return next((one for one in tried if one.fit and one.fit.verdict == "fits"), form)

    def _judged(self, form: LoadForm) -> LoadForm:
        return replace(form, fit=self._fit(form.model, form.choice))

    def _fit(self, model: InstalledModel, choice: ModelChoice) -> Fit | None:
        found, models = self._inventory.get(), self._services.models
        memory = found.memory if found and choice.device != "cpu" else models.memory(choice.device)
        try:
            return self._inventory.judge(model, choice, memory)
        except AppError:  # the user sees what is wrong when the model is loaded
            return None


def folder_html(folder: FolderContents, problem: str) -> Markup:
    return render_macro("load_dialog.html", "folder_dialog", folder=folder, problem=problem)


def load_dialog_html(
    form: LoadForm | None, status: EngineStatus, is_busy: bool, loaded: ModelChoice | None = None
) -> Markup:
    """Render the dialog; nothing if it is closed. `loaded` are the options with which the model in use was loaded;
    the same model is loaded again only with other options."""
    if form is None:
        return Markup()
    is_loaded = status.model is not None and is_same_model(form.model, status.model)
    is_unchanged = is_loaded and loaded is not None and form.choice == replace(loaded, name=form.choice.name)
    return render_macro(
        "load_dialog.html",
        "load_dialog",
        form=form,
        facts=[gigabytes(form.model.size), f"{form.longest:,} tokens of context"],
        contexts=contexts(form.longest, form.choice.context),
        fit=fit_values(form.fit) if form.fit else None,
        slow=f"Slow: about {copying_words(form.fit.offloaded)}." if form.fit and form.fit.offloaded else "",
        progress=((status.phase == "loading" and status.note) or "Loading…") if form.is_loading else "",
        is_busy=is_busy and not form.is_loading and not is_unchanged,
        is_loaded=is_loaded,
        is_unchanged=is_unchanged and not form.is_loading,
        stop=STOP,
    )
