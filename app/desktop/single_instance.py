"""A second start of the app opens the window of the first one."""

import webbrowser
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from time import monotonic, sleep
from urllib.parse import parse_qs, urlsplit

from app.database.data_folder import DataFolder
from app.errors import DataFolderInUse

RAISE_ROUTE = "/foresight/raise"
"""The route that raises the native window: 204 where there is one, else the address for a browser."""
STARTING_SECONDS = 30.0
"""How long the first instance may take to publish its address."""
ANSWER_SECONDS = 5.0
Show = Callable[[str], object]


def switch(folder: DataFolder, in_use: DataFolderInUse, show: Show | None) -> str:
    """Open the instance that has the data folder, and return a sentence; without `show`, only say where it is.

    Raises `in_use` when that instance publishes no address."""
    address = _address(folder)
    if not address:
        raise in_use
    if show is None:
        return f"Foresight is already open at {address}"
    if opening := raise_window(address):
        show(opening)
    return f"Foresight is already open at {address}, switching to it."


def show_page(address: str) -> None:
    """Open the page in the browser."""
    webbrowser.open(address)


def raise_window(address: str) -> str:
    """Raise the native window of the app at this address; returns what a browser is to open where there is none."""
    place = urlsplit(address)
    token = "".join(parse_qs(place.query).get("token", ()))
    connection = HTTPConnection(place.hostname or "", place.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", RAISE_ROUTE, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read().decode("ascii", errors="replace")
        return {204: "", 200: body}.get(answer.status, address)
    except (OSError, HTTPException):
        return address
    finally:
        connection.close()


def _address(folder: DataFolder) -> str:
    deadline = monotonic() + STARTING_SECONDS
    while not (address := folder.running_at()) and monotonic() < deadline and folder.is_held():
        sleep(0.1)
    return address
