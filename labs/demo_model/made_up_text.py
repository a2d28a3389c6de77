"""Makes sentences that a model can only copy, because it has not read them: made-up words and facts."""

import random
import re
import string
from collections.abc import Sequence

ONSETS = (
    *"bbccddfghjkllmmnnprrssttvwyz", "br", "ch", "cl", "dr", "fl", "gr", "kr", "pl", "qu", "sh", "st", "th",
    "tr",
)  # fmt: skip
VOWELS = (*"aaaeeeiioouu", "ai", "ea", "ee", "ou", "y")
CODAS = ("", "", "", "", *"nnrrslmtx", "ck", "nd", "th", "st")
# fmt: off
THINGS = (
    "bridge", "museum", "library", "harbour", "festival", "garden", "lighthouse", "bakery", "school", "station",
    "market", "theatre", "hotel", "farm", "factory", "tower", "river", "island", "engine", "robot", "pump",
    "server", "contract", "policy", "invoice", "meeting", "budget", "printer", "delivery", "package", "module",
    "function", "file", "folder", "painting", "song", "letter", "ship", "horse", "coat", "kitchen", "recipe",
    "team", "company", "village", "forest", "machine", "battery", "road", "door", "key", "book", "clock",
    "window", "ticket", "lamp", "bottle", "queue", "parser",
)
ADJECTIVES = (
    "old", "new", "red", "green", "small", "large", "heavy", "quiet", "broken", "famous", "empty", "cheap",
    "northern", "wooden", "secret", "second", "digital", "public", "private", "frozen", "yellow", "main",
    "local", "hidden", "default",
)
VERBS = (
    "built", "found", "opened", "closed", "repaired", "sold", "bought", "painted", "designed", "moved",
    "tested", "copied", "lost", "renamed", "cleaned", "measured", "described", "protected", "removed", "added",
    "checked", "delivered",
)
MONTHS = ("January", "March", "April", "June", "July", "August", "October", "November", "December")
DAYS = ("Monday", "Tuesday", "Wednesday", "Friday", "Saturday")
SUBJECTS = (
    "The {name} {thing}", "{Name} {Name}", "The {thing} of {Name}", "{Name}",
    "A {adjective} {thing} from {Name}", "The {adjective} {thing}", "Every {thing} in {Name}",
    "The {thing} called {Name}", "Most of the {thing}s near {Name}", "This {thing}", "{Name}'s {thing}",
    "No {thing}", "The {word} {thing}", "Our {adjective} {word}", "It", "Each {word}",
)
PREDICATES = (
    "was {verb} by {Name} in {year}", "costs {number} {word}s", "belongs to {Name} {Name}",
    "is {number} metres long", "has {number} {thing}s and one {word}", "is {verb} every {day}",
    "{verb} the {adjective} {thing} of {Name}", "is called {word} in {Name}",
    "must be {verb} before {month} {small}", "can be {verb} with the {word} {thing}",
    "was {verb} after {number} {word}s", "is not a {thing} but a {word}", "stands between {Name} and {Name}",
    "uses {word} for the {thing}", "needs {small} {adjective} {word}s", "will be {verb} by the {word}",
    "is {adjective}", "has the code {number}", "supports {word}, {word} and {word}",
    "keeps its {word} in a {adjective} {thing}",
)
OPENERS = (
    "In {year}, ", "According to {Name}, ", "On {day}, ", "Near {Name}, ", "If the {thing} is {verb}, ",
    "For {word}, ", "Since {month}, ", "With {number} {word}s, ",
)
ENDINGS = (
    " near {Name}", " since {year}", " because of {Name}", " on {day}", ", not by {Name}",
    " with {small} {word}s", " for {Name}", ", and the {thing} is {adjective}", " when {Name} is away",
    " in {month}", " (see {word})", ", which {Name} {verb}", " at {small} o'clock", " without the {word}",
)
# fmt: on
LONG_WORD = re.compile("[A-Za-z]{4,}[.,;:!?]?")
LONGEST_FORM = 140
SLOTS = ("{coined}", "{coined}", "{coined}", "{Name}", "{number}")


