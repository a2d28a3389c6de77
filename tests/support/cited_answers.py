"""Makes answers with right and wrong citations from templates, with which the citation check is measured.

The sources of a question are the passage that answers it and the passages that have most of its words. The answer
contains a sentence of the right passage, whole or changed, and cites that passage or another one.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.documents.chunking import chunks
from app.documents.search.snippets import best_sentence, sentences
from app.documents.search.terms import STOP_WORDS, content_words, indexed, terms
from tests.support.labelled_questions import BOOKS, Kind, Question, read_questions, read_texts

SOURCES = 6


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer with one citation, the sources that it could cite, and whether it cites the right source.

    `fact` is a number or a name of the answer that the source does not have, or ""."""

    text: str
    sources: tuple[str, ...]
    is_right: bool
    template: str
    fact: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its sources in a random order. The `sentence` of the source `right` answers the question."""

    question: str
    sources: tuple[str, ...]
    right: int
    sentence: str
    kind: Kind = "near"


def _whole(asked: Asked) -> str:
    return asked.sentence


def _according(asked: Asked) -> str:
    return f"According to the document, {asked.sentence[:1].lower()}{asked.sentence[1:]}"


def _shortened(asked: Asked) -> str:
    words = asked.sentence.split()
    return "In short: " + " ".join(words[: max(6, len(words) * 6 // 10)])


def _reworded(asked: Asked) -> str:
    """Return two thirds of the content words in reverse order."""
    kept = [word for place, word in enumerate(content_words(asked.sentence)) if place % 3]
    return f"The text mentions something about {', '.join(reversed(kept))}, as far as one can tell"


def _echoed(asked: Asked) -> str:
    """Return the words of the question, which all sources share, before half of the sentence."""
    words = asked.sentence.split()
    return f"You asked: {asked.question.rstrip('?')}. It is said that {' '.join(words[: max(8, len(words) // 2)])}"


def _listed(asked: Asked) -> str:
    return f"Here is what I found:\n\n- **Answer**: {asked.sentence}"


TEMPLATES: dict[str, Callable[[Asked], str]] = {
    "whole sentence": _whole,
    "with an introduction": _according,
    "first part of it": _shortened,
    "two thirds of its words": _reworded,
    "half of it after the question": _echoed,
    "in a list": _listed,
}


def cited_answers(asked: Sequence[Asked], seed: int = 0) -> list[CitedAnswer]:
    """Return an answer to each question, by each template in turn. Every second citation is wrong."""
    draw, names, made = random.Random(seed), list(TEMPLATES), list[CitedAnswer]()
    for place, one in enumerate(asked):
        name, is_right = names[place // 2 % len(names)], place % 2 == 0
        others = [number for number in range(len(one.sources)) if number != one.right]
        number = one.right if is_right else draw.choice(others)
        said = TEMPLATES[name](one).rstrip(" .")
        made.append(CitedAnswer(f"{said} [{number + 1}].", one.sources, is_right, name))
    return made


def paraphrased(asked: Sequence[Asked]) -> list[CitedAnswer]:
    """Return answers in other words than the source's, with right citations: the questions of that kind."""
    return [
        CitedAnswer(f"{one.question.rstrip('?')} [{one.right + 1}].", one.sources, True, "paraphrase")
        for one in asked
        if one.kind == "paraphrase"
    ]


def labelled_questions(seed: int = 0) -> list[Asked]:
    """Return the questions of tests/documents/quality that have an answer, each with six sources."""
    passages = _passages()
    index = _Index([text for _, text in passages])
    draw, asked = random.Random(seed), []
    for question in read_questions():
        answers = [place for place, passage in enumerate(passages) if question.is_answered_by(*passage)]
        if answers and question.kind != "absent":
            right = passages[answers[0]][1]
            sentence = _answering(right, question)
            others = [text for place, text in index.nearest(question.question) if place not in answers]
            others = [text for text in others if sentence not in text]
            made = _shuffled(question.question, sentence, [right, *others[: SOURCES - 1]], draw)
            asked.append(replace(made, kind=question.kind))
    return asked


