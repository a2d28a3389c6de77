"""Shows the running instance when the app is started a second time."""

from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from time import monotonic, sleep
from urllib.parse import parse_qs, urlsplit

from app.database.data_folder import DataFolder
from app.errors import DataFolderInUse

RAISE_ROUTE = "/foresight/raise"
"""The route that raises the native window. It answers 204; without a window, 200 with an address to open."""
STARTING_SECONDS = 30.0
"""Seconds that the first instance may take to publish its address."""
ANSWER_SECONDS = 5.0
Show = Callable[[str], object]


def switch(folder: DataFolder, in_use: DataFolderInUse, show: Show | None) -> str:
    """Show the running instance that uses the data folder, and return a sentence with its address.

    `show` opens an address in a browser; without it nothing is shown. Waits up to STARTING_SECONDS for the
    address. Raises `in_use` if there is still no address."""
    deadline = monotonic() + STARTING_SECONDS
    while not (address := folder.running_at()) and monotonic() < deadline and folder.is_held():
        sleep(0.1)
    if not address:
        raise in_use
    if show is None:
        return f"Foresight is already open at {address}"
    if opening := raise_window(address):
        show(opening)
    return f"Foresight is already open at {address}. Switching to it."


def raise_window(address: str) -> str:
    """Raise the native window of the app at this address. Returns "" if that works, else the address to open
    in a browser."""
    place = urlsplit(address)
    key = "".join(parse_qs(place.query).get("key", ()))
    connection = HTTPConnection(place.hostname or "", place.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", RAISE_ROUTE, headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = answer.read().decode("ascii", errors="replace")
        return {204: "", 200: body}.get(answer.status, address)
    except (OSError, HTTPException):
        return address
    finally:
        connection.close()
