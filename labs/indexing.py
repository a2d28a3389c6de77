"""Waits for documents, and fails if some did not become ready, because a search in fewer takes less time."""

from app.documents.documents import Documents


def wait_until_ready(documents: Documents, collection: int, count: int) -> None:
    """Wait until the collection's documents are indexed. Raises SystemExit unless exactly `count` documents are
    ready."""
    documents.wait()
    states = [one.state for one in documents.documents(collection)]
    if states != ["ready"] * count:
        raise SystemExit(
            f"{states.count('ready')} of {count} documents are ready; the collection has {len(states)}"
        )
