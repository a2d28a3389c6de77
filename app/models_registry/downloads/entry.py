"""The state of one download, with its speed. Everything here is called under the lock of `Downloads`."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Literal

from app.errors import ModelGated
from app.models_registry.downloads.process import (
    DownloadFailed,
    DownloadFinished,
    DownloadMessage,
    DownloadPlanned,
    DownloadProcess,
    DownloadProgress,
)
from app.models_registry.hub.download_plan import DownloadPlan
from app.models_registry.hub.hub_id import HubId
from app.values.model import Download, DownloadState, FileProgress

SPAN_SECONDS = 5.0
"""The speed is that of the last so many seconds."""
QUIET_SECONDS = 5.0
"""Seconds without a byte after which a note says so."""
DownloadGoal = Literal["run", "pause", "cancel"]


class SpeedMeter:
    """Measures bytes per second from totals over time.

    After update(0 s, 0), update(1 s, 10), update(2 s, 40) the speed is 20 bytes per second."""

    def __init__(self, now: float, done: int) -> None:
        self._marks = deque([(now, done)])
        self._moved = now

    def update(self, now: float, done: int) -> None:
        """Note the total number of bytes at a time."""
        if done != self._marks[-1][1]:
            self._moved = now
        if done < self._marks[-1][1]:  # a file was restarted
            self._marks.clear()
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] <= now - SPAN_SECONDS:
            self._marks.popleft()

    def speed(self, now: float) -> float:
        """Bytes per second; 0 when nothing has come for a while."""
        begin, before = self._marks[0]
        span = now - begin
        return (self._marks[-1][1] - before) / span if span > 0 and self.quiet(now) < QUIET_SECONDS else 0.0

    def quiet(self, now: float) -> float:
        """Seconds since the last byte."""
        return now - self._moved


@dataclass(slots=True)
class DownloadEntry:
    """A download's state, and its process while it runs; `goal` is what the user has asked for."""

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

    @property
    def name(self) -> str:
        """Identifies the download."""
        return str(self.wanted)

    def begin(self, thread: Thread, now: float) -> None:
        """Update the state before its process starts."""
        self.state, self.thread = "running", thread
        self.note, self.asks_token = "", False
        self.meter = SpeedMeter(now, sum(self.done.values()))

    def handle(self, message: DownloadMessage, now: float) -> None:
        """Update the state by a message of its process."""
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
        """An immutable copy of the state."""
        is_running = self.state == "running"
        return Download(
            name=self.name,
            state=self.state,
            files=tuple(self._files()),
            speed=self.meter.speed(now) if is_running else 0.0,
            note=self.note or (self._silence(now) if is_running else ""),
            asks_token=self.asks_token,
            page=self.page,
            folder=self.folder,
        )

    def _files(self) -> list[FileProgress]:
        files = self.plan.files if self.plan else ()
        return [FileProgress(f.name, f.size, min(self.done.get(f.name, 0), f.size)) for f in files]

    def _silence(self, now: float) -> str:
        if self.plan and sum(self.done.values()) == self.plan.size:
            return "Checking the files."
        seconds = self.meter.quiet(now)
        return f"Nothing has come for {seconds:.0f} s." if seconds >= QUIET_SECONDS else ""
