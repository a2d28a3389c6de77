"""Measures how well the citation check finds wrong citations: `python -m labs.citation_quality`.

Prints the tables of docs/notes/2026-11-retrieval.md. The first has how many citations each threshold would mark in
the development half of the answers. The second has how many the thresholds of app/conversation/citation_check.py
mark, by words alone and with the model all-MiniLM-L6-v2. The third has how many missing facts the check finds.
`--spec-bench FILE` adds the RAG questions of Spec-Bench (its dev.jsonl).
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.conversation.citation_check import SIMILAR, SUPPORTED, claims, missing_facts, nearness, support
from labs.retrieval_quality import packaged_model, table
from tests.support.cited_answers import (
    CitedAnswer,
    cited_answers,
    fact_answers,
    labelled_questions,
    paraphrased,
    spec_bench_questions,
)
from tests.support.loaded_embedder import LoadedEmbedder

NEVER = 2.0
"""A threshold above any cosine, so that words alone decide."""
THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
COSINES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, NEVER)


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer's citation: whether it is right, and the values that the check uses; `cosine` is 0 if another
    source is nearer, or if the words suffice."""

    is_right: bool
    support: float
    cosine: float


def judged(answers: Iterable[CitedAnswer], embedder: LoadedEmbedder) -> list[Judged]:
    """Judge each answer's only citation."""
    return [_judged(answer, embedder) for answer in answers]


def _judged(answer: CitedAnswer, embedder: LoadedEmbedder) -> Judged:
    (claim,) = claims(answer.text)
    share = support(claim, answer.sources)
    if share >= SUPPORTED:  # the app does not ask the model then
        return Judged(answer.is_right, share, 0.0)
    one, *others = embedder.embed([claim.text, *answer.sources]).result()
    return Judged(answer.is_right, share, nearness(claim, [float(one @ other) for other in others]))


def row(name: str, some: Sequence[Judged], supported: float, similar: float) -> dict[str, str]:
    """Return how many of the wrong and of the right citations are marked with these thresholds."""
    marked = [(one.is_right, one.support < supported and one.cosine < similar) for one in some]
    wrong = [is_marked for is_right, is_marked in marked if not is_right]
    right = [is_marked for is_right, is_marked in marked if is_right]
    return {
        "answers": name,
        "share of words": f"{supported:.2f}",
        "cosine": f"{similar:.2f}" if similar < NEVER else "not used",
        "wrong ones marked": f"{sum(wrong)} of {len(wrong)}",
        "right ones marked": f"{sum(right)} of {len(right)}",
    }


def facts_row(kind: str, answers: Sequence[CitedAnswer]) -> dict[str, str]:
    """Return how many answers the check reports for missing facts, and how often it names the changed fact."""
    missing = [missing_facts(claims(one.text)[-1].text, one.sources[0]) for one in answers]
    named = [found for found, one in zip(missing, answers, strict=True) if one.fact and one.fact in found]
    return {
        "answers": kind,
        "with a missing fact": f"{sum(map(bool, missing))} of {len(answers)}",
        "which is the changed one": str(len(named)) if any(one.fact for one in answers) else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="folder of a sentence-embedding model")
    parser.add_argument("--spec-bench", type=Path, metavar="FILE")
    options = parser.parse_args()
    embedder = LoadedEmbedder(options.model or packaged_model())
    asked = labelled_questions()
    development, held_out = (judged(cited_answers(half), embedder) for half in (asked[::2], asked[1::2]))
    sweep = [row("development half", development, share, NEVER) for share in THRESHOLDS]
    sweep += [row("development half", development, SUPPORTED, cosine) for cosine in COSINES]
    reworded = [judged(paraphrased(half), embedder) for half in (asked[::2], asked[1::2])]
    sweep += [row("development half, in other words", reworded[0], SUPPORTED, cosine) for cosine in COSINES]
    kept = {
        "development half": development,
        "other half": held_out,
        "other half, in other words": reworded[1],
    }
    if options.spec_bench:
        kept["Spec-Bench, RAG"] = judged(cited_answers(spec_bench_questions(options.spec_bench)), embedder)
    results = [row(name, some, SUPPORTED, way) for name, some in kept.items() for way in (NEVER, SIMILAR)]
    right, changed = fact_answers()
    numbers = [one for one in changed if one.fact[0].isdigit()]
    facts = {
        "right": right,
        "another number": numbers,
        "another name": [one for one in changed if one not in numbers],
        "right, in other words": paraphrased(asked),
    }
    rows = [facts_row(kind, answers) for kind, answers in facts.items()]
    sys.stdout.write(f"{table(sweep)}\n\n{table(results)}\n\n{table(rows)}\n")


if __name__ == "__main__":
    main()
