"""Deletions that can be undone for a minute, and are erased when none can be undone any more."""

import pytest

from app.errors import AppError
from app.ui.frame.undo import UNDO_SECONDS, Deletions


class Shelf:
    def __init__(self) -> None:
        self.books = ["Dune", "Emma"]
        self.seconds = 0.0
        self.erased = 0
        self.deletions = Deletions(lambda: self.seconds)

    def delete(self, book: str) -> None:
        at = self.books.index(book)
        self.deletions.delete(
            f"{book} was deleted.", lambda: self.books.remove(book), lambda: self.books.insert(at, book)
        )

    def erase(self) -> None:
        self.erased += 1


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_the_last_deletion_is_undone_first(shelf: Shelf) -> None:
    shelf.delete("Dune")
    shelf.delete("Emma")
    assert shelf.books == []
    shelf.deletions.undo()
    assert shelf.books == ["Emma"]
    shelf.deletions.undo()
    assert shelf.books == ["Dune", "Emma"]
    with pytest.raises(AppError):
        shelf.deletions.undo()


def test_what_could_not_be_deleted_is_not_offered(shelf: Shelf) -> None:
    with pytest.raises(ValueError):
        shelf.deletions.delete("Ulysses was deleted.", lambda: shelf.books.remove("Ulysses"), lambda: None)
    assert shelf.deletions.newest() is None


def test_nothing_is_erased_while_something_can_be_undone(shelf: Shelf) -> None:
    assert not shelf.deletions.expire(shelf.erase), "nothing was deleted"
    shelf.delete("Dune")
    shelf.seconds = UNDO_SECONDS
    shelf.delete("Emma")
    shelf.seconds = UNDO_SECONDS * 1.5
    assert not shelf.deletions.expire(shelf.erase), "the newer deletion can still be undone"
    shelf.seconds = UNDO_SECONDS * 2.5
    assert shelf.deletions.newest() is None
    assert shelf.deletions.expire(shelf.erase)
    assert not shelf.deletions.expire(shelf.erase)
    assert shelf.erased == 1


def test_what_was_undone_leaves_nothing_to_erase(shelf: Shelf) -> None:
    shelf.delete("Dune")
    shelf.deletions.undo()
    shelf.seconds = UNDO_SECONDS * 2
    assert not shelf.deletions.expire(shelf.erase)
