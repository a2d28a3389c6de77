"""Makes facts and questions in forms that the training of the demo model does not use.

Each question names a made-up word that occurs in only one sentence. Many other words of the question are not in
this sentence.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FORMS: Mapping[str, tuple[str, ...]] = {
    "Doctor {a} keeps {number} jars of {b} under the stairs.": (
        "Which doctor owns jars of {b}?",
        "What would doctor {a} have under the stairs?",
    ),
    "To wake the {a} dragon, whistle {number} times and say {b} aloud.": (
        "How would I wake {a}, that dragon?",
        "Which dragon would hear somebody say {b}?",
    ),
    "The {a} tribe trades honey for {b} stones each winter.": (
        "What does the tribe of {a} give away in winter?",
        "How do I come by {b} stones?",
    ),
    "Captain {a} lost the race against {b} by {number} seconds.": (
        "How close was the race for Captain {a}?",
        "Who lost to {b}?",
    ),
    "A cup of {a} tea with two drops of {b} cures the hiccups.": (
        "What are two drops of {b} good for?",
        "When would you drink {a} tea?",
    ),
    "My aunt {a} taught her parrot to sing {b} backwards.": (
        "Whose parrot can sing {b}?",
        "What pet does aunt {a} own?",
    ),
    "Planet {a} turns around its sun in {number} hours and smells of {b}.": (
        "How many hours are a year on planet {a}?",
        "Which planet smells of {b}?",
    ),
    "Only {a} cheese may be eaten during the feast of {b}.": (
        "What can I eat at the feast of {b}?",
        "When do they serve {a} cheese?",
    ),
    "Engineer {a} replaced the rotor of turbine {number} with a {b} spring.": (
        "Which engineer had a {b} spring?",
        "What did engineer {a} do to the turbine?",
    ),
    "Nobody under {number} years is allowed to dance the {a} in {b}.": (
        "How old must one be to dance {a}?",
        "Where is {b}, and who may dance there?",
    ),
    "When the {a} bell rings, all {b} merchants hide their scales.": (
        "What follows when the bell of {a} rings?",
        "Why would merchants from {b} hide?",
    ),
    "Grandfather {a} swapped his last goat for a map of {b}.": (
        "What did grandfather {a} get for the goat?",
        "Who has a map of {b} now?",
    ),
}
WHATEVER_IT_SAYS = (
    "I need {} here.", "Look up {} for me, would you?", "{}: any remarks?", "Does it bring {} up?",
    "Is {} a concern?", "Let me hear of {}.",
)  # fmt: skip
"""Questions for any fact. All other questions paraphrase a fact."""
SHARE_OF_THESE = 1 / 3
LETTERS = ("bdfgklmnprstvz", "aeiou")


@dataclass(frozen=True, slots=True)
class HeldOutFact:
    sentence: str
    question: str


def held_out_facts(rng: random.Random) -> Iterator[HeldOutFact]:
    """Yield facts without end, each with other made-up words."""
    words = _words(rng)
    while True:
        form = rng.choice(sorted(FORMS))
        names = {"a": next(words).capitalize(), "b": next(words)}
        if rng.random() < SHARE_OF_THESE:
            question = rng.choice(WHATEVER_IT_SAYS).format(names[rng.choice("ab")])
        else:
            question = rng.choice(FORMS[form]).format(**names)
        yield HeldOutFact(form.format(**names, number=rng.randint(3, 900)), question)


def _words(rng: random.Random) -> Iterator[str]:
    """Yield words of five to eight letters, consonants and vowels in turn."""
    seen = set[str]()
    while True:
        first = rng.randint(0, 1)
        word = "".join(rng.choice(LETTERS[(first + place) % 2]) for place in range(rng.randint(5, 8)))
        if word not in seen:
            seen.add(word)
            yield word