class TextMaker:
    """Makes words and sentences with one random generator and a list of real words."""

    def __init__(self, rng: random.Random, words: Sequence[str]) -> None:
        self.rng = rng
        self._words = words

    def fact_form(self) -> str:
        """Draw a form: a subject, a predicate, and perhaps something before and after them, with slots to fill."""
        rng = self.rng
        form = f"{rng.choice(SUBJECTS)} {rng.choice(PREDICATES)}"
        if rng.random() < 0.2:
            opener = rng.choice(OPENERS)
            form = opener + (form if form.startswith("{N") else form[0].lower() + form[1:])
        if rng.random() < 0.35:
            form += rng.choice(ENDINGS)
        return form + "."

    def form_of(self, sentence: str) -> str:
        """Replace one to three long words of a real sentence by slots.

        If there is no such word, or the sentence is too long or has a brace, returns a `fact_form`."""
        rng, words = self.rng, sentence.split()
        long = [place for place, word in enumerate(words) if LONG_WORD.fullmatch(word)]
        if not long or len(sentence) > LONGEST_FORM or "{" in sentence:
            return self.fact_form()
        for place in rng.sample(long, min(len(long), rng.randint(1, 3))):
            slot = "{Name}" if words[place][0].isupper() else rng.choice(SLOTS)
            words[place] = re.sub("[A-Za-z]+", slot, words[place])
        return " ".join(words)

    def nonsense(self) -> str:
        """Return a sentence of random words, some of them made up, with punctuation between them."""
        rng = self.rng
        words = [self.any_word() for _ in range(rng.randint(3, 11))]
        marked = [word + rng.choice(",;:") if rng.random() < 0.07 else word for word in words[:-1]]
        text = " ".join([*marked, words[-1]])
        return text[0].upper() + text[1:] + rng.choice("....!?")

    def any_word(self) -> str:
        """Draw a word: mostly a real word, sometimes a made-up word, a number or a symbol of technical texts."""
        chance = self.rng.random()
        if chance < 0.62:
            return self.rng.choice(self._words)
        if chance < 0.82:
            return self.made_up_word()
        return self.name() if chance < 0.92 else self.symbol()

    def made_up_word(self) -> str:
        """Draw one to three syllables, or sometimes three to six random letters: breanol, trimath, xqvt."""
        rng = self.rng
        if rng.random() < 0.08:
            return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 6)))
        parts = [rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(rng.choice((1, 2, 2, 2, 3)))]
        return f"{''.join(parts)}{rng.choice(CODAS)}"

    def name(self) -> str:
        """Draw a made-up word with a capital letter."""
        return self.made_up_word().capitalize()

    def symbol(self) -> str:
        """Draw a number, a code, or an identifier of a program."""
        rng, word = self.rng, self.made_up_word
        real = rng.choice(self._words)
        return rng.choice(
            (
                str(rng.randint(0, 99999)), f"{rng.randint(1, 12)}.{rng.randint(0, 30)}", f"{word()}_{real}",
                f"{word()}()", f"`{real}`", f"{self.name()}{real.capitalize()}", f"{real}-{word()}", f"({real})",
                f'"{real} {word()}"', f"{word()}/{real}", word().upper(),
                f"{real[:1].upper()}{rng.randint(10, 999)}",
            )
        )  # fmt: skip

    def filled(self, form: str) -> str:
        """Fill the form's slots with names, words and numbers."""
        while "{" in form:
            start, end = form.index("{"), form.index("}")
            form = form[:start] + self._slot(form[start + 1 : end]) + form[end + 1 :]
        return form

    def _slot(self, kind: str) -> str:
        rng = self.rng
        if kind in ("Name", "name"):
            return self.name()
        if kind == "coined":
            return self.made_up_word()
        if kind == "word":
            return rng.choice(self._words) if rng.random() < 0.5 else self.made_up_word()
        if kind in ("number", "small", "year"):
            lowest, highest = {"number": (2, 99999), "small": (2, 60), "year": (1200, 2030)}[kind]
            return str(rng.randint(lowest, highest))
        choices = {"thing": THINGS, "adjective": ADJECTIVES, "verb": VERBS, "month": MONTHS, "day": DAYS}
        return rng.choice(choices[kind])
