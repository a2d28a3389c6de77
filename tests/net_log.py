"""Whom a Chromium talked to, by its own network log (--log-net-log): every request, look-up and connection."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

QUIET_SCHEMES = ("data", "blob", "chrome", "chrome-extension", "devtools", "about")
"""Schemes of addresses that lead nowhere."""
CONNECTS = ("TCP_CONNECT_ATTEMPT", "UDP_CONNECT", "SOCKS_CONNECT")


class NetLog:
    def __init__(self, file: Path) -> None:
        log = json.loads(file.read_text(encoding="utf-8"))
        self._names = {number: name for name, number in log["constants"]["logEventTypes"].items()}
        self._events = log["events"]

    def requested(self) -> list[str]:
        """The addresses that pages asked for, by a tab's navigation or from inside a page."""
        return [str(seen["url"]) for seen in self._requests() if not _is_browsers_own(seen)]

    def requested_by_browser(self) -> list[str]:
        """The hosts that the browser itself asked, no page being the cause."""
        return [
            urlsplit(str(seen["url"])).hostname or "" for seen in self._requests() if _is_browsers_own(seen)
        ]

    def _requests(self) -> list[dict[str, Any]]:
        """All requests (URL_REQUEST_START_JOB) but those that stay inside the browser."""
        seen = [seen for name, seen in self._told() if name == "URL_REQUEST_START_JOB" and "url" in seen]
        return [one for one in seen if urlsplit(str(one["url"])).scheme not in QUIET_SCHEMES]

    def connected(self) -> list[str]:
        """The addresses of all connections that were tried, TCP and UDP."""
        return [
            str(seen["address"]) for name, seen in self._told() if name in CONNECTS and seen.get("address")
        ]

    def _told(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for event in self._events:
            yield self._names.get(event["type"], ""), event.get("params", {})


def _is_browsers_own(seen: dict[str, Any]) -> bool:
    """Whether no page is the cause: one has an origin, and a navigation at least the partition of its address."""
    key = str(seen.get("network_isolation_key", ""))
    return seen.get("initiator") == "not an origin" and not key.startswith("http://127.0.0.1")
