"""Asks 60 questions about four texts of 570 to 700 words in English, German, French and Spanish.

    python -m labs.document_answers --model FOLDER [--alone] [--json FILE]

Each language has nine plain questions, three follow-ups with a pronoun (each after a question that is answered
first), and three that the texts do not answer. All four texts are in one collection, beside `Alice in Wonderland`;
with --alone each text is in a collection of its own. Counts by language how often the answer was in the prompt and
in the first source, how often the reply contains the answer, how often it cites, and how often all sources that it
cites contain the answer. For questions without an answer, counts how often the app or the model refuses.
"""

import argparse
import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from app.conversation import ReplySettings
from app.conversation.prompt_builder import PromptBuilder
from app.conversation.turn import TurnContext
from app.documents.documents import Documents
from app.engine import Engine
from app.values.chat import ChatSettings
from app.values.messages import Decoding, Message, ModelChoice, Options
from labs.document_lookups import answered, opened, paste
from labs.retrieval_quality import table
from tests.support.labelled_questions import read_texts

FOLDER = Path(__file__).parent / "three_pages"
LANGUAGES = ("en", "de", "fr", "es")
MOST_TOKENS = 96
REFUSED = re.compile(
    r"\bnot (?:in|mention|state|provide|contain|specif|given|found)|n't (?:mention|state|provide|contain|specif)|"
    r"nicht in|nicht erw|keine (?:angabe|information)|n'est pas|ne (?:mentionne|contient)|no (?:se )?(?:menciona|"
    r"contiene|aparece|est[aá])|no information",
    re.IGNORECASE,
)
"""Words by which a model says that the sources do not answer a question."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question about the text in a language; `before` is the question before a follow-up, or ""."""

    language: str
    kind: str
    before: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A question's reply, and what the module counts. `by_app` is true if the app itself refused."""

    question: AskedQuestion
    text: str
    in_prompt: bool
    is_first: bool
    is_answered: bool
    cites: bool
    cites_right: bool
    by_app: bool
    refused: bool


def questions() -> list[AskedQuestion]:
    with (FOLDER / "questions.tsv").open(encoding="utf-8", newline="") as file:
        return [AskedQuestion(**row) for row in csv.DictReader(file, delimiter="\t")]


def collections(store: Documents, alone: bool) -> Mapping[str, int]:
    """Put the texts into the store. Return, by language, the collection that is asked."""
    texts = {one: (FOLDER / f"{one}.md").read_text(encoding="utf-8") for one in LANGUAGES}
    if alone:
        made = {one: store.create(one) for one in LANGUAGES}
        for one, collection in made.items():
            paste(store, collection, {one: texts[one]})
        return made
    together = store.create("all")
    alice = "\n\n".join(one.text for one in read_texts() if "alice" in one.title.lower())
    paste(store, together, {**texts, "Alice": alice})
    return dict.fromkeys(LANGUAGES, together)


def ask(engine: Engine, store: Documents, model: str, one: AskedQuestion, collection: int) -> Judged:
    """Ask a question and judge the reply. Before a follow-up, its earlier question is asked."""
    history: tuple[Message, ...] = ()
    if one.before:
        earlier, _, _ = _reply(engine, store, model, history, one.before, collection)
        history = (Message("user", one.before), Message("assistant", earlier))
    text, sources, by_app = _reply(engine, store, model, history, one.question, collection)
    has = [bool(one.answer) and one.answer.lower() in source.lower() for source in sources]
    cited = {int(number) for number in re.findall(r"\[(\d+)\]", text)}
    right = {number for number, has_answer in enumerate(has, 1) if has_answer}
    is_answered = bool(one.answer) and one.answer.lower() in text.lower()
    return Judged(
        one, text, any(has), bool(has) and has[0], is_answered, bool(cited), bool(cited) and cited <= right,
        by_app, by_app or bool(REFUSED.search(text)),
    )  # fmt: skip


def _reply(
    engine: Engine, store: Documents, model: str, history: tuple[Message, ...], question: str, collection: int
) -> tuple[str, list[str], bool]:
    """Return the reply's text, the words of its sources, and whether the app answered itself."""
    prompts = PromptBuilder(engine.reader, store)
    settings = ReplySettings(ModelChoice(model), Options(max_new_tokens=MOST_TOKENS))
    context = TurnContext(ChatSettings(collections=(collection,)), history, question)
    plan = prompts.prepare(context, prompts.retrieve(context, settings.options), settings)
    if plan.answer:
        return plan.answer.text, [], True
    sources = [store.words(cited) for cited in plan.sources.cited] if plan.sources else []
    return answered(engine, plan, Decoding("auto")).text, sources, False


def rows(judged: list[Judged]) -> Iterator[dict[str, str]]:
    """Yield a row of counts for each language and kind of question, and for each kind in all languages."""
    for kind in ("plain", "follow", "absent"):
        for language in (*LANGUAGES, "all"):
            some = [
                one
                for one in judged
                if one.question.kind == kind and language in (one.question.language, "all")
            ]
            counts = Counter(
                name
                for one in some
                for name, value in asdict(one).items()
                if name not in ("question", "text") and value
            )
            names = ("in_prompt", "is_first", "is_answered", "cites", "cites_right", "by_app", "refused")
            yield {
                "language": language,
                "kind": kind,
                "of": str(len(some)),
                **{name.replace("_", " "): str(counts[name]) for name in names},
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="demo")
    parser.add_argument("--alone", action="store_true", help="each text is in a collection of its own")
    parser.add_argument("--json", type=Path, help="file to keep the replies in")
    given = parser.parse_args()
    with opened(given.model) as (engine, store):
        asked = collections(store, given.alone)
        judged = [ask(engine, store, given.model, one, asked[one.language]) for one in questions()]
    print(table(list(rows(judged))))
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in judged], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
