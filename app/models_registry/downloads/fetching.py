"""Fetches a model's files into the cache: in ranges, so that any part that has come never comes again.

One file is one stream into one partial file. Bytes are written as they come, unbuffered: however the process ends,
the partial file is the beginning of the real one, and its length is where to go on.

    have 0        GET                          ####----- the connection breaks
    have 4        GET  Range: bytes=4-         ----#####
    have 9 of 9   checksum, rename into blobs

Several files come at once; the caller's thread looks on ten times a second, and what it raises ends everything.
"""

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from huggingface_hub import hf_hub_url

from app.errors import ModelBroken
from app.models_registry.downloads.disk import Free, disk_full, free_bytes, require_space
from app.models_registry.downloads.repo_cache import RepoCache
from app.models_registry.files.checksum import Following, new_hash
from app.models_registry.hub.asking import answer_from
from app.models_registry.hub.plan import Plan, RemoteFile
from app.models_registry.hub.retrying import EndedEarly, Patience, asked_wait, is_passing, reason

AT_ONCE = 4
"""Files of one model that come at the same time."""
LOOK_EVERY = 0.1


MOST_STARTS = 3


class Voided(Exception):
    """What was gathered of a file is worth nothing, and why: it begins anew."""


@dataclass(slots=True)
class Tally:
    """How far the files are, by name, and what there is to say; written by the transfers, read by whoever looks."""

    done: dict[str, int]
    note: str = ""
    stop: Event = field(default_factory=Event)


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches from one hub into one cache. `free` tells how many bytes the disk has left."""

    endpoint: str | None
    root: Path
    patience: Patience = field(default_factory=Patience)
    free: Free = free_bytes

    def fetch(self, plan: Plan, look: Callable[[Tally], None]) -> Path:
        """Bring what is missing of the model and return its folder.

        Raises ModelError for what a person can act on, and the hub client's errors for what the hub answers."""
        cache = RepoCache(self.root, plan.repo)
        tally = Tally({file.name: cache.here(plan, file) for file in plan.files})
        missing = {
            file.digest: file for file in plan.files if not cache.has(plan, file)
        }  # equal files come once
        left = sum(file.size - tally.done[file.name] for file in missing.values())
        require_space(plan, left, self.root, self.free)
        (cache.folder / "blobs").mkdir(parents=True, exist_ok=True)
        look(tally)
        self._fetch_all(plan, list(missing.values()), tally, look)
        tally.done = {file.name: file.size for file in plan.files}
        look(tally)
        return cache.install(plan)

    def _fetch_all(
        self, plan: Plan, files: list[RemoteFile], tally: Tally, look: Callable[[Tally], None]
    ) -> None:
        pool = ThreadPoolExecutor(AT_ONCE, "fetch")
        left = {pool.submit(_Transfer(self, plan, file, tally).run) for file in files}
        try:
            while left:
                ended, left = wait(left, LOOK_EVERY, FIRST_EXCEPTION)
                _raise_first(ended)
                look(tally)
        finally:
            tally.stop.set()  # whatever ended this ends the other transfers, at their next byte
            pool.shutdown(wait=False, cancel_futures=True)


def _raise_first(futures: set[Future[None]]) -> None:
    for future in futures:
        future.result()


@dataclass(slots=True)
class _Transfer:
    """One file on its way."""

    fetcher: Fetcher
    plan: Plan
    file: RemoteFile
    tally: Tally
    starts: int = 1

    @property
    def _cache(self) -> RepoCache:
        return RepoCache(self.fetcher.root, self.plan.repo)

    @property
    def _partial(self) -> Path:
        return self._cache.partial(self.file)

    def run(self) -> None:
        """Gather the file, check it, and give it its name."""
        while not self.tally.stop.is_set():
            try:
                with disk_full(self.plan.repo):
                    self._gather()
                return
            except Voided as voided:
                self._partial.unlink(missing_ok=True)
                self._begin_anew(voided)

    def _begin_anew(self, voided: Voided) -> None:
        if self.starts == MOST_STARTS:
            raise ModelBroken(
                f"{self.file.name} of {self.plan.repo} {voided}, {MOST_STARTS} times over: try again later, or "
                "from another network."
            ) from voided
        self.starts += 1
        self.tally.done[self.file.name] = 0
        self.tally.note = f"{self.file.name} {voided} and is fetched anew."

    def _gather(self) -> None:
        with self._partial.open("ab", buffering=0) as file:
            if file.tell() > self.file.size:
                raise Voided("is longer than it should be")
        with Following(self._partial, new_hash(self.file.digest, self.file.size)) as following:
            self._stream_patiently(following)
            if self.tally.stop.is_set():
                return
            if following.finish() != self.file.digest:
                raise Voided("came damaged (its checksum is wrong)")
        self._partial.replace(self._cache.blob(self.file))

    def _stream_patiently(self, following: Following) -> None:
        failures = 0
        while (have := self._have()) < self.file.size and not self.tally.stop.is_set():
            try:
                self._stream(have, following)
            except Exception as error:
                failures = 1 if self._have() > have else failures + 1
                if not is_passing(error) or failures >= self.fetcher.patience.tries:
                    raise
                self._rest(error, failures)

    def _rest(self, error: Exception, failures: int) -> None:
        patience = self.fetcher.patience
        seconds = patience.wait(failures, asked_wait(error))
        self.tally.note = (
            f"{reason(error)}: trying again in {seconds:.0f} s ({failures} of {patience.tries})."
        )
        self.tally.stop.wait(seconds)

    def _have(self) -> int:
        return self._partial.stat().st_size

    def _stream(self, have: int, following: Following) -> None:
        """Append what the server sends from byte `have` on."""
        with answer_from(self._url(), have, self.fetcher.patience.silence) as answer:
            self._require_range(answer, have)
            with self._partial.open("ab", buffering=0) as file:
                for piece in answer.iter_raw():
                    have += file.write(piece) or 0
                    self.tally.done[self.file.name] = min(have, self.file.size)
                    self.tally.note = ""
                    following.grew()
                    if have > self.file.size:
                        raise Voided("is longer than it should be")
                    if self.tally.stop.is_set():
                        return
        if have < self.file.size:
            raise EndedEarly

    def _url(self) -> str:
        return hf_hub_url(
            self.plan.repo, self.file.name, revision=self.plan.commit, endpoint=self.fetcher.endpoint
        )

    def _require_range(self, answer: Any, have: int) -> None:
        """The server must go on where we are."""
        if have and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise Voided("cannot be resumed, the hub sends it from its beginning")
