"""The queue of the worker: what may wait goes last, and an idle worker has work of its own."""

from pathlib import Path

from app.engine.embedding.job import EmbeddingJob
from app.engine.session.jobs import JobQueue, Shutdown, UnloadJob
from app.values.messages import ModelFolder


def test_work_is_done_after_a_pause_and_until_there_is_a_job_or_no_work_is_left() -> None:
    queue, job, seconds = JobQueue(), UnloadJob(), [0.001, 0.001, 0.0]
    queue.put(job)
    assert queue.get_or_work(lambda: seconds.pop(0)) is job
    assert len(seconds) == 3, "a job comes first"

    def work() -> float:
        if len(seconds) == 1:
            queue.put(job)
        return seconds.pop(0)

    assert queue.get_or_work(work, 0.001) is job
    assert seconds == []


def test_what_may_wait_goes_behind_what_came_later() -> None:
    queue, folder = JobQueue(), ModelFolder(Path(), name="sentences")
    texts, more = EmbeddingJob(folder, ["one"]), EmbeddingJob(folder, ["two"])
    first, last = UnloadJob(), Shutdown()
    queue.put(texts, may_wait=True)
    queue.put(first)
    queue.put(more, may_wait=True)
    queue.put(last)
    assert queue.get() is first
    assert queue.drain() == [last, texts, more]
    assert queue.drain() == []
