"""Makes quoting tasks: numbered sources, a question, and the only right sentence with its source's number.

The prompt is written as the app writes it for pasted documents. The word that is asked for occurs in no other
sentence of the sources, so exactly one answer is right.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from labs.demo_model.conversations import Conversation, pair
from labs.demo_model.passages import Library, Sentences

QUESTIONS = (
    "What do the sources say about {}?", "Tell me about {}.", "What does the text say about {}?",
    "What about {}?", "Find the sentence about {}.", "What do my documents say about {}?",
    "Quote the part that mentions {}.", "Where is {} mentioned?",
)  # fmt: skip
MAX_PROMPT = 2600
COMMON = 400
SHARE_UNANSWERABLE = 0.07
SHARE_PHRASES = 0.3
CONSONANTS = "bcdfghjklmnprstvz"
VOWELS = "aeiou"
# fmt: off
THINGS = (
    "bridge", "museum", "library", "harbour", "festival", "garden", "observatory", "lighthouse",
    "bakery", "school", "station", "market", "theatre", "hotel", "farm", "factory", "tower", "river",
    "valley", "island", "telescope", "engine", "robot", "satellite", "pump", "server", "contract",
    "lease", "policy", "refund", "warranty", "invoice", "meeting", "deadline", "budget", "password",
    "printer", "parking", "vacation", "delivery",
)
# fmt: on
DAYS = ("Mondays", "Tuesdays", "Sundays", "Fridays")


def quoting_tasks(library: Library, count: int, rng: random.Random) -> Iterator[Conversation]:
    """Yield this many tasks. Tasks whose prompt would be too long are left out."""
    made = 0
    while made < count:
        for task in _draft_task(library, rng):
            if len(task.messages[0].content) < MAX_PROMPT:
                yield task
                made += 1


def quoting_prompt(passages: list[Sentences], question: str) -> str:
    """Return the prompt: the instruction, the numbered sources, and the question."""
    sources = "\n\n".join(f"[{number}] " + " ".join(p) for number, p in enumerate(passages, start=1))
    return f"Answer from the sources and cite them like [1].\n\n{sources}\n\nQuestion: {question}"


def _draft_task(library: Library, rng: random.Random) -> list[Conversation]:
    """Return one task; [] if no task can be made of the drawn texts."""
    drawn = [_draw_passage(library, rng) for _ in range(rng.randint(1, 4))]
    passages = [passage for passage in drawn if passage]
    if not passages:
        return []
    number = rng.randrange(len(passages))
    sentence = rng.choice(passages[number])
    others = " ".join(s for p in passages for s in p if s is not sentence).lower()
    words = content_words(sentence, others, library)
    if not words:
        return []
    if rng.random() < SHARE_UNANSWERABLE:
        return _unanswerable(passages, others + sentence.lower(), library, rng)
    asked = _asked_for(words, sentence, rng)
    prompt = quoting_prompt(passages, rng.choice(QUESTIONS).format(asked))
    return [pair("reading", prompt, f"{sentence} [{number + 1}]")]


def content_words(sentence: str, others: str, library: Library) -> list[str]:
    """Return the sentence's words of at least four letters that are not common and in no other sentence."""
    return [
        word
        for word in re.findall(r"[A-Za-z][A-Za-z']+", sentence)
        if len(word) > 3
        and library.word_counts[word.lower()] < COMMON
        and not re.search(r"\b" + re.escape(word.lower()) + r"\b", others)
    ]


def _asked_for(words: list[str], sentence: str, rng: random.Random) -> str:
    """Draw one of the words, sometimes with its neighbours."""
    word = rng.choice(words)
    if rng.random() < SHARE_PHRASES:
        phrase = re.search(r"\b(\w+ )?" + re.escape(word) + r"( \w+)?\b", sentence)
        return phrase[0] if phrase else word
    return word


def _unanswerable(
    passages: list[Sentences], text: str, library: Library, rng: random.Random
) -> list[Conversation]:
    place = made_up_fact(rng).place
    word = rng.choice(rng.choice(library.books)).split()[-1].strip('.,!?"')
    asked = rng.choice([place, word])
    if asked.lower() in text or len(asked) < 4:
        return []
    prompt = quoting_prompt(passages, rng.choice(QUESTIONS).format(asked))
    return [pair("reading", prompt, f"The sources do not mention {asked}.")]


def _draw_passage(library: Library, rng: random.Random) -> Sentences:
    """Draw made-up facts, sentences of a book, a command's page, or a message of a dialogue."""
    kind = rng.random()
    if kind < 0.45:
        return [made_up_fact(rng).sentence for _ in range(rng.randint(1, 3))]
    if kind < 0.8:
        book, length = rng.choice(library.books), rng.randint(1, 3)
        start = rng.randrange(max(1, len(book) - length))
        return book[start : start + length]
    if kind < 0.9:
        page = rng.choice(library.pages)
        sentence = f"{page.name}: {page.description}"
        return [sentence if sentence.endswith(".") else sentence + "."]
    return rng.choice(library.dialogues)[:3]


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence, and a made-up name of a place, which most sentences contain."""

    sentence: str
    place: str


def made_up_fact(rng: random.Random) -> Fact:
    """Write a sentence with made-up names and numbers in one of nine forms."""
    thing, place = rng.choice(THINGS), made_up_name(rng)
    year, number = rng.randint(1300, 2025), rng.randint(2, 9999)
    first, last = made_up_name(rng), made_up_name(rng)
    # All forms are written before one is chosen, because leaving out their draws would change all later draws.
    forms = [
        f"The {place} {thing} opened in {year} and was designed by {first} {last}.",
        f"The {thing} in {place} has {number} visitors every year.",
        f"{first} {last} founded the {place} {thing} in {year}.",
        f"Tickets for the {place} {thing} cost {number} coins and are sold by {first}.",
        f"The {place} {thing} is {number} metres long and stands near {last}.",
        f"According to {first}, the {thing} must be paid within {rng.randint(2, 90)} days.",
        f"The {thing} of {place} closes at {rng.randint(1, 12)} in the evening on {rng.choice(DAYS)}.",
        f"Every {thing} at {place} is checked by {first} before {year}.",
        f"The code of the {place} {thing} is {rng.randint(1000, 99999)}.",
    ]
    return Fact(rng.choice(forms), place)


def made_up_name(rng: random.Random) -> str:
    """Return a name of two or three syllables, perhaps with a consonant at the end: Bina, Kelor."""
    syllables = [rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.randint(2, 3))]
    return "".join(syllables).capitalize() + rng.choice(("", "n", "r", "s", "l"))
