"""Runs downloads, by default two at a time, and lists them with their states.

    start --> queued --> running --> done
                 ^          |
              resume    pause, failure, or the app's end
                 |          v
              paused / failed            cancel, from any state but done: the download's files are deleted

Each running download has a process that fetches, and a thread of the app that reads the process's messages.
Methods may be called from any thread, and return when they have taken effect: after `pause` no byte is received.
`snapshot` does not wait for any download.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Literal
from urllib.parse import quote

from app.errors import AppError, ModelGated, ModelNotFound, SettingsNotSaved
from app.models_registry.downloads.process import (
    DownloadFailed,
    DownloadFinished,
    DownloadMessage,
    DownloadPlanned,
    DownloadProcess,
    DownloadProgress,
    DownloadRequest,
    ended_unexpectedly,
)
from app.models_registry.downloads.repo_cache import RepoCache
from app.models_registry.hub.download_plan import DownloadPlan, plan_from_json
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId, require_hub_id
from app.system.files import write_file
from app.values.dataclass_json import parse_json, require_types
from app.values.model import Download, DownloadState, FileProgress

SECONDS_TO_END = 10.0
LONGEST_NAME = 200
"""Maximum number of characters of a file's name before ".json". Longer names are hashed."""
NO_THREAD = (
    "The download could not be started: close other programs, then try again. Downloaded bytes are kept."
)
SPAN_SECONDS = 5.0
QUIET_SECONDS = 5.0
"""If no byte was received for this many seconds, a note says so."""
DownloadGoal = Literal["run", "pause", "cancel"]


@dataclass(frozen=True, slots=True)
class SavedDownloads:
    """Unfinished downloads, each in a small JSON file. Their progress is known only from their partial files."""

    folder: Path

    def save(self, wanted: HubId, plan: DownloadPlan | None, failure: DownloadFailed | None = None) -> None:
        """Save a download, and why it failed. Raises SettingsNotSaved if the data folder cannot be written."""
        parts = {"plan": plan and asdict(plan), "failure": failure and asdict(failure)}
        try:
            write_file(self._path(wanted), json.dumps({**asdict(wanted), **parts}))
        except OSError as error:
            raise SettingsNotSaved(
                f"{self.folder} cannot be written ({error.strerror}), so a download of {wanted} would be forgotten "
                "when the app ends: free some space there, or choose another folder with --data-dir."
            ) from error

    def forget(self, wanted: HubId) -> None:
        """Delete the JSON file of a download, if it exists."""
        self._path(wanted).unlink(missing_ok=True)

    def load(self) -> Iterator[tuple[HubId, DownloadPlan | None, DownloadFailed | None]]:
        """Yield the unfinished downloads of the previous run; invalid files are ignored."""
        for path in sorted(self.folder.glob("*.json")):
            with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
                saved = parse_json(path.read_text(encoding="utf-8"))
                plan = require_types(plan_from_json(saved["plan"]), saved["plan"]) if saved["plan"] else None
                wanted = HubId(saved["repo"], saved["revision"], saved.get("file", ""))
                failure = DownloadFailed(**saved["failure"]) if saved.get("failure") else None
                yield require_types(wanted, saved), plan, failure

    def _path(self, wanted: HubId) -> Path:
        name = quote(str(wanted), safe="")
        if len(name) > LONGEST_NAME:
            name = sha256(name.encode()).hexdigest()
        return self.folder / f"{name}.json"


class SpeedMeter:
    """Measures bytes per second from totals over time.

    After update(0 s, 0), update(1 s, 10), update(2 s, 40) the speed is 20 bytes per second."""

    def __init__(self, now: float, done: int) -> None:
        self._marks = deque([(now, done)])
        self._moved = now

    def update(self, now: float, done: int) -> None:
        if done != self._marks[-1][1]:
            self._moved = now
        if done < self._marks[-1][1]:  # a file was restarted
            self._marks.clear()
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] <= now - SPAN_SECONDS:
            self._marks.popleft()

    def speed(self, now: float) -> float:
        """Return bytes per second; 0 if no byte has come for QUIET_SECONDS."""
        begin, before = self._marks[0]
        span = now - begin
        return (self._marks[-1][1] - before) / span if span > 0 and self.quiet(now) < QUIET_SECONDS else 0.0

    def quiet(self, now: float) -> float:
        """Return the seconds since the last byte, or since the start."""
        return now - self._moved


