"""All downloads: which run, which wait, and what the person said about each.

    start --> queued --> running --> done
                 ^          |
              resume    pause, failure, or the app's end
                 |          v
              paused / failed            cancel, from anywhere: gone, with all that it brought

Each running one has a process that fetches and a thread here that listens to it. Commands may come from any thread,
and return when what they say is true: after a pause no byte comes any more. `snapshot` waits for nothing.
"""

import threading
from collections.abc import Callable
from time import monotonic

from app.errors import AppError, ModelNotFound
from app.model_messages import Download
from app.models_registry.downloads.child import (
    Child,
    ChildMessage,
    Failed,
    Installed,
    Job,
    Planned,
    ended_unexpectedly,
    job_of,
)
from app.models_registry.downloads.entry import Entry, Goal
from app.models_registry.downloads.remembered import DownloadFiles
from app.models_registry.downloads.repo_cache import RepoCache
from app.models_registry.downloads.speed import Meter
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.ids import HubId
from app.models_registry.hub.plan import Plan

SECONDS_TO_END = 10.0
NO_THREAD = "The download could not be started: close other programs, then resume it. What has come is kept."


class Downloads:
    """The downloads of one data folder; `at_once` of them run at the same time, the others wait in line."""

    def __init__(
        self,
        hub: Hub,
        files: DownloadFiles,
        at_once: int = 2,
        launch: Callable[[Job], Child] = Child,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.at_once = at_once
        self._hub = hub
        self._files = files
        self._launch = launch
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}

    def restore(self) -> None:
        """Take up what an earlier run of the app left: everything paused, to be resumed by the person."""
        for wanted, plan in self._files.load():
            entry = self._entry(wanted, plan)
            entry.state, entry.goal = "paused", "pause"
            with self._lock:
                self._entries.setdefault(entry.name, entry)

    def snapshot(self) -> tuple[Download, ...]:
        """How all downloads stand, in the order in which they were asked for."""
        now = self._clock()
        with self._lock:
            return tuple(entry.snapshot(now) for entry in self._entries.values() if entry.goal != "cancel")

    def start(self, wanted: HubId) -> None:
        """Download this model, or go on with it. Raises AppError when the hub is off or nothing can be saved."""
        self._hub.require_online(wanted.repo)
        with self._lock:
            known = self._entries.get(str(wanted))
        if known is None or known.state == "done":
            self._files.save(wanted, None)
            with self._lock:
                self._entries[str(wanted)] = self._entry(wanted, None)
        self._want(str(wanted), "run")

    def resume(self, name: str) -> None:
        """Go on with a paused or failed download. Raises ModelError when the hub is off."""
        self._hub.require_online(name)
        self._want(name, "run")

    def pause(self, name: str) -> None:
        """Stop its traffic, and keep what has come."""
        self._want(name, "pause")
        self._end(name)

    def cancel(self, name: str) -> None:
        """Stop its traffic, and remove what it brought."""
        self._want(name, "cancel")
        self._end(name)
        with self._lock:
            entry = self._entries.get(name)
            if entry and entry.goal == "cancel" and entry.thread is None:
                self._remove(entry)

    def dismiss(self, name: str) -> None:
        """Take a finished download off the list."""
        with self._lock:
            if name in self._entries and self._entries[name].state == "done":
                del self._entries[name]

    def use(self, hub: Hub) -> None:
        """From now on fetch from this hub; one that is offline ends all traffic."""
        self._hub = hub
        if hub.is_offline:
            self._pause_all()

    def close(self) -> None:
        """End all traffic; what is not done will be offered again by `restore`."""
        self._pause_all()

    def _pause_all(self) -> None:
        for download in self.snapshot():
            if download.state in ("queued", "running"):
                self.pause(download.name)

    def _entry(self, wanted: HubId, plan: Plan | None) -> Entry:
        done = self._here(wanted, plan)
        meter = Meter(self._clock(), sum(done.values()))
        return Entry(wanted, self._hub.page(wanted.repo), meter, plan=plan, done=done)

    def _here(self, wanted: HubId, plan: Plan | None) -> dict[str, int]:
        """The bytes of each file that are on the disk."""
        cache = RepoCache(self._hub.root, wanted.repo)
        return {file.name: cache.here(plan, file) for file in plan.files} if plan else {}

    def _want(self, name: str, goal: Goal) -> None:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.goal == "cancel" or (entry.state == "done" and goal != "cancel"):
                return
            entry.goal = goal
            if goal == "run" and entry.state != "running":
                entry.state, entry.note = "queued", ""
            elif goal == "pause" and entry.state in ("queued", "running"):
                entry.state = "paused"
        self._fill()

    def _end(self, name: str) -> None:
        """Kill a download's process and wait until its thread has put everything away."""
        with self._lock:
            entry = self._entries.get(name)
            child, thread = (entry.child, entry.thread) if entry else (None, None)
        if child:
            child.kill()
        if thread:
            thread.join(SECONDS_TO_END)

    def _fill(self) -> None:
        """Start those that wait, as far as there is room."""
        with self._lock:
            running = sum(entry.thread is not None for entry in self._entries.values())
            waiting = [e for e in self._entries.values() if e.state == "queued" and e.thread is None]
            for entry in waiting[: max(0, self.at_once - running)]:
                thread = threading.Thread(
                    target=self._run, args=(entry,), name=f"download {entry.name}", daemon=True
                )
                entry.begin(thread, self._clock())
                try:
                    thread.start()
                except RuntimeError:  # no memory for one more thread, or too many of them
                    entry.thread = None
                    entry.state, entry.note = "failed", NO_THREAD

    def _run(self, entry: Entry) -> None:
        try:
            self._listen(entry)
        except (AppError, OSError) as error:
            with self._lock:
                entry.state, entry.note = "failed", str(error)
        finally:
            with self._lock:
                self._settle(entry)
            self._fill()

    def _listen(self, entry: Entry) -> None:
        with self._launch(job_of(self._hub, entry.wanted, entry.plan)) as child:
            with self._lock:
                entry.child = child
                if entry.goal != "run":  # said while the process was starting
                    child.kill()
            for message in child.messages():
                self._hear(entry, message)

    def _hear(self, entry: Entry, message: ChildMessage) -> None:
        is_unknown = isinstance(message, Failed) and message.kind == ModelNotFound.__name__ and not entry.plan
        if isinstance(message, Installed) or is_unknown:  # before anybody sees that it has ended
            self._files.forget(entry.wanted)
        with self._lock:
            if entry.goal == "run" or isinstance(message, Planned):
                entry.hear(message, self._clock())
        if isinstance(message, Planned):
            self._files.save(entry.wanted, message.plan)

    def _settle(self, entry: Entry) -> None:
        """The process is gone: what that leaves of the download."""
        entry.child = entry.thread = None
        entry.done = self._here(entry.wanted, entry.plan)
        if entry.goal == "cancel":
            self._remove(entry)
        elif entry.goal == "run" and entry.state == "running":
            entry.state, entry.note = "failed", str(ended_unexpectedly(entry.wanted.repo))

    def _remove(self, entry: Entry) -> None:
        if entry.plan and entry.state != "done":
            RepoCache(self._hub.root, entry.wanted.repo).forget(entry.plan)
        self._files.forget(entry.wanted)
        self._entries.pop(entry.name, None)
