"""What waits for the worker: what somebody waits for in the order it came, and behind all of it what may wait."""

from itertools import count
from queue import PriorityQueue
from typing import Generic, TypeVar

Job = TypeVar("Job")


class Inbox(Generic[Job]):
    """Jobs for one thread, from any."""

    def __init__(self) -> None:
        self._waiting: PriorityQueue[tuple[bool, int, Job]] = PriorityQueue()
        self._numbers = count()

    def put(self, job: Job, may_wait: bool = False) -> None:
        """Add a job behind those that came before, or behind all others."""
        self._waiting.put((may_wait, next(self._numbers), job))

    def get(self) -> Job:
        """The next job, once there is one."""
        return self._waiting.get()[2]

    def rest(self) -> list[Job]:
        """All that still waits, taken out."""
        return [self.get() for _ in range(self._waiting.qsize())]