FACT = re.compile(r"(?<=[a-z,;] )(?:\d[\d.,:]*\d|[A-Z][a-z]{2,})(?=[ ,;.])")
"""A number of at least two digits, or a name inside a sentence."""
OTHER_NAMES = ("Berlin", "Watson", "Kelora", "Fischer", "Tokyo", "Pedro")


def fact_answers(every: int = 1, seed: int = 0) -> tuple[list[CitedAnswer], list[CitedAnswer]]:
    """Return right answers, whose sentences have a number or a name, and answers with another number or name.

    Uses each `every`-th passage."""
    passages, draw = list(dict.fromkeys(text for _, text in _passages())), random.Random(seed)
    right, changed = list[CitedAnswer](), list[CitedAnswer]()
    for text in passages[::every]:
        sources = (text, *draw.sample(passages, SOURCES - 1))
        for sentence in _sentences(text):
            facts = [fact for fact in FACT.finditer(sentence) if fact[0].lower() not in STOP_WORDS]
            if not facts or len(sentence) > 300:
                continue
            name = draw.choice([name for name in TEMPLATES if name != "two thirds of its words"])

            def answer(
                said: str, fact: str = "", name: str = name, sources: tuple[str, ...] = sources
            ) -> CitedAnswer:
                words = TEMPLATES[name](Asked("What is said", sources, 0, said)).rstrip(" .")
                return CitedAnswer(f"{words} [1].", sources, not fact, name, fact)

            right.append(answer(sentence))
            fact = draw.choice(facts)
            last = str((int(fact[0][-1]) + draw.randint(1, 9)) % 10) if fact[0][-1].isdigit() else ""
            other = f"{fact[0][:-1]}{last}" if last else draw.choice(OTHER_NAMES)
            made = answer(f"{sentence[: fact.start()]}{other}{sentence[fact.end() :]}", other)
            if other in made.text and other not in text:
                changed.append(made)
    return right, changed


def _passages() -> list[tuple[str, str]]:
    return [
        (one.title, re.sub(r"\s+", " ", chunk.text).strip())
        for one in read_texts()
        for chunk in chunks([one.text], "text.txt")
    ]


def spec_bench_questions(file: Path, seed: int = 0) -> list[Asked]:
    """Return the RAG questions of Spec-Bench whose answer is in one of their passages."""
    draw, asked = random.Random(seed), []
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        *passages, question = row["turns"][0].split("\n")
        for answer in row["reference"][0] if row["category"] == "rag" else ():
            having = [text for text in passages if answer in text]
            said = [one for text in having[:1] for one in _sentences(text) if answer in one]
            others = [text for text in passages if said and said[0] not in text]
            if said and others:
                asked.append(_shuffled(question, said[0], [having[0], *others], draw))
                break
    return asked


class _Index:
    """Orders passages by how many words of a question they have; rare words count more."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._words = [frozenset(indexed(text).split()) for text in texts]
        self._having = Counter(word for words in self._words for word in words)

    def nearest(self, question: str) -> list[tuple[int, str]]:
        """Return all passages with their indices, the nearest first."""
        wanted = set(terms(question))
        nearness = [sum(1 / self._having[term] for term in wanted & words) for words in self._words]
        order = sorted(range(len(self._texts)), key=lambda place: -nearness[place])
        return [(place, self._texts[place]) for place in order]


def _shuffled(question: str, sentence: str, texts: list[str], draw: random.Random) -> Asked:
    right = texts[0]
    draw.shuffle(texts)
    return Asked(question, tuple(texts), texts.index(right), sentence)


def _answering(text: str, question: Question) -> str:
    """Return the sentence with the answer, or the sentence with most of the question's words."""
    if question.document in BOOKS:
        return next((one for one in _sentences(text) if question.answer in one), question.answer)
    return _sentences(text[best_sentence(text, question.question)[0] :])[0]


def _sentences(text: str) -> list[str]:
    return [text[begin:end].strip() for begin, end in sentences(text)]
