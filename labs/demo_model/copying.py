"""Makes copying tasks: sources that no model has read before, and several questions about them.

Each question names a word that occurs in one sentence only. The answer is that sentence and its source's number.
The prompt is the app's own (`app/conversation/prompt_sources.py`), with the app's system prompt and without it.
"""

import random
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.conversation.prompt_sources import GUARD, ORDER
from labs.demo_model.made_up_text import TextMaker
from labs.demo_model.passages import Sentences

# fmt: off
FORMS = (
    "What do the sources say about {}?", "Tell me about {}.", "What does the text say about {}?",
    "What about {}?", "Find the sentence about {}.", "What do my documents say about {}?",
    "Quote the part that mentions {}.", "Where is {} mentioned?", "{}?", "Who or what is {}?", "What is {}?",
    "Which sentence contains {}?", "What is said about {}?", "Please quote the sentence on {}.",
    "Give me the line with {}.", "Show me {}.", "I am looking for {}.", "Is there anything about {}?",
    "Do you know anything about {}?", "Search for {}.", "Can you find {} in the text?",
    "What happened with {}?", "Explain {}.", "Read me the passage on {}.",
    "Copy the sentence with the word {}.", "In which sentence does {} occur?", "How does {} come up?",
    "What can I read about {} here?", "Say what is known of {}.", "I want to know more about {}.",
    "What information is there on {}?", "Which source talks about {}?", "Cite the text about {}.", "Quote: {}",
    "What was that about {}?", "Summarise what is written on {}.", "Have you read about {}?",
)
FILLERS = (
    "who", "when", "where", "what", "which", "how", "why", "is", "was", "are", "does", "did", "can", "the", "a",
    "of", "in", "with", "about", "for", "you", "me", "I", "it", "there", "please", "find", "tell", "say",
    "know", "much", "many", "has", "have", "do", "on", "from", "by", "to", "that", "this", "anything",
    "something", "word", "part", "text", "and", "would",
)
BEGINNINGS = (
    "What", "Which", "Who", "When", "Where", "How", "Why", "Whose", "What does", "What did", "What would",
    "What is", "What can", "How many", "How much", "How long", "How do I", "How would", "Who has", "Who is",
    "When do", "When was", "Where is", "Where does", "Why would", "Why is", "Which one", "Is there", "Does",
    "Did", "Was", "Has", "Are", "Can", "Do you know", "Tell me", "Say", "I wonder", "Remember", "In which",
    "For whom", "Under what", "",
)
# fmt: on
WORD = re.compile(r"[A-Za-z0-9][\w'-]*[A-Za-z0-9]")
MARKS = '.,;:!?"()`'
COMMON = 400
SHARE_UNANSWERABLE = 0.03
NUM_FORMS = (1, 2, 3, 5, 8, 30, 30)
"""Number of forms of the facts in some sources: with few forms, only the names distinguish the sentences."""
SHARE_REAL_FORMS = 0.6
SHARE_PHRASES = 0.2
SHARE_PARAPHRASES, SHARE_OWN_WORDS = 0.35, 0.25
"""Shares of questions made of the sentence's words, and of any words. All other questions follow one of FORMS."""
SHARE_CAPITALS_CHANGED = 0.05


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question about the sources, and its only right answer."""

    question: str
    answer: str
    asked: str
    """The word or words that the question names."""
    number: int
    """The number of the source with the sentence; 0 if no source has the word."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Passages as a prompt contains them, each with the sentences that questions may ask for."""

    texts: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]

    def prompt(self) -> str:
        """Return the user's message up to the question."""
        numbered = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(self.texts, 1))
        return f"{ORDER}\n\n{numbered}\n\nQuestion:"


