"""Connects the events of Gradio's components with handlers, and turns the errors of handlers into sentences.

Handlers may take and return page values (`PageValue`) beside the values of components."""

import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from time import time_ns
from typing import Any, TypeVar, get_type_hints

import gradio as gr

from app.errors import AppError, first_line
from app.ui.frame.page_connections import Pages, PageSession, PageValue
from app.ui.frame.services import Services
from app.ui.frame.templates import problem_html

Notify = Callable[[str], None]
"""Shows a sentence to the user as a toast."""
RELOAD = "Foresight does not know this page, perhaps after a restart. Reload the page. Your text is kept."
Result = TypeVar("Result")
Default = TypeVar("Default")
LISTEN = "foresight.listen(element, trigger)"
"""The `js_on_load` of a component whose HTML has buttons with data-do: pressing one becomes a click event of the
component, with `do`, `name` and `value` as its data. See assets/ui/foresight.js."""
UNCHECKED: dict[str, Any] = {"preprocess": False}
"""Arguments of events that read option controls, whose values option_controls.py checks. Gradio would refuse the
whole event for one number that is out of its slider's range, with a traceback in the terminal."""
UPLOADED: dict[str, Any] = {"trigger_mode": "multiple"}
"""Arguments of events of uploads. Without them, Gradio would drop an event that comes while it handles another."""
EVENT_OPTIONS: dict[str, Any] = {
    "show_progress": "hidden",
    "concurrency_limit": None,  # the events of one page never wait for those of another page
    "api_visibility": "private",  # no event is part of an API
}
log = logging.getLogger(__name__)


def try_or_notify(notify: Notify, action: Callable[[], Result], default: Default) -> Result | Default:
    """Return the action's result. If it fails, show why and return `default`. An error that is not an AppError is a
    bug, and its traceback is logged. `impossible_values` (errors.py) turns errors about values into AppErrors."""
    try:
        return action()
    except AppError as error:
        notify(str(error))
    except Exception as error:
        log.exception("An action of the page failed")
        notify(unexpected(error))
    return default


def unexpected(error: Exception) -> str:
    """Return the sentence for an error that is a bug."""
    return (
        f"That did not work because of a bug in Foresight ({first_line(error)}). "
        "The log has the details. Settings → About shows where it is."
    )


def succeeded(notify: Notify, action: Callable[[], object]) -> bool:
    """Run the action and return whether it succeeded. If it fails, show why."""
    failed = object()
    return try_or_notify(notify, action, failed) is not failed


def faults_html(faults: Mapping[str, str]) -> str:
    """Return HTML that makes the page show what is wrong below the box of each id; "" removes an earlier fault."""
    # `data-made` differs each time; otherwise the page would not notice that the same fault occurred again.
    return f'<data data-faults="{escape(json.dumps(dict(faults)))}" data-made="{time_ns()}"></data>'


def try_at_box(box: str, action: Callable[[], object]) -> tuple[bool, str]:
    """Run the action. Returns whether it succeeded, and `faults_html` for the box whose text the action uses."""
    problems: list[str] = []
    is_done = succeeded(problems.append, action)
    return is_done, faults_html({box: "".join(problems)})


def submit_box(box: str, text: str, action: Callable[[], object]) -> tuple[str, str]:
    """Run the action for a box. Returns the text that the box gets ("" after a success) and its `faults_html`."""
    is_done, faults = try_at_box(box, action)
    return "" if is_done else text, faults


def outcome_html(action: Callable[[], str]) -> str:
    """Run the action. Returns a line that stays on the page: the action's sentence, or the problem."""
    problems: list[str] = []
    sentence = try_or_notify(problems.append, action, "")
    return "".join(map(problem_html, problems)) or done_html(sentence)


def done_html(sentence: str) -> str:
    """Return a line that says what was done; "" for ""."""
    return f'<p class="done" role="status">{escape(sentence)}</p>' if sentence else ""


def done_line(name: str) -> gr.HTML:
    """Build the component that shows `done_html` inside the current Blocks."""
    return gr.HTML(elem_id=name, elem_classes="problem-line", js_on_load=None)


