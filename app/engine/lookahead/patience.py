"""When to stop looking: text that cannot be guessed is written plainly, with a look now and then.

A look drafts and learns, and costs a little even if nothing comes of it. After some looks in a row that did not pay
come plain steps, twice as many each time:

    look look look look  8 plain  look  16 plain  look  32 plain  look  64 plain  look  64 plain ...

A look that pays ends that. The next reply may be another kind of text: it begins with a quarter of the last rest.
"""

CALM = 4
"""Looks in a row that did not pay, before the first rest."""
LONGEST_REST = 64


class Patience:
    """Kept from reply to reply, for each kind of temperature."""

    def __init__(self) -> None:
        self._calm = 0
        self._rest = CALM

    def begin_reply(self) -> None:
        """A new text may be easier."""
        self._rest = max(self._rest // 4, CALM)
        self._calm = min(self._calm, CALM - 1)

    def look(self, *, did_pay: bool) -> None:
        """A step looked at what could be drafted."""
        self._calm = 0 if did_pay else self._calm + 1
        if did_pay:
            self._rest = CALM

    def rest(self) -> int:
        """How many plain steps to take now."""
        if self._calm < CALM:
            return 0
        self._calm = CALM - 1  # the next look decides
        self._rest = min(2 * self._rest, LONGEST_REST)
        return self._rest
