"""The whole chain on texts the demo model never saw: ten descriptions of installed packages are pasted, and fifty
questions asked, each about a word that stands in exactly one sentence of all ten.

    python -m tools.document_lookups --lookups 50 --rounds 3

Counts how often that sentence was among the sources, how often the answer quotes it word for word, and how often
with its right number; and times auto against plain on the same prompts, in turn, in one process.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from threading import Event

from app.chat_messages import ChatManner
from app.commands.replying import Outcome, follow_quietly, outcome
from app.conversation import Asked
from app.conversation.planning import Plan, Planner
from app.database import database_in
from app.documents import Documents
from app.engine import Engine
from app.messages import Decoding, ModelChoice, Options, Request
from app.models_registry import locate

QUESTIONS = (
    "What do my documents say about {}?",
    "What do the sources say about {}?",
    "Find the sentence about {}.",
    "Quote the part that mentions {}.",
    "Where is {} mentioned?",
)
"""Five of the forms in which people ask for a sentence; the demo model has read such questions."""
SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'()\"/-]{30,160}[.!?]")
WORD = re.compile(r"[A-Za-z]{5,}")


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question, and the one sentence that answers it."""

    question: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a lookup: whether its sentence was put before the model, and how the answer quotes."""

    is_found: bool
    is_quoted: bool
    is_cited: bool


def sentences(text: str) -> list[str]:
    """The plain sentences of a text's paragraphs; lists, tables and code have none."""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    split = (one for paragraph in paragraphs for one in SENTENCE_END.split(paragraph))
    return [one for one in split if SENTENCE.fullmatch(one)]


def descriptions(count: int, rng: random.Random) -> dict[str, str]:
    """Long descriptions of installed packages, by name."""
    texts = {
        str(each.metadata["Name"]): str(each.metadata.json.get("description", "")) for each in distributions()
    }
    long = sorted(name for name, text in texts.items() if len(sentences(text)) >= 8)
    return {name: texts[name] for name in rng.sample(long, count)}


def lookups(texts: Sequence[str], count: int, rng: random.Random) -> list[Lookup]:
    """Questions for a word that stands in one place alone."""
    seen = Counter(word.lower() for text in texts for word in WORD.findall(text))
    possible = []
    for text in texts:
        for sentence in sentences(text):
            telling = [word for word in WORD.findall(sentence) if seen[word.lower()] == 1]
            if telling:
                possible.append((sentence, telling))
    return [
        Lookup(rng.choice(QUESTIONS).format(rng.choice(telling)), sentence)
        for sentence, telling in rng.sample(possible, count)
    ]


def judge(lookup: Lookup, plan: Plan, answer: str, store: Documents) -> Result:
    """Whether the answer has the sentence word for word, and the number of a source that holds it."""
    sentence = _even(lookup.sentence)
    cited = plan.sources.cited if plan.sources else ()
    right = {one.number for one in cited if sentence in _even(store.words(one))}
    is_quoted = sentence in _even(answer)
    numbers = {int(number) for number in re.findall(r"\[(\d+)\]", answer)}
    return Result(bool(right), is_quoted, is_quoted and bool(numbers) and numbers <= right)


def _even(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def opened(model: str) -> Iterator[tuple[Engine, Documents]]:
    """The engine with this model, and an empty store."""
    with (
        TemporaryDirectory() as folder,
        closing(database_in(Path(folder))) as database,
        closing(Documents(database, Path(folder))) as store,
        closing(Engine(locate, Path(folder) / "steps")) as engine,
    ):
        loaded = Event()
        engine.load(ModelChoice(model), lambda _is_loaded: loaded.set())
        loaded.wait()
        yield engine, store


def answered(engine: Engine, plan: Plan, decoding: Decoding) -> Outcome:
    """The answer to a plan, written with this decoder, cold."""
    options = replace(plan.asked.options, decoding=decoding)
    request = Request(plan.asked.model, plan.prompt, options, plan.documents, is_cold=True)
    return outcome(request, list(follow_quietly(engine, request)))


def speeds(engine: Engine, plans: Sequence[Plan], rounds: int) -> dict[str, float]:
    """Auto against plain, in turn: tokens per second over all answers, and the median of the single ratios."""
    decoders = {"plain": Decoding("plain"), "auto": Decoding("auto")}
    seconds: dict[str, list[float]] = {name: [] for name in decoders}
    tokens, steps = 0, 0
    for plan in plans:
        times: dict[str, list[float]] = {name: [] for name in decoders}
        for _ in range(rounds):
            for name, decoding in decoders.items():
                numbers = answered(engine, plan, decoding).finished.statistics
                times[name].append(numbers.tokens / numbers.tokens_per_second if numbers.tokens else 0.0)
        tokens, steps = tokens + numbers.tokens, steps + numbers.steps
        for name, taken in times.items():
            seconds[name].append(median(taken))
    pairs = [(plain, auto) for plain, auto in zip(*seconds.values(), strict=True) if auto]
    return {
        "tokens": tokens,
        "tokens_per_step": tokens / max(1, steps),
        "plain_tokens_per_second": tokens / sum(seconds["plain"]),
        "auto_tokens_per_second": tokens / sum(seconds["auto"]),
        "ratio_of_all": sum(seconds["plain"]) / sum(seconds["auto"]),
        "median_ratio": median(plain / auto for plain, auto in pairs),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="demo")
    parser.add_argument("--lookups", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    with opened(asked.model) as (engine, store):
        texts = descriptions(10, rng)
        collection = store.create("Packages")
        for name, text in texts.items():
            store.paste(collection, text, name)
        store.wait()
        questions = lookups([store.text(one.id) for one in store.documents(collection)], asked.lookups, rng)
        planner, manner = Planner(engine.reader, store), ChatManner(collections=(collection,))
        options = Asked(ModelChoice(asked.model), Options(max_new_tokens=96))
        plans = [
            planner.plan(manner, (), planner.consult(manner, (), each.question, options.options), options)
            for each in questions
        ]
        answers = ["" if plan.answer else answered(engine, plan, Decoding("auto")).text for plan in plans]
        results = [judge(*each, store) for each in zip(questions, plans, answers, strict=True)]
        found = {
            "documents": sorted(texts),
            "sources_each": mean(len(plan.sources.cited) for plan in plans if plan.sources),
            "found": sum(result.is_found for result in results),
            "quoted": sum(result.is_quoted for result in results),
            "quoted_and_cited": sum(result.is_cited for result in results),
            "of": len(results),
            **speeds(engine, [plan for plan in plans if not plan.answer], asked.rounds),
        }
    print(json.dumps(found, indent=1))  # noqa: T201
    if asked.json:
        told = [
            {"question": each.question, "sentence": each.sentence, "answer": answer}
            for each, answer in zip(questions, answers, strict=True)
        ]
        asked.json.write_text(json.dumps({**found, "answers": told}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
