"""A text that is typed on one page and may be changed on another: what comes back is told from what is new.

While somebody types, each state of the text is stored and seen again a moment later, when more has been typed.
Such an echo must not be drawn into the box; what another page has stored must be:

    sent "B", "Be", "Be k"      seen "Be"       an echo: "B" is past, "Be k" still to come
                                seen "Be k"     an echo
                                seen "Hush"     somebody else's
"""

from collections import deque

REMEMBERED = 100
"""States that are remembered; they are stored within moments."""


class Echo:
    """What one page has sent of a text and has not seen since. One thread sends, another sees."""

    def __init__(self) -> None:
        self._sent: deque[str] = deque(maxlen=REMEMBERED)

    def send(self, text: str) -> None:
        """To be called before the text is stored."""
        self._sent.append(text)

    def is_of(self, seen: str) -> bool:
        """Whether the stored text that is seen was sent from here; what was sent before it is past then."""
        is_own = seen in self._sent
        while self._sent and not (is_own and self._sent[0] == seen):
            self._sent.popleft()
        return is_own
