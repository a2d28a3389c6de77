"""The downloads: how each stands in all and by file, and what can be done about it."""

from collections.abc import Iterator
from html import escape

from app.model_messages import Download, FileProgress, gigabytes
from app.ui.models.pieces import duration, title
from app.ui.pieces import badge, button, link

STATES = {
    "queued": "In line",
    "running": "Downloading",
    "paused": "Paused",
    "failed": "Stopped",
    "done": "Here",
}


def downloads_html(downloads: tuple[Download, ...]) -> str:
    """All of them; nothing where there are none."""
    if not downloads:
        return ""
    rows = "".join(f"<li>{_row(download)}</li>" for download in downloads)
    return f'<h3>Downloads</h3><ul class="models" aria-label="Downloads">{rows}</ul>'


def count_in_words(downloads: tuple[Download, ...]) -> str:
    """What the way to the models says of downloads: "2 downloading", "1 paused"; nothing where all is done."""
    states = [download.state for download in downloads]
    running = states.count("running") + states.count("queued")
    waiting = states.count("paused") + states.count("failed")
    counts = (f"{running} downloading" if running else "", f"{waiting} paused" if waiting else "")
    return ", ".join(filter(None, counts))


def _row(download: Download) -> str:
    note = f'<p class="hint" role="status">{escape(download.note)}</p>' if download.note else "<p></p>"
    return (
        f'<article class="card download {download.state}">'
        f"<header>{title(download.name)}{badge(STATES[download.state])}</header>"
        f"{'' if download.state == 'done' else _progress(download.done, download.size, download.name)}"
        f'<p class="facts" aria-live="off">{escape(told(download))}</p>'
        f"{note}{_gate(download)}{_files(download)}"
        f'<div class="actions">{"".join(_buttons(download))}</div></article>'
    )


def told(download: Download) -> str:
    """ "120 MB of 1.2 GB · 12 MB/s · 2 min left"."""
    if not download.size:
        return "Asking the hub what there is" if download.state == "running" else ""
    parts = [f"{gigabytes(download.done)} of {gigabytes(download.size)}"]
    if download.state == "done":
        parts = [gigabytes(download.size), "checked"]
    if download.speed:
        parts.append(f"{gigabytes(download.speed)}/s")
    if download.seconds_left is not None:
        parts.append(f"{duration(download.seconds_left)} left")
    return " · ".join(parts)


def _gate(download: Download) -> str:
    if not download.asks_token:
        return "<div></div>"
    page = link(download.page, "the model's page")
    return (
        '<div class="gate"><ol>'
        f"<li>Open {page}, log in there and accept the terms.</li>"
        "<li>Save a token of the same account under <b>Access to the hub</b>, below.</li>"
        "<li>Resume the download.</li></ol></div>"
    )


def _files(download: Download) -> str:
    if not download.files or download.state == "done":
        return "<div></div>"
    rows = "".join(_file(file) for file in download.files)
    box = f'<input type="checkbox" aria-label="{escape(f"Show the files of {download.name}")}">'
    return (
        f'<div class="files"><label>{box} {len(download.files)} files</label>'
        f'<ul aria-label="Files">{rows}</ul></div>'
    )


def _file(file: FileProgress) -> str:
    size = gigabytes(file.size)
    share = f"{gigabytes(file.done)} of {size}" if file.done < file.size else size
    bar = _progress(file.done, file.size, file.name)
    return f"<li><span>{escape(file.name)}</span>{bar}<span>{share}</span></li>"


def _progress(done: int, size: int, name: str) -> str:
    value = f'value="{done}"' if size else ""
    return f'<progress {value} max="{max(size, 1)}" aria-label="{escape(name)}"></progress>'


def _buttons(download: Download) -> Iterator[str]:
    name = download.name
    match download.state:
        case "queued" | "running":
            yield button("Pause", "pause", name)
        case "paused" | "failed":
            yield button("Resume", "resume", name, kind="primary")
        case "done":
            yield button("Load", "load-download", name, kind="primary")
            yield button("Take off the list", "dismiss", name)
            return
    yield button("Cancel", "cancel", name, about=f"the download of {name}")
