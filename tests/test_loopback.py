"""Nothing leaves the machine, by Chromium's own word: the real app is used in every view, then its log is read.

Asserted: every request that a page caused (URL_REQUEST) goes to 127.0.0.1 and the app's port, and so does every
TCP or UDP connection, whoever tried it (but IPV6_PROBE). What Chromium asks for itself is switched off as far as
its arguments in tests/conftest.py allow; the rest is named in OWN_SERVICES, may be nothing else, and gets no
address, so that it is never connected."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import Launch
from tests.net_log import NetLog
from tests.page_driver import PageDriver
from tests.support.app_process import AppProcess

pytestmark = pytest.mark.browser

OWN_SERVICES = {"clients2.google.com", "update.googleapis.com", "accounts.google.com"}
"""The time, newer parts of the browser, and who is signed in: asked by the browser itself at its start."""
IPV6_PROBE = "[2001:4860:4860::8888]:443"
"""Chromium binds a UDP socket to this address to see whether there is IPv6, and sends nothing."""
NO_NAMES = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
VIEWS = (("models", "#installed .line"), ("race", "#race .race-chart"), ("settings", "#settings-general"))
IMAGES = "See ![a](http://evil.example/a.png), [b](http://evil.example/b) and http://evil.example/c"


def use_everything(browser: Any, app: AppProcess) -> None:
    """Chat, and look at every view."""
    with PageDriver(browser, app.url) as person:
        person.page.wait_for_selector("#status .ready", timeout=300_000)
        person.send(IMAGES)
        person.wait_for_reply()
        person.press("Details")
        person.page.click("#open-xray")
        person.page.wait_for_selector("#xray-picture .xray")
        person.page.keyboard.press("Escape")
        for view, shown in (
            ("models", "#installed .line"),
            ("race", "#race .race-chart"),
            ("settings", "#settings-general"),
        ):
            person.page.click(f"#to-{view}")
            person.page.wait_for_selector(shown)
        person.page.click("#settings-nav [data-section=data]")
        person.page.click("#self-check")
        person.page.wait_for_selector("#checks li")


@pytest.mark.thorough
def test_nothing_leaves_the_machine(launch: Launch, tmp_path: Path) -> None:
    log = tmp_path / "net.json"
    with AppProcess(tmp_path / "data") as app:
        own = launch(f"--log-net-log={log}", NO_NAMES)
        use_everything(own, app)
        own.close()
    seen, home = NetLog(log), f"127.0.0.1:{app.port}"
    assert {urlsplit(url).netloc for url in seen.requested()} == {home}
    assert set(seen.requested_by_browser()) <= OWN_SERVICES
    assert set(seen.connected()) - {IPV6_PROBE} == {home}
