"""Tests search and answer together on texts that the demo model never saw.

Ten descriptions of installed packages are pasted, and fifty questions are asked, each about a word that occurs in
exactly one sentence of all ten. With --made-up the ten texts are made-up facts, and the questions paraphrase them
(`demo_model/held_out_facts.py`).

    python -m labs.document_lookups --lookups 50 --rounds 3
    python -m labs.document_lookups --lookups 50 --rounds 0 --made-up

Counts how often the sentence with the word was among the sources, how often the answer quotes the sentence word for
word, and how often the answer also has the number of its source. Compares the speed of auto and plain on the same
prompts, in turn, in one process.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from threading import Event

from app.commands.reply_output import FinishedReply, events_of, finished_reply
from app.conversation import ReplySettings
from app.conversation.prompt_builder import PreparedReply, PromptBuilder
from app.conversation.turn import TurnContext
from app.database.database import database_in
from app.documents.documents import Documents
from app.engine import Engine
from app.models_registry.locate import locate
from app.values.chat import ChatSettings
from app.values.messages import Decoding, ModelChoice, Options, Request
from labs.demo_model.held_out_facts import held_out_facts
from labs.indexing import wait_until_ready

QUESTIONS = (
    "What do my documents say about {}?", "What do the sources say about {}?", "Find the sentence about {}.",
    "Quote the part that mentions {}.", "Where is {} mentioned?",
)  # fmt: skip
"""Five forms of asking for a sentence; the demo model was trained on such questions."""
SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'()\"/-]{30,160}[.!?]")
WORD = re.compile(r"[A-Za-z]{5,}")
MOST_TOKENS = 96
NUM_TEXTS = 10


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question, and the one sentence that answers it."""

    question: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a lookup: whether the sources contain the sentence, whether the answer quotes the sentence, and
    whether it also cites sources that all contain the sentence."""

    is_found: bool
    is_quoted: bool
    is_cited: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A lookup with the prepared reply, the answer's text, and the result."""

    lookup: Lookup
    plan: PreparedReply
    text: str
    result: Result


def sentences(text: str) -> list[str]:
    """Return the plain sentences of a text's paragraphs; lists, tables and code have none."""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    split = (one for paragraph in paragraphs for one in SENTENCE_END.split(paragraph))
    return [one for one in split if SENTENCE.fullmatch(one)]


def descriptions(count: int, rng: random.Random) -> dict[str, str]:
    """Return descriptions of `count` installed packages, with at least eight plain sentences each, by name."""
    texts = {
        str(each.metadata["Name"]): str(each.metadata.json.get("description", "")) for each in distributions()
    }
    long = sorted(name for name, text in texts.items() if len(sentences(text)) >= 8)
    return {name: texts[name] for name in rng.sample(long, count)}


def lookups(texts: Sequence[str], count: int, rng: random.Random) -> list[Lookup]:
    """Return questions, each about a word that occurs once in all texts."""
    seen = Counter(word.lower() for text in texts for word in WORD.findall(text))
    possible = []
    for text in texts:
        for sentence in sentences(text):
            informative = [word for word in WORD.findall(sentence) if seen[word.lower()] == 1]
            if informative:
                possible.append((sentence, informative))
    return [
        Lookup(rng.choice(QUESTIONS).format(rng.choice(informative)), sentence)
        for sentence, informative in rng.sample(possible, count)
    ]


def made_up_texts(count: int, rng: random.Random) -> tuple[dict[str, str], list[Lookup]]:
    """Make NUM_TEXTS texts of made-up facts, and a question about each fact, in a random order."""
    facts = list(islice(held_out_facts(rng), count))
    texts = {
        f"Text {number}": " ".join(fact.sentence for fact in facts[number::NUM_TEXTS])
        for number in range(NUM_TEXTS)
    }
    return texts, [Lookup(fact.question, fact.sentence) for fact in rng.sample(facts, count)]


def judge(lookup: Lookup, plan: PreparedReply, answer: str, store: Documents) -> Result:
    """Judge whether the sources contain the sentence, and whether the answer quotes it word for word and cites only
    sources that contain it."""
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
    """Open the engine with this model, and an empty store."""
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


def answered(engine: Engine, plan: PreparedReply, decoding: Decoding) -> FinishedReply:
    """Write a plan's reply with this decoder, without cached tokens and with an empty pool."""
    options = replace(plan.settings.options, decoding=decoding)
    request = Request(plan.settings.model, plan.prompt, options, plan.documents, is_cold=True)
    return finished_reply(request, list(events_of(engine, request)))


def speeds(engine: Engine, plans: Sequence[PreparedReply], rounds: int) -> dict[str, float]:
    """Compare auto with plain, in turn: tokens per second over all answers, and the median ratio of an answer."""
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


def paste_descriptions(store: Documents, collection: int, count: int, rng: random.Random) -> Sequence[Lookup]:
    """Put descriptions of packages into the collection, and return questions about some of their sentences."""
    paste(store, collection, descriptions(NUM_TEXTS, rng))
    return lookups([store.text(one.id) for one in store.documents(collection)], count, rng)


def paste_made_up_texts(
    store: Documents, collection: int, count: int, rng: random.Random
) -> Sequence[Lookup]:
    """Put made-up facts into the collection, and return a question about each."""
    texts, asked = made_up_texts(count, rng)
    paste(store, collection, texts)
    return asked


def paste(store: Documents, collection: int, texts: Mapping[str, str]) -> None:
    """Put these texts into the collection and wait until they can be found."""
    for name, text in texts.items():
        store.paste(collection, text, name)
    wait_until_ready(store, collection, len(texts))


def ask(
    engine: Engine, store: Documents, model: str, collection: int, asked: Sequence[Lookup]
) -> Iterator[Answered]:
    prompts, chat_settings = PromptBuilder(engine.reader, store), ChatSettings(collections=(collection,))
    settings = ReplySettings(ModelChoice(model), Options(max_new_tokens=MOST_TOKENS))
    for lookup in asked:
        context = TurnContext(chat_settings, (), lookup.question)
        plan = prompts.prepare(context, prompts.retrieve(context, settings.options), settings)
        text = "" if plan.answer else answered(engine, plan, Decoding("auto")).text
        yield Answered(lookup, plan, text, judge(lookup, plan, text, store))


def summary(answers: Sequence[Answered]) -> dict[str, float]:
    """Count the sentences that were found, quoted, and cited with the right number."""
    return {
        "sources_each": mean(len(one.plan.sources.cited) for one in answers if one.plan.sources),
        "found": sum(one.result.is_found for one in answers),
        "quoted": sum(one.result.is_quoted for one in answers),
        "quoted_and_cited": sum(one.result.is_cited for one in answers),
        "of": len(answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="demo")
    parser.add_argument("--lookups", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3, help="how often speeds are measured; 0 for never")
    parser.add_argument("--made-up", action="store_true", help="made-up facts in place of descriptions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with opened(given.model) as (engine, store):
        collection, rng = store.create("Lookups"), random.Random(given.seed)
        fill = paste_made_up_texts if given.made_up else paste_descriptions
        asked = fill(store, collection, given.lookups, rng)
        answers = list(ask(engine, store, given.model, collection, asked))
        plans = [one.plan for one in answers if not one.plan.answer]
        found = {**summary(answers), **(speeds(engine, plans, given.rounds) if given.rounds else {})}
    print(json.dumps(found, indent=1))
    if given.json:
        reported = [{**asdict(one.lookup), "answer": one.text} for one in answers]
        given.json.write_text(json.dumps({**found, "answers": reported}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
