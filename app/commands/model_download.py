"""`python run.py models download` and `login`. Progress is shown as bars, or as a JSON line about every second."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import typer
from rich.progress import (
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from app.commands.console import print_json, print_text, progress_bar
from app.commands.services import hub_in
from app.database.data_folder import data_dir_or_default
from app.errors import ModelError, ModelGated
from app.models_registry.downloads.download_queue import Downloads, SavedDownloads
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId, require_hub_id
from app.values.model import Download, gigabytes

POLL_SECONDS = 0.1
JSON_SECONDS = 1.0
JSON_FIELDS = ("name", "state", "done", "size", "speed", "seconds_left", "note", "folder", "files")

Show = Callable[[Download], None]


def download(name: str, data_dir: Path | None, as_json: bool) -> None:
    """Download a model and show the progress. Raises AppError.

    If the hub needs a token, asks for it on a terminal, unless `as_json`."""
    hub, settings = hub_in(data_dir)
    hub_id = require_hub_id(name, hub.endpoint)
    if folder := hub.cached(hub_id):
        if as_json:
            return print_json({"name": str(hub_id), "state": "done", "folder": str(folder)})
        return print_text(f"{hub_id} is already on this machine: {folder}")
    files = SavedDownloads(data_dir_or_default(data_dir) / "downloads")
    downloads = Downloads(hub, files, settings.downloads_at_once)
    try:
        done = _follow(downloads, hub_id, as_json)
        while done.asks_token and sys.stdin.isatty() and not as_json:
            print_text(done.note, err=True)
            ask_token(hub)
            done = _follow(downloads, hub_id, as_json)
    except KeyboardInterrupt:
        downloads.close()
        print_text(f"Paused. To continue: python run.py models download {hub_id}", err=True)
        raise typer.Exit(130) from None
    if done.state == "failed":
        raise ModelGated(done.note) if done.asks_token else ModelError(done.note)
    if not as_json:
        print_text(f"{hub_id} is downloaded and verified: {gigabytes(done.size)} in {done.folder}")
    return None


def ask_token(hub: Hub) -> None:
    """Ask for an access token without showing what is typed, check it at the hub, and save it. Without a terminal,
    the token is read from standard input."""
    if sys.stdin.isatty():
        token = typer.prompt(f"Token (from {hub.address}/settings/tokens)", hide_input=True, err=True)
    else:
        token = sys.stdin.readline()
    print_text(f"Logged in as {hub.log_in(token)}.")


def _follow(downloads: Downloads, hub_id: HubId, as_json: bool) -> Download:
    downloads.start(str(hub_id))
    if as_json:
        return _until_it_ends(downloads, _json_lines())
    note = TextColumn("{task.fields[note]}")
    with progress_bar(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), note) as bars:
        return _until_it_ends(downloads, _into(bars))


def _until_it_ends(downloads: Downloads, show: Show) -> Download:
    while True:
        now = downloads.snapshot()[0]
        show(now)
        if now.state in ("done", "failed", "paused"):
            return now
        time.sleep(POLL_SECONDS)


def _json_lines() -> Show:
    printed = [0.0]

    def show(download: Download) -> None:
        is_last = download.state not in ("queued", "running")
        if is_last or time.monotonic() - printed[0] >= JSON_SECONDS:
            printed[0] = time.monotonic()
            numbers = {name: getattr(download, name) for name in JSON_FIELDS}
            print_json({**numbers, "speed": round(download.speed)})

    return show


def _into(bars: Progress) -> Show:
    """Return a function that shows a bar for the whole download, and for each of its files if there are several."""
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