class CopyingTasks:
    """Draws sources and questions about them."""

    def __init__(self, real: Sequence[Sentences], word_counts: Counter[str], rng: random.Random) -> None:
        words = [word for word in word_counts if word.isalpha() and len(word) > 1]
        self.make = TextMaker(rng, words)
        self.rng = rng
        self._counts = word_counts
        self._real = real

    def system(self) -> str:
        """Draw a system prompt: mostly the app's, sometimes none or a longer one."""
        chance = self.rng.random()
        if chance < 0.7:
            return GUARD
        return "" if chance < 0.95 else f"{self.rng.choice(self.rng.choice(self._real))}\n\n{GUARD}"

    def sources(self, most_characters: int) -> Sources:
        """Draw one to six passages of about this many characters together."""
        rng = self.rng
        number, kind = rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6)), rng.random()
        share = most_characters / number
        forms = [self._form() for _ in range(rng.choice(NUM_FORMS))]
        passages = [self._sentences(share * rng.uniform(0.5, 1.2), kind, forms) for _ in range(number)]
        texts = tuple(self._as_text(sentences) for sentences in passages)
        verbatim = (
            tuple(filter(None, (_verbatim(one, text) for one in sentences)))
            for sentences, text in zip(passages, texts, strict=True)
        )
        return Sources(texts, tuple(verbatim))

    def lookups(self, sources: Sources) -> Iterator[Lookup]:
        """Yield questions in a random order, at most two about each sentence."""
        rng = self.rng
        places = [(n, one) for n, sentences in enumerate(sources.sentences, 1) for one in sentences] * 2
        rng.shuffle(places)
        everything = " ".join(" ".join(text.split()) for text in sources.texts)
        for number, sentence in places:
            if rng.random() < SHARE_UNANSWERABLE:
                word = self.make.name()
                if word.lower() not in everything.lower():
                    yield Lookup(self._question(word, ""), f"The sources do not mention {word}.", word, 0)
            elif words := self._unique_words(sentence, everything):
                asked = self._asked_for(words, sentence)
                yield Lookup(self._question(asked, sentence), f"{sentence} [{number}]", asked, number)

    def _form(self) -> str:
        if self.rng.random() < SHARE_REAL_FORMS:
            return self.make.form_of(self.rng.choice(self.rng.choice(self._real)))
        return self.make.fact_form()

    def _sentences(self, most_characters: float, kind: float, forms: Sequence[str]) -> Sentences:
        """Draw sentences of one sort, consecutive sentences if they are real.

        A `kind` below 0.6 decides the sort, so that all passages of the sources have the same sort."""
        rng, taken = self.rng, list[str]()
        sort = kind / 0.6 if kind < 0.6 else rng.random()
        book = rng.choice(self._real)
        at = rng.randrange(len(book))
        while not taken or sum(map(len, taken)) < most_characters:
            if sort < 0.55:
                taken.append(self.make.filled(rng.choice(forms)))
            elif sort < 0.7:
                taken.append(self.make.nonsense())
            elif at < len(book):
                taken.append(book[at])
                at += 1
            else:
                break
        return taken

    def _as_text(self, sentences: Sentences) -> str:
        """Format a passage: sometimes in lines of 50 to 90 characters, sometimes after another sentence's end."""
        text, rng = " ".join(sentences), self.rng
        if rng.random() < 0.08:
            text = self.make.nonsense().lower() + " " + text
        if rng.random() < 0.12:
            text = "\n".join(
                textwrap.wrap(text, rng.randint(50, 90), break_long_words=False, break_on_hyphens=False)
            )
        return text

    def _unique_words(self, sentence: str, everything: str) -> list[str]:
        text = everything.lower()
        return [
            word
            for word in WORD.findall(sentence)
            if len(word) > 2 and self._counts[word.lower()] < COMMON and text.count(word.lower()) == 1
        ]

    def _asked_for(self, words: list[str], sentence: str) -> str:
        rng, word = self.rng, self.rng.choice(words)
        if rng.random() < SHARE_PHRASES:
            phrase = re.search(r"(\w+ )?" + re.escape(word) + r"( \w+)?", sentence)
            return phrase[0] if phrase else word
        if rng.random() < SHARE_CAPITALS_CHANGED:
            return word.lower() if word[0].isupper() else word.capitalize()
        return word

    def _question(self, asked: str, sentence: str) -> str:
        """Return one of FORMS with `asked`, or `asked` among words from the sentence and from FILLERS."""
        chance = self.rng.random() if sentence else 1.0
        if chance < SHARE_PARAPHRASES:
            return self._paraphrase(asked, sentence)
        if chance < SHARE_PARAPHRASES + SHARE_OWN_WORDS:
            return self._in_own_words(asked, sentence)
        return self.rng.choice(FORMS).format(asked)

    def _paraphrase(self, asked: str, sentence: str) -> str:
        """Return a question of some of the sentence's words, mostly in their order, and all of the asked words."""
        rng, kept = self.rng, self.rng.uniform(0.1, 0.7)
        before, _, after = (part.split() for part in _parted(sentence, asked))
        parts = [[one.strip(MARKS) for one in part if rng.random() < kept] for part in (before, after)]
        if rng.random() < 0.3:
            parts.reverse()
        words = [*parts[0], asked, *parts[1]]
        for _ in range(rng.choice((0, 0, 1, 2))):
            words.insert(rng.randint(0, len(words)), rng.choice(FILLERS))
        text = " ".join(filter(None, [rng.choice(BEGINNINGS), *words]))
        return text[0].upper() + text[1:] + rng.choice("????.")

    def _in_own_words(self, asked: str, sentence: str) -> str:
        rng = self.rng
        others = [*rng.choices(FILLERS, k=rng.randint(1, 6))]
        if rng.random() < 0.5:
            others += rng.sample(sentence.split(), min(2, len(sentence.split())))
        before = rng.randint(0, len(others))
        text = " ".join([*others[:before], asked, *others[before:]]).rstrip(".,;:!?")
        return text[0].upper() + text[1:] + rng.choice("???.")


def _parted(sentence: str, asked: str) -> tuple[str, str, str]:
    """Split a sentence into the text before the asked words, these words, and the text after them."""
    at = sentence.lower().index(asked.lower())
    end = at + len(asked)
    return sentence[:at], sentence[at:end], sentence[end:]


def _verbatim(sentence: str, text: str) -> str:
    """Return the sentence with the line breaks that it has in the text; "" if it does not occur."""
    found = re.search(r"\s+".join(map(re.escape, sentence.split())), text)
    return found[0] if found else ""
