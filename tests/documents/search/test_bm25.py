"""Passages search_bm25 by the words they share with a question."""

import pytest

from app.database.database import Database
from app.documents.hybrid_search import MIN_SHARE_ALONE
from app.documents.search.bm25 import MAX_SCORED, PAIR_WORTH, search_bm25
from tests.documents.search.library import add_document

FILLER = [f"page {number} tells of nothing in particular" for number in range(20)]


def found(
    database: Database, question: str, collections: tuple[int, ...] = (1,), limit: int = 5
) -> list[int]:
    with database.reading() as connection:
        return [one.passage for one in search_bm25(connection, collections, question, limit)]


def test_the_passage_with_the_rarest_words_is_first(database: Database) -> None:
    ids = add_document(database, [*FILLER, "page of the lease", "the rare zebra of page one"])
    assert found(database, "Which page tells of the zebra?")[0] == ids[-1]


def test_only_ready_documents_of_the_collections_that_are_asked_are_found(database: Database) -> None:
    here = add_document(database, ["a zebra here"], collection=1)
    add_document(database, ["a zebra there"], collection=2)
    add_document(database, ["a zebra soon"], collection=1, state="indexing")
    assert found(database, "zebra") == here
    assert found(database, "zebra", collections=()) == []
    assert len(found(database, "zebra", collections=(1, 2))) == 2


def test_the_share_is_how_much_of_the_question_a_passage_has(database: Database) -> None:
    ids = add_document(database, ["the notice period of the lease is short", "a short notice", *FILLER])
    with database.reading() as connection:
        shares = {
            one.passage: one.share for one in search_bm25(connection, [1], "notice period of the lease", 9)
        }
    assert shares[ids[0]] == pytest.approx(1)
    assert 0.2 < shares[ids[1]] < 0.4


def test_words_that_are_nowhere_count_against_all(database: Database) -> None:
    add_document(database, ["a short notice", *FILLER])
    with database.reading() as connection:
        one, *_ = search_bm25(connection, [1], "notice of quantum chromodynamics", 9)
    assert one.share < 0.4


@pytest.mark.parametrize("asking", ["Quote what is said about", "What do my documents say about", "Zitiere"])
def test_words_that_ask_for_a_place_in_the_documents_do_not_count(database: Database, asking: str) -> None:
    ids = add_document(database, ["The zebra sleeps.", "The documents say about nothing.", *FILLER])
    with database.reading() as connection:
        shares = {one.passage: one.share for one in search_bm25(connection, [1], f"{asking} zebra", 9)}
        (only, *_) = search_bm25(connection, [1], "What do the documents say?", 9)
    assert shares[ids[0]] == pytest.approx(1)
    assert shares.get(ids[1], 0.0) == 0
    assert only.share == pytest.approx(1), "there is no other word to go by"


def test_pairs_of_characters_count_more_because_many_belong_to_two_words(database: Database) -> None:
    add_document(database, ["\u79df\u91d1\u662f", *FILLER])
    with database.reading() as connection:
        (one,) = search_bm25(connection, [1], "\u79df\u91d1\u4ec0\u4e48\u65f6\u5019\u4ea4", 9)
    assert one.share == pytest.approx(PAIR_WORTH * 6.5 / (6.5 + 5 * 7.6), rel=0.05)


def test_in_a_single_passage_a_word_still_says_something(database: Database) -> None:
    add_document(database, ["The lease ends in May."])
    with database.reading() as connection:
        (one,) = search_bm25(connection, [1], "When does the lease end?", 9)
    assert one.share > 0.4


def test_a_word_in_every_passage_is_asked_where_there_is_no_other(database: Database) -> None:
    add_document(database, FILLER)
    assert len(found(database, "page", limit=50)) == len(FILLER)


def test_common_words_find_where_the_rare_ones_are_in_other_collections(database: Database) -> None:
    add_document(database, [f"page {number} of many" for number in range(MAX_SCORED + 1)], collection=2)
    add_document(database, ["a zebra"], collection=2)
    here = add_document(database, ["a page of this collection"], collection=1)
    assert found(database, "the zebra on the page") == here


def test_a_word_that_is_asked_twice_counts_twice(database: Database) -> None:
    lease, zebra = add_document(database, ["a lease", "a zebra", *FILLER])[:2]
    assert found(database, "the lease, the lease or the zebra")[:2] == [lease, zebra]
    assert found(database, "the lease, the zebra or the zebra")[:2] == [zebra, lease]


def test_a_long_sentence_is_found_by_two_of_its_rare_words(database: Database) -> None:
    add_document(database, ["The walrus keeps his marzipan in the cellar.", "Ships leave at noon."])
    sentence = (
        "Lawyers from seven northern provinces questioned whether marzipan merchants may feed any walrus"
    )
    with database.reading() as connection:
        (one,) = search_bm25(connection, [1], sentence, 9)
    assert one.share >= MIN_SHARE_ALONE


POLITE = (
    "Hello, I hope that you are well. My sister and I have read all the papers yesterday evening, and could not "
    "agree at all. {} Thank you very much in advance, that helps us a lot before our journey to Norway!"
)


@pytest.mark.parametrize(
    ("question", "is_found"), [("How long is the notice period?", True), ("Who sings?", False)]
)
def test_a_long_polite_question_shares_as_much_as_its_sentence(
    database: Database, question: str, is_found: bool
) -> None:
    add_document(database, ["The notice period is three months.", "The rent is due in May.", *FILLER])
    with database.reading() as connection:
        hits = search_bm25(connection, [1], POLITE.format(question), 9)
    assert (max((one.share for one in hits), default=0) >= MIN_SHARE_ALONE) == is_found


def test_words_are_compared_by_their_stems_in_the_languages_of_the_texts(database: Database) -> None:
    german, french = (
        add_document(database, [text], language=language)
        for text, language in [("Das Haus hat viele Fenster.", "de"), ("Les lois sont nationales.", "fr")]
    )
    assert found(database, "H\u00e4user") == german
    assert found(database, "une loi nationale") == french


def test_a_word_is_not_rare_because_few_documents_have_its_stem_of_their_language(database: Database) -> None:
    others = [f"Les fichiers numéro{number} se trouvent ici." for number in range(30)]
    wanted, *_ = add_document(database, ["Les fichiers distants arrivent lentement.", *others], language="fr")
    add_document(database, ["fichiers"], language="en")  # a short French text that was taken for English
    with database.reading() as connection:
        first = search_bm25(connection, [1], "Quels fichiers sont distants ?", 5)[0]
    assert first.passage == wanted
