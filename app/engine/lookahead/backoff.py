"""Backoff: text that cannot be guessed is written by plain steps, with a drafted step now and then.

A drafted step costs a little even if nothing comes of it. After some drafted steps in a row that did not pay come
plain steps, twice as many each time:

    4 drafted  8 plain  1 drafted  16 plain  1 drafted  32 plain  1 drafted  64 plain  1 drafted  64 plain ...

A drafted step that pays ends that. The next reply may be another kind of text: it begins with a quarter of the last
number of plain steps.
"""

MAX_FAILURES = 4
"""Drafted steps in a row that did not pay, before the first plain ones."""
MAX_PLAIN_STEPS = 64


class Backoff:
    """Kept from reply to reply, for each kind of temperature."""

    def __init__(self) -> None:
        self._failures = 0
        self._plain_steps = MAX_FAILURES

    def begin_reply(self) -> None:
        """A new text may be easier to guess."""
        self._plain_steps = max(self._plain_steps // 4, MAX_FAILURES)
        self._failures = min(self._failures, MAX_FAILURES - 1)

    def observe_draft(self, *, did_pay: bool) -> None:
        """Count a drafted step."""
        self._failures = 0 if did_pay else self._failures + 1
        if did_pay:
            self._plain_steps = MAX_FAILURES

    def plain_steps(self) -> int:
        """How many plain steps to take now."""
        if self._failures < MAX_FAILURES:
            return 0
        self._failures = MAX_FAILURES - 1  # the next drafted step decides
        self._plain_steps = min(2 * self._plain_steps, MAX_PLAIN_STEPS)
        return self._plain_steps
