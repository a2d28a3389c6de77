"""The open pages, and what the server keeps for each of them: its chat, its search results, its X-ray.

Gradio's own session state is not used: with a `gr.State` every page holds a connection open, of which a browser has
six for all tabs together. The values here live as long as their page, by Gradio's session hash:

    load event   ->  open         the page exists
    WebSocket    ->  connect      the page is drawn: see page_socket.py
    closed       ->  disconnect   its values go
    lost         ->  disconnect   its values stay for a while, since it may come back
"""

import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, get_type_hints

import gradio as gr

from app.ui.error_handling import RELOAD, Notify

T = TypeVar("T")
KEPT = 64
"""How many pages without a connection are kept; a page that was lost longest ago goes first."""
LISTENING: dict[str, Any] = {
    "show_progress": "hidden",
    "concurrency_limit": None,  # one page's events never wait for another's
    "api_visibility": "private",  # none is part of an API
}


class PageValue(Generic[T]):
    """A value that each page has for itself, made when it is first asked for."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make


class PageState:
    """One page's values; `connections` counts its WebSockets: a page may come back before its loss was noticed."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.connections = 0
        self._values: dict[PageValue[Any], Any] = {}

    def get(self, value: PageValue[T]) -> T:
        """The page's own value."""
        if value not in self._values:
            self._values[value] = value.make()
        kept: T = self._values[value]
        return kept

    def set(self, value: PageValue[T], now: T) -> None:
        """Keep another one."""
        self._values[value] = now


class Pages:
    """All pages that are open, or were lost a short while ago. Safe to use from any thread."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, PageState] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pages)

    def open(self, session: str) -> PageState:
        """A new page."""
        page = PageState(session)
        with self._lock:
            self._pages[session] = page
            self._forget_oldest()
        return page

    def find(self, session: str | None) -> PageState | None:
        """The page of this session; None where another run of the app has drawn it, or it is long gone."""
        return self._pages.get(session or "")

    def connect(self, session: str) -> PageState | None:
        """The same, once its WebSocket is there."""
        with self._lock:
            if page := self._pages.get(session):
                page.connections += 1
            return page

    def disconnect(self, page: PageState, is_closed: bool) -> None:
        """A WebSocket of the page has ended: because the page was closed, or for a reason that may pass."""
        with self._lock:
            page.connections -= 1
            if is_closed and not page.connections:
                self._pages.pop(page.session, None)
            elif page.session in self._pages:
                self._pages.move_to_end(page.session)
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        lost = [page for page in self._pages.values() if not page.connections]
        for page in lost[:-KEPT]:
            del self._pages[page.session]


class PageEvents:
    """Joins events with what they do. Among inputs and outputs may be page values: handlers get and return them
    like any other input or output."""

    def __init__(self, pages: Pages, notify: Notify) -> None:
        self.pages = pages
        self._notify = notify

    def on(
        self,
        listener: Callable[..., Any],
        handler: Callable[..., Any],
        inputs: Any = (),
        outputs: Any = (),
        **options: Any,
    ) -> Any:
        """Have the listener of a component call the handler with the inputs, and draw the outputs."""
        given, drawn = _listed(inputs), _listed(outputs)
        if any(isinstance(each, PageValue) for each in (*given, *drawn)):
            handler = self._for_page(handler, given, drawn)
        return listener(handler, _components(given), _components(drawn), **{**LISTENING, **options})

    def _for_page(
        self, handler: Callable[..., Any], given: Sequence[Any], drawn: Sequence[Any]
    ) -> Callable[..., Any]:
        """The handler as Gradio calls it: with the request, which tells the page."""
        event_at = _event_at(handler)

        def results(
            request: gr.Request, event: Sequence[gr.EventData], values: Sequence[Any]
        ) -> Iterator[Any]:
            page, others = self.pages.find(request.session_hash), iter(values)
            if page is None:
                self._notify(RELOAD)
                yield gr.skip()
                return
            arguments = [page.get(each) if isinstance(each, PageValue) else next(others) for each in given]
            arguments[event_at or 0 : event_at or 0] = event
            result = handler(*arguments)
            for each in result if inspect.isgenerator(result) else (result,):
                yield _kept(page, drawn, each)

        # Gradio looks at what kind of function it gets, and at the types of its arguments.
        def generate(request: gr.Request, *values: Any) -> Iterator[Any]:
            yield from results(request, (), values)

        def with_event(request: gr.Request, event: gr.EventData, *values: Any) -> Any:
            return next(results(request, (event,), values))

        def without_event(request: gr.Request, *values: Any) -> Any:
            return next(results(request, (), values))

        if inspect.isgeneratorfunction(handler):
            return generate
        return without_event if event_at is None else with_event


def _kept(page: PageState, drawn: Sequence[Any], result: Any) -> Any:
    """The result without the page's values, which are kept."""
    if len(drawn) < 2 or result == gr.skip():
        return result
    for output, value in zip(drawn, result, strict=True):
        if isinstance(output, PageValue) and value != gr.skip():
            page.set(output, value)
    shown = [value for output, value in zip(drawn, result, strict=True) if not isinstance(output, PageValue)]
    return shown if len(shown) > 1 else shown[0]


def _event_at(handler: Callable[..., Any]) -> int | None:
    """Which of the handler's arguments is the event's data."""
    hints = get_type_hints(handler.func if isinstance(handler, partial) else handler)
    names = list(inspect.signature(handler).parameters)
    return next((at for at, name in enumerate(names) if hints.get(name) is gr.EventData), None)


def _listed(places: Any) -> list[Any]:
    if places is None:
        return []
    return list(places) if isinstance(places, (list, tuple)) else [places]


def _components(places: Sequence[Any]) -> list[Any]:
    return [place for place in places if not isinstance(place, PageValue)]