def hidden_output(name: str, script: str | None = None) -> gr.HTML:
    """Build a component that is not shown, whose HTML or clicks are for the page's script."""
    return gr.HTML(elem_id=name, elem_classes="hidden-output", js_on_load=script)


def toast(sentence: str) -> None:
    """Show what went wrong as a toast."""
    # A toast is drawn as HTML.
    gr.Warning(escape(sentence), duration=8, title="")


class Actions:
    """The event handlers of a part of the page, shared by all pages. `notify` shows why an action failed."""

    def __init__(self, services: Services, notify: Notify = toast) -> None:
        self._services = services
        self._notify = notify

    def _try(self, action: Callable[[], Any], default: Any = None) -> Any:
        return try_or_notify(self._notify, action, default)

    def _succeeded(self, action: Callable[[], object]) -> bool:
        return succeeded(self._notify, action)


class PageEvents:
    """Connects events with handlers. Inputs and outputs may include page values, which handlers take and return
    like components' values. `faults` is the output for `faults_html`."""

    def __init__(self, pages: Pages, notify: Notify, faults: gr.HTML | None = None) -> None:
        self.pages = pages
        self.faults = faults
        self._notify = notify

    def on(
        self,
        listeners: Callable[..., Any] | Sequence[Callable[..., Any]],
        handler: Callable[..., Any],
        inputs: Any = (),
        outputs: Any = (),
        **options: Any,
    ) -> None:
        """Make each listener call the handler with the inputs and show its results in the outputs."""
        given, drawn = _listed(inputs), _listed(outputs)
        if any(isinstance(each, PageValue) for each in (*given, *drawn)):
            handler = self._for_page(handler, given, drawn)
        for listener in listeners if isinstance(listeners, Sequence) else (listeners,):
            listener(handler, _components(given), _components(drawn), **{**EVENT_OPTIONS, **options})

    def _for_page(
        self, handler: Callable[..., Any], given: Sequence[Any], drawn: Sequence[Any]
    ) -> Callable[..., Any]:
        """Wrap the handler in a function that Gradio calls with the request, which identifies the page."""
        hints = get_type_hints(handler.func if isinstance(handler, partial) else handler)
        names = enumerate(inspect.signature(handler).parameters)
        event_at = next((at for at, name in names if hints.get(name) is gr.EventData), None)

        def results(
            request: gr.Request, event: Sequence[gr.EventData], values: Sequence[Any]
        ) -> Iterator[Any]:
            page, others = self.pages.find(request.session_hash), iter(values)
            if page is None:
                self._notify(RELOAD)
                yield gr.skip() if _components(drawn) else None
                return
            arguments = [page.get(each) if isinstance(each, PageValue) else next(others) for each in given]
            arguments[event_at or 0 : event_at or 0] = event
            result = handler(*arguments)
            for each in result if inspect.isgenerator(result) else (result,):
                yield _kept(page, drawn, each)

        # Gradio inspects the types of a handler's arguments, and whether it is a generator.
        def generate(request: gr.Request, *values: Any) -> Iterator[Any]:
            yield from results(request, (), values)

        def with_event(request: gr.Request, event: gr.EventData, *values: Any) -> Any:
            return next(results(request, (event,), values))

        def without_event(request: gr.Request, *values: Any) -> Any:
            return next(results(request, (), values))

        if inspect.isgeneratorfunction(handler):
            return generate
        return without_event if event_at is None else with_event


def _kept(page: PageSession, drawn: Sequence[Any], result: Any) -> Any:
    """Store the results that belong to page values, and return the others, as a list if there are several."""
    if result == gr.skip():
        return result
    results = result if len(drawn) > 1 else [result][: len(drawn)]
    for output, value in zip(drawn, results, strict=True):
        if isinstance(output, PageValue) and value != gr.skip():
            page.set(output, value)
    shown = [value for output, value in zip(drawn, results, strict=True) if not isinstance(output, PageValue)]
    return shown if len(shown) > 1 else next(iter(shown), None)


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _components(given: Sequence[Any]) -> list[Any]:
    return [one for one in given if not isinstance(one, PageValue)]
