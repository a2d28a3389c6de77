"""Waits for documents, and fails if some did not become ready, because a search in fewer would measure less."""

from app.documents import Documents


def wait_until_ready(documents: Documents, collection: int, count: int) -> None:
    """Return after `count` documents of the collection can be found. Raises SystemExit if it has another number of
    documents."""
    documents.wait()
    states = [one.state for one in documents.documents(collection)]
    if states != ["ready"] * count:
        raise SystemExit(
            f"{states.count('ready')} of {count} documents are ready, of {len(states)} that are there"
        )
