"""The prompts that an empty chat offers.

Each is answered well by the model, and lookahead pays: greedy in float32, the demo model wrote 1.5 to 4.8 tokens
per step at 16 rows for its four, SmolLM2-135M 1.9 to 5.9 for the others.
"""

from dataclasses import dataclass

from app.settings import DEMO_MODEL


@dataclass(frozen=True, slots=True)
class Starter:
    """A prompt, and what its button says; `detail` is its second line."""

    title: str
    detail: str
    prompt: str


SOURCES = """Answer from the sources and cite them like [1].

[1] The Kelora library opened in 1874 and was designed by Bina Tavor.

[2] Tickets for the Mizan museum cost 45 coins and are sold by Pedo.

[3] The code of the Savu tower is 48213.

Question: What do the sources say about Savu?"""
MUSEUM = """The harbour museum opens at ten and closes at six, except on Mondays, when it stays closed all day. \
Tickets cost eight euros for adults and four for children; on the first Sunday of each month everybody gets in \
free. The old lighthouse behind the museum can be climbed from May to September, in groups of at most twelve \
people, and only in dry weather."""
FOR_DEMO = (
    Starter("Quote from a text", "Three sources, and a question about one of them", SOURCES),
    Starter("What can you do?", "The demo model introduces itself", "What can you do?"),
    Starter(
        "How does lookahead decoding work?",
        "In three sentences, with lookahead",
        "How does lookahead decoding work?",
    ),
    Starter("Find me a flight to Berlin.", "It knows how bookings begin", "Find me a flight to Berlin."),
)
"""What the demo model was trained on: see assets/demo-model/README.md."""
FOR_OTHERS = (
    Starter(
        "Summarise a text", "The hours and prices of a museum, in three sentences",
        f"Summarize this text in three sentences:\n\n{MUSEUM}",
    ),
    Starter(
        "Quote from a text", "The sentence about tickets, word for word",
        f"Copy the sentence about tickets from this text, word for word:\n\n{MUSEUM}",
    ),
    Starter(
        "Write an HTML table", "The opening hours of a shop",
        "Write HTML for a table with the days of the week and opening hours of a shop.",
    ),
    Starter(
        "Write a Python class", "A shopping list, and how to use it",
        "Write a Python class for a shopping list with methods to add, remove and print items, then use it.",
    ),
)  # fmt: skip


def starters_for(model: str) -> tuple[Starter, ...]:
    """The starters for the model of this name."""
    return FOR_DEMO if model == DEMO_MODEL else FOR_OTHERS
