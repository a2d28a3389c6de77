"""One download as the manager keeps it. Everything here happens under the manager's lock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Literal

from app.errors import ModelGated
from app.model_messages import Download, DownloadState, FileProgress
from app.models_registry.downloads.child import Child, ChildMessage, Failed, Installed, Moved, Planned
from app.models_registry.downloads.speed import QUIET, Meter
from app.models_registry.hub.ids import HubId
from app.models_registry.hub.plan import Plan

Goal = Literal["run", "pause", "cancel"]


@dataclass(slots=True)
class Entry:
    """Its state, and the process that works on it while it runs; `goal` is what the person wants of it."""

    wanted: HubId
    page: str
    meter: Meter
    state: DownloadState = "queued"
    goal: Goal = "run"
    plan: Plan | None = None
    done: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    asks_token: bool = False
    folder: Path | None = None
    child: Child | None = None
    thread: Thread | None = None

    @property
    def name(self) -> str:
        """What tells it from other downloads."""
        return str(self.wanted)

    def begin(self, thread: Thread, now: float) -> None:
        """Its process is about to start."""
        self.state, self.thread = "running", thread
        self.note, self.asks_token = "", False
        self.meter = Meter(now, sum(self.done.values()))

    def hear(self, message: ChildMessage, now: float) -> None:
        """Its process said something."""
        match message:
            case Planned(plan):
                self.plan = plan
                self.meter = Meter(now, sum(self.done.values()))
            case Moved(done, note):
                self.done, self.note = done, note
                self.meter.tell(now, sum(done.values()))
            case Installed(folder):
                self.state, self.folder, self.note = "done", folder, ""
            case Failed(kind, sentence):
                self.state, self.note = "failed", sentence
                self.asks_token = kind == ModelGated.__name__

    def snapshot(self, now: float) -> Download:
        """How it stands."""
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
        return f"Nothing has come for {seconds:.0f} s." if seconds >= QUIET else ""
