"""`models download` and `models login`: bars for each file and for all, or a JSON line a second."""

import sys
import time
from collections.abc import Callable

import typer
from rich.progress import (
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from app.commands.bars import progress_bar
from app.commands.library import downloads_in, hub_of, library
from app.commands.printing import say, show_json
from app.errors import ModelError, ModelGated
from app.model_messages import Download, gigabytes
from app.models_registry import Downloads, Hub, HubId, log_in, log_out, require_hub_id
from app.settings import default_data_dir

LOOK_EVERY = 0.1
JSON_EVERY = 1.0

Show = Callable[[Download], None]


def download(name: str, as_json: bool) -> None:
    """Download a model and show how it goes. Raises ModelError when it fails."""
    settings = library()
    hub = hub_of(settings)
    wanted = require_hub_id(name, hub.endpoint)
    if folder := hub.cached(wanted):
        return _already(wanted, str(folder), as_json)
    downloads = downloads_in(default_data_dir(), settings)
    try:
        done = _follow(downloads, wanted, as_json)
        while done.asks_token and sys.stdin.isatty() and not as_json:
            say(done.note, err=True)
            ask_token(hub)
            done = _follow(downloads, wanted, as_json)
    except KeyboardInterrupt:
        downloads.close()
        say(f"Paused. The same command goes on: python run.py models download {wanted}", err=True)
        raise typer.Exit(130) from None
    if done.state == "failed":
        raise ModelGated(done.note) if done.asks_token else ModelError(done.note)
    if not as_json:
        say(f"{wanted} is here, checked: {gigabytes(done.size)} in {done.folder}")
    return None


def ask_token(hub: Hub | None = None) -> None:
    """Ask for a token, without showing it, and keep it."""
    hub = hub or hub_of(library())
    token = typer.prompt(f"Token (from {hub.address}/settings/tokens)", hide_input=True, err=True)
    say(f"Logged in as {log_in(hub, token)}.")


def forget_token() -> None:
    """Log out."""
    log_out()
    say("Logged out.")


def _already(wanted: HubId, folder: str, as_json: bool) -> None:
    if as_json:
        return show_json({"name": str(wanted), "state": "done", "folder": folder})
    say(f"{wanted} is here already: {folder}")
    return None


def _follow(downloads: Downloads, wanted: HubId, as_json: bool) -> Download:
    """Start a download and show it until it runs no more."""
    downloads.start(wanted)
    if as_json:
        return _until_it_ends(downloads, _json_lines())
    with _bars() as bars:
        return _until_it_ends(downloads, _into(bars))


def _until_it_ends(downloads: Downloads, show: Show) -> Download:
    while True:
        now = downloads.snapshot()[0]
        show(now)
        if now.state in ("done", "failed", "paused"):
            return now
        time.sleep(LOOK_EVERY)


def _json_lines() -> Show:
    told = [0.0]

    def show(download: Download) -> None:
        is_last = download.state not in ("queued", "running")
        if is_last or time.monotonic() - told[0] >= JSON_EVERY:
            told[0] = time.monotonic()
            show_json(_numbers(download))

    return show


def _numbers(download: Download) -> dict[str, object]:
    return {
        "name": download.name,
        "state": download.state,
        "done": download.done,
        "size": download.size,
        "speed": round(download.speed),
        "seconds_left": download.seconds_left,
        "note": download.note,
        "folder": download.folder,
        "files": download.files,
    }


def _bars() -> Progress:
    note = TextColumn("{task.fields[note]}")
    return progress_bar(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), note)


def _into(bars: Progress) -> Show:
    """One bar for all files, and one for each that is on its way."""
    tasks: dict[str, TaskID] = {}

    def show(download: Download) -> None:
        lines = [(download.name, download.size, download.done, download.note)]
        lines += [
            (f"  {file.name}", file.size, file.done, "") for file in download.files if len(download.files) > 1
        ]
        for name, size, done, note in lines:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=size or None, completed=done, note=note)
            bars.update(tasks[name], total=size or None, completed=done, note=note)

    return show
