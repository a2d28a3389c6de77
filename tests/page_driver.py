"""Uses the page as a person does, in words; watches that it stays quiet and keeps to itself."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlsplit

LAPTOP = {"width": 1366, "height": 768}
DESKTOP = {"width": 2560, "height": 1440}
PATIENCE = 300_000
"""Milliseconds until something that was waited for is called missing."""
LEFT = "about:blank#left"
"""Where a page is that the next driver may take."""
LAST = "#messages article.assistant.last"
"""The last answer; it has a footer once it is complete."""


@contextmanager
def watched(browser: Any, url: str) -> Iterator["PageDriver"]:
    """A person in front of the page. Whatever happens, the page stays quiet and asks nobody else."""
    with PageDriver(browser, url) as driver:
        yield driver
        assert driver.complaints == [], driver.complaints
        assert driver.foreign == []


class PageDriver:
    """One page in a context of its own, and what it did that it should not."""

    def __init__(self, browser: Any, url: str, scheme: str = "light", size: dict[str, int] = LAPTOP) -> None:
        self.page = _left_page(browser) or browser.new_context().new_page()
        self._context = self.page.context
        self._context.set_default_timeout(PATIENCE)
        self.page.set_viewport_size(size)
        # What moves would be measured half way.
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self._listeners: tuple[tuple[Any, str, Callable[[Any], None]], ...] = (
            (self.page, "console", self._heard),
            (self.page, "pageerror", lambda error: self.complaints.append(str(error))),
            (self._context, "request", self._asked),
        )
        for emitter, event, listener in self._listeners:
            emitter.on(event, listener)
        self.page.goto(url)
        self._wait_until_drawn()

    def __enter__(self) -> "PageDriver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_usable = len(self._context.pages) == 1 and self.page.url.startswith("http")
        if error or not is_usable:
            self._context.close()
        else:
            self._leave()

    def _leave(self) -> None:
        """Make the page as good as new for the next driver: a new one costs the browser two processes, which take
        two seconds to start."""
        for emitter, event, listener in self._listeners:
            emitter.remove_listener(event, listener)
        self.page.unroute_all(behavior="ignoreErrors")
        parts = urlsplit(self.page.url)
        # What is typed is kept when a page is left.
        self.page.evaluate("() => { sessionStorage.clear(); Storage.prototype.setItem = () => {}; }")
        self.page.goto(LEFT)
        self.page.emulate_media(
            media="null", color_scheme="null", reduced_motion="null", forced_colors="null"
        )
        self._context.clear_cookies()
        self._context.clear_permissions()
        devtools = self._context.new_cdp_session(self.page)
        kept = {"origin": f"{parts.scheme}://{parts.netloc}", "storageTypes": "all"}
        devtools.send("Storage.clearDataForOrigin", kept)
        devtools.detach()

    def reload(self) -> None:
        """Load the page anew. What Gradio says about the streams that this breaks off is not counted."""
        before = list(self.complaints)
        self.page.reload()
        self._wait_until_drawn("attached")  # another view than the chat may be open
        self.complaints[:] = before

    def wait_until_ready(self) -> None:
        self.page.wait_for_selector("#status .ready", timeout=300_000)

    def begin_chat(self) -> None:
        """Begin a chat, and wait until it is the one on the page."""
        self.page.click("#new-chat")
        self.page.wait_for_selector("#welcome")

    def ask(self, question: str) -> str:
        """Ask, and wait for the whole reply."""
        before = self.page.locator("#messages article.user").count()
        self.send(question)
        self.page.wait_for_function(
            "before => document.querySelectorAll('#messages article.user').length > before", arg=before
        )
        return self.wait_for_reply()

    def send(self, text: str) -> None:
        self.page.fill("#message textarea", text)
        self.page.press("#message textarea", "Enter")

    def wait_for_reply(self, timeout: float = 300) -> str:
        """Wait until the reply is complete, and read it."""
        self.page.wait_for_selector(f"{LAST} footer", timeout=timeout * 1000)
        return self.last_answer()

    def wait_for_text(self, timeout: float = 300) -> None:
        """Wait until some of the reply is there."""
        self.page.wait_for_selector("#live .prose > * > *", timeout=timeout * 1000)

    def last_answer(self) -> str:
        return str(self.page.locator(f"{LAST} .said").inner_text()).strip()

    def press(self, words: str) -> None:
        """Press a button below the last answer, or in its menu."""
        self.page.hover(LAST)
        button = self.page.locator(f"{LAST} footer button", has_text=words)
        if not button.is_visible():
            self.page.click(f"{LAST} footer summary")
        button.click()

    def regenerate(self) -> None:
        """Have the last answer written again by the same settings, which is asked about at temperature 0."""
        self.press("Regenerate")
        self.page.click(".question [data-do=same]")

    def open_tab(self, tab: str) -> None:
        """Open a tab of the panel beside the chat: settings, live or xray."""
        self.page.click(f"#side-tab-{tab}")

    def open_chat(self, title: str) -> None:
        self.page.click(f".chat-line .open >> text={title}")
        self.page.wait_for_selector(f".chat-line[aria-current] >> text={title}")

    def do_with_chat(self, title: str, action: str, answer: str = "") -> None:
        """Press a line of a chat's menu, and answer in place what it asks for."""
        line = self.page.locator(".chat-line", has_text=title)
        line.hover()
        line.locator("summary").click()
        line.locator(f"[data-do={action}]").click()
        if answer:
            self.page.fill(".in-place", answer)
            self.page.press(".in-place", "Enter")

    def saved_by_menu(self, title: str, action: str) -> str:
        """Save a chat by its menu, and read the file."""
        with self.page.expect_download() as download:
            self.do_with_chat(title, action)
        return str(download.value.path().read_text(encoding="utf-8"))

    def edit_question(self, text: str) -> None:
        """Write the last question anew and send it."""
        question = self.page.locator("#messages article.user").last
        question.hover()
        question.locator("footer [data-show=editor]").click()
        question.locator(".editor textarea").fill(text)
        question.locator(".editor [data-do=edit]").click()

    def paste(self, title: str, text: str) -> None:
        """Paste a text into the open collection, and wait until it can be asked."""
        self.page.click("#to-documents")
        self.page.fill("#paste textarea", text)
        self.page.fill("#paste-title :is(input, textarea)", title)
        self.page.click("#paste-add")
        self.page.wait_for_selector(f"#document-list .is-ready >> text={title}")

    def consult(self) -> None:
        """Have the chat ask the first collection."""
        self.page.click(".collection-picker > .open")
        self.page.click(".collection-picker [role=checkbox]")
        self.page.wait_for_selector(".collection-picker.on")
        self.page.keyboard.press("Escape")

    def remove_document(self) -> None:
        """Remove the only document of the open collection."""
        self.page.click("#to-documents")
        self.page.click("#document-list [data-do=remove]")
        self.page.wait_for_selector("#document-list .empty")

    def saved(self, selector: str) -> str:
        """Press a button that saves a file, and read the file."""
        with self.page.expect_download() as download:
            self.page.click(selector)
        return str(download.value.path().read_text(encoding="utf-8"))

    def text(self, selector: str) -> str:
        """An element's text; nothing while it is not there."""
        script = "selector => document.querySelector(selector)?.innerText ?? ''"
        return str(self.page.evaluate(script, selector)).strip()

    def is_dark(self) -> bool:
        """Whether the page is drawn dark: judged by its background."""
        colour = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
        return red + green + blue < 3 * 128

    def _wait_until_drawn(self, message_box: Literal["visible", "attached"] = "visible") -> None:
        self.page.wait_for_selector("#message textarea", state=message_box)
        self.page.wait_for_selector("#status .status")

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location.get('url')})")

    def _asked(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
            self.foreign.append(request.url)


def _left_page(browser: Any) -> Any:
    """Return a page that an earlier driver has left, if there is one."""
    pages = (page for context in browser.contexts for page in context.pages)
    return next((page for page in pages if page.url == LEFT), None)
