"""Uses the page as a person does, in words; watches that it stays quiet and keeps to itself."""

import re
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

LAPTOP = {"width": 1366, "height": 768}


class PageDriver:
    """One page in a context of its own, and what it did that it should not."""

    def __init__(self, browser: Any, url: str, scheme: str = "light", size: dict[str, int] = LAPTOP) -> None:
        self._context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self._context.new_page()
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self._context.on("request", self._asked)
        self.page.goto(url)
        self._wait_until_drawn()

    def __enter__(self) -> "PageDriver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.close()

    def reload(self) -> None:
        """Load the page anew. What Gradio says about the streams that this breaks off is not counted."""
        before = list(self.complaints)
        self.page.reload()
        self._wait_until_drawn()
        self.complaints[:] = before

    def send(self, text: str) -> None:
        """Type a message and press Enter."""
        self.page.fill("#message textarea", text)
        self.page.press("#message textarea", "Enter")

    def wait_for_reply(self, timeout: float = 60) -> str:
        """Wait until the reply is complete, and read it."""
        self.page.wait_for_selector("#regenerate:not([disabled])", timeout=timeout * 1000)
        return self.last_answer()

    def wait_for_text(self, timeout: float = 60) -> None:
        """Wait until some of the reply is there."""
        self.page.wait_for_selector("#live .md > *", timeout=timeout * 1000)

    def last_answer(self) -> str:
        """The last answer in the chat."""
        return str(self.page.locator("#chatbot .bot-row .message-content").last.inner_text()).strip()

    def observe(self, selector: str, seconds: float) -> list[str]:
        """The different texts that an element shows, looked at 20 times a second until the reply ends."""
        seen: list[str] = []
        for _ in range(int(seconds * 20)):
            if self.page.locator("#regenerate:not([disabled])").count():
                break
            text = self.text(selector)
            if text and text not in seen:
                seen.append(text)
            self.page.wait_for_timeout(50)
        return seen

    def text(self, selector: str) -> str:
        """An element's text; nothing while it is not there."""
        script = "selector => document.querySelector(selector)?.innerText ?? ''"
        return str(self.page.evaluate(script, selector)).strip()

    def is_dark(self) -> bool:
        """Whether the page is drawn dark: judged by its background."""
        colour = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
        return red + green + blue < 3 * 128

    def _wait_until_drawn(self) -> None:
        self.page.wait_for_selector("#message textarea")
        self.page.wait_for_selector("#status .status")

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
            self.foreign.append(request.url)