@dataclass(slots=True)
class DownloadEntry:
    """A download's state, and its process while it runs; `goal` is what the user wants.

    Its fields are changed only under the lock of `Downloads`."""

    wanted: HubId
    page: str
    meter: SpeedMeter
    state: DownloadState = "queued"
    goal: DownloadGoal = "run"
    plan: DownloadPlan | None = None
    done: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    asks_token: bool = False
    folder: Path | None = None
    child: DownloadProcess | None = None
    thread: Thread | None = None

    def handle(self, message: DownloadMessage, now: float) -> None:
        match message:
            case DownloadPlanned(plan):
                self.plan = plan
                self.meter = SpeedMeter(now, sum(self.done.values()))
            case DownloadProgress(done, note):
                self.done, self.note = done, note
                self.meter.update(now, sum(done.values()))
            case DownloadFinished(folder):
                self.state, self.folder, self.note = "done", folder, ""
            case DownloadFailed(kind, sentence):
                self.state, self.note = "failed", sentence
                self.asks_token = kind == ModelGated.__name__

    def snapshot(self, now: float) -> Download:
        is_running = self.state == "running"
        files = self.plan.files if self.plan else ()
        return Download(
            name=str(self.wanted),
            state=self.state,
            files=tuple(FileProgress(f.name, f.size, min(self.done.get(f.name, 0), f.size)) for f in files),
            speed=self.meter.speed(now) if is_running else 0.0,
            note=self.note or (self._silence(now) if is_running else ""),
            asks_token=self.asks_token,
            page=self.page,
            folder=self.folder,
        )

    def _silence(self, now: float) -> str:
        if self.plan and sum(self.done.values()) == self.plan.size:
            return "Checking the files."
        seconds = self.meter.quiet(now)
        return f"Nothing was received for {seconds:.0f} s." if seconds >= QUIET_SECONDS else ""


