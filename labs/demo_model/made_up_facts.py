"""Makes facts with made-up names and numbers, which a model can only copy."""

import random
from dataclasses import dataclass

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
