"""A stored text on its way into the index: cut, compared with what is stored already, and written in batches.

After a stop, a crash or a newer text the same happens again: passages that are stored keep their rows, and with
them their vectors; what is left over at the end goes.
"""

from collections.abc import Iterator
from itertools import chain, islice

from app.documents import passage_rows, records, texts
from app.documents.chunking import chunks
from app.documents.passage_rows import Known, Prepared
from app.documents.tasks import Task

BATCH = 200
"""Passages that are written in one transaction."""


def index(task: Task) -> None:
    """Make a document whose text is here ready."""
    with task.beginning("indexing") as connection:
        about = records.document(connection, task.document)
        before = passage_rows.known(connection, task.document)
    found = chunks(texts.each_part(task.database, task.document), about.source)
    prepared = (passage_rows.prepared(about.title, one) for one in found)
    done = 0
    while batch := list(islice(prepared, BATCH)):
        done += len(batch)
        _write(task, batch, before, done, round(done * about.characters / batch[-1].chunk.end))
    _drop_left_over(task, before)
    with task.writing() as connection:
        records.set_ready(connection, task.document, done)


def _write(task: Task, batch: list[Prepared], before: Known, done: int, total: int) -> None:
    with task.writing() as connection:
        passage_rows.put(connection, task.document, batch, before)
        records.set_progress(connection, task.document, done, max(done, total))


def _drop_left_over(task: Task, before: Known) -> None:
    ids: Iterator[int] = (place.id for place in chain.from_iterable(before.values()))
    while batch := list(islice(ids, BATCH)):
        with task.writing() as connection:
            passage_rows.drop(connection, batch)