class Downloads:
    """The downloads of one data folder. At most `at_once` downloads run at the same time, and others are queued."""

    def __init__(
        self,
        hub: Hub,
        files: SavedDownloads,
        at_once: int = 2,
        launch: Callable[[DownloadRequest], DownloadProcess] = DownloadProcess,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.at_once = at_once
        self._hub = hub
        self._files = files
        self._launch = launch
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, DownloadEntry] = {}

    def restore(self) -> None:
        """List the unfinished downloads of the previous run as paused, or as failed with the reason."""
        for wanted, plan, failure in self._files.load():
            entry = self._entry(wanted, plan)
            entry.state, entry.goal = "paused", "pause"
            if failure:
                entry.handle(failure, self._clock())
            with self._lock:
                self._entries.setdefault(str(wanted), entry)

    def snapshot(self) -> tuple[Download, ...]:
        """Return the state of all downloads in the order of the list, except those that are being cancelled."""
        now = self._clock()
        with self._lock:
            return tuple(entry.snapshot(now) for entry in self._entries.values() if entry.goal != "cancel")

    def start(self, name: str) -> None:
        """Download the model of this hub id, or resume it.

        Raises AppError if the name is not a hub id, Foresight is offline, or the download cannot be saved."""
        wanted = require_hub_id(name, self._hub.endpoint)
        self._hub.require_online(wanted.repo)
        with self._lock:
            known = self._entries.get(str(wanted))
        if known is None or known.state == "done":
            self._files.save(wanted, None)
            with self._lock:
                self._entries[str(wanted)] = self._entry(wanted, None)
        self._set_goal(str(wanted), "run")

    def resume(self, name: str) -> None:
        """Resume a paused or failed download. Raises ModelError if Foresight cannot use the hub."""
        self._hub.require_online(name)
        self._set_goal(name, "run")

    def pause(self, name: str) -> None:
        """Stop a download's traffic; downloaded bytes are kept."""
        self._set_goal(name, "pause")
        self._stop(name)

    def cancel(self, name: str) -> None:
        """Stop a download's traffic and remove it from the list. Deletes its files, unless it is done."""
        self._set_goal(name, "cancel")
        self._stop(name)
        with self._lock:
            entry = self._entries.get(name)
            if entry and entry.goal == "cancel" and entry.thread is None:
                self._remove(entry)

    def dismiss(self, name: str) -> None:
        with self._lock:
            if name in self._entries and self._entries[name].state == "done":
                del self._entries[name]

    def use(self, hub: Hub) -> None:
        """Use this hub for the next downloads. If it is offline, pause all downloads."""
        self._hub = hub
        if hub.is_offline:
            self.close()

    def close(self) -> None:
        """Pause all downloads, which stops all traffic. The next run lists them again by `restore`."""
        for download in self.snapshot():
            if download.state in ("queued", "running"):
                self.pause(download.name)

    def _entry(self, wanted: HubId, plan: DownloadPlan | None) -> DownloadEntry:
        done = self._stored_bytes(wanted, plan)
        meter = SpeedMeter(self._clock(), sum(done.values()))
        return DownloadEntry(wanted, self._hub.page(wanted.repo), meter, plan=plan, done=done)

    def _stored_bytes(self, wanted: HubId, plan: DownloadPlan | None) -> dict[str, int]:
        cache = RepoCache(self._hub.root, wanted.repo)
        return {file.name: cache.stored_bytes(plan, file) for file in plan.files} if plan else {}

    def _set_goal(self, name: str, goal: DownloadGoal) -> None:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.goal == "cancel" or (entry.state == "done" and goal != "cancel"):
                return
            entry.goal = goal
            if goal == "run" and entry.state != "running":
                entry.state, entry.note = "queued", ""
            elif goal == "pause" and entry.state in ("queued", "running"):
                entry.state = "paused"
        self._start_waiting()

    def _stop(self, name: str) -> None:
        """Kill a download's process, and wait up to SECONDS_TO_END for its thread."""
        with self._lock:
            entry = self._entries.get(name)
            child, thread = (entry.child, entry.thread) if entry else (None, None)
        if child:
            child.kill()
        if thread:
            thread.join(SECONDS_TO_END)

    def _start_waiting(self) -> None:
        with self._lock:
            running = sum(entry.thread is not None for entry in self._entries.values())
            waiting = [e for e in self._entries.values() if e.state == "queued" and e.thread is None]
            for entry in waiting[: max(0, self.at_once - running)]:
                thread = Thread(target=self._run, args=(entry,), name=f"download {entry.wanted}", daemon=True)
                entry.state, entry.thread, entry.note, entry.asks_token = "running", thread, "", False
                entry.meter = SpeedMeter(self._clock(), sum(entry.done.values()))
                try:
                    thread.start()
                except RuntimeError:  # no memory for one more thread, or too many threads
                    entry.thread = None
                    entry.state, entry.note = "failed", NO_THREAD

    def _run(self, entry: DownloadEntry) -> None:
        try:
            with self._launch(DownloadRequest(entry.wanted, entry.plan, self._hub)) as child:
                with self._lock:
                    entry.child = child
                    if entry.goal != "run":  # set while the process was starting
                        child.kill()
                for message in child.messages():
                    self._handle(entry, message)
            if entry.goal == "run" and entry.state == "running":
                raise ended_unexpectedly(entry.wanted.repo)
        except (AppError, OSError) as error:
            self._handle(entry, DownloadFailed(type(error).__name__, str(error)))
        finally:
            with self._lock:
                entry.child = entry.thread = None
                entry.done = self._stored_bytes(entry.wanted, entry.plan)
                if entry.goal == "cancel":
                    self._remove(entry)
            self._start_waiting()

    def _handle(self, entry: DownloadEntry, message: DownloadMessage) -> None:
        self._save(entry, message)
        with self._lock:
            if entry.goal == "run" or isinstance(message, DownloadPlanned):
                entry.handle(message, self._clock())

    def _save(self, entry: DownloadEntry, message: DownloadMessage) -> None:
        """Save or delete the download's JSON file as the message requires, before the page shows the message."""
        is_unknown = (
            isinstance(message, DownloadFailed) and message.kind == ModelNotFound.__name__ and not entry.plan
        )
        if isinstance(message, DownloadFinished) or is_unknown:
            self._files.forget(entry.wanted)
        elif isinstance(message, DownloadPlanned):
            self._files.save(entry.wanted, message.plan)
        elif isinstance(message, DownloadFailed) and entry.goal == "run":
            with suppress(SettingsNotSaved):  # if the disk is full, the reason of the failure matters more
                self._files.save(entry.wanted, entry.plan, message)

    def _remove(self, entry: DownloadEntry) -> None:
        if entry.plan and entry.state != "done":
            RepoCache(self._hub.root, entry.wanted.repo).forget(entry.plan)
        self._files.forget(entry.wanted)
        self._entries.pop(str(entry.wanted), None)
