"""When the draft model is asked: if the tokens that it brings are worth the time that it takes.

The tuner (`planning.py`) prices a second at R tokens. A question about a node that is reached with chance r costs
s seconds and brings g * r tokens, where g is measured: the tokens that were accepted in drafted steps, less those
that the pool's own tree would have had accepted, for each unit of reach asked about. So the draft model is asked
where

    g * r  >  R * s

and nowhere at all where that is above 1. With R = 25 tokens and 4 ms a question, each costs 0.1 tokens; with g =
0.4 it is asked behind nodes that are reached in a quarter of all cases.

A model that is not asked proves nothing. So some of the time of steps without it is saved, half a percent, and when
that is enough for one question it is asked again. Text that it has not read yet counts to what a question costs: a
draft model that is left out reads no prompt. What took longer than was saved has to be saved later.
"""

from math import sqrt

FIRST_GAIN, FIRST_REACH = 0.5, 6.0
"""Tokens that a question is expected to bring where nothing is known, and the questions that this is worth."""
MEMORY = 0.98
"""What is left of an old step in the gain."""
SECONDS_MEMORY = 0.9
"""What is left of an old question in its seconds."""
SAVED = 0.005
"""The share of other steps' time that may be spent on looking again."""
READ_FOR = 32
"""Questions that share the cost of reading what is new in a long text. What is longer tells what reading takes."""
ALWAYS = 0.1
"""Where sizes are fixed: the reach from which on it is asked."""
NEVER = 2.0
"""More than any reach."""
EVIDENCE = 1.0
"""Its guesses are fed where they brought more than so many standard deviations of what chance alone may bring."""


class DraftModelBudget:
    """Decides when the draft model is asked: always while no price is set, as with fixed sizes.

    It is kept from reply to reply."""

    def __init__(self, question: float, token: float) -> None:
        """Seconds of a question, and of each token more that is read with it."""
        self.question, self._token = question, token
        self._price = 0.0
        self.expect(FIRST_GAIN)
        self._saved = 0.0
        self._spent = 0.0

    @property
    def gain(self) -> float:
        """Tokens that a question behind a certain node brings."""
        return self._gain / self._reach

    @property
    def is_worth_rows(self) -> bool:
        """Whether its guesses are to be fed; otherwise they are only counted."""
        return self._gain > EVIDENCE * sqrt(self._squares)

    def expect(self, gain: float) -> None:
        """Start from the tokens that a question brought in an earlier run."""
        self._gain, self._reach, self._squares = gain * FIRST_REACH, FIRST_REACH, 0.0

    def begin_reply(self) -> None:
        """Ask whatever it costs, until a price is set."""
        self._price = self._spent = 0.0

    def price(self, tokens_per_second: float) -> None:
        """Set how many tokens a second is worth from now on."""
        self._price = tokens_per_second

    def least(self, unread: int) -> float:
        """The least reach of a node to be asked about, in a step before which so many tokens are unread."""
        if not self._price:
            return ALWAYS
        reading = self._token * max(unread - 1, 0)
        least = self._price * (self.question + reading / READ_FOR) / max(self.gain, 1e-6)
        if least <= 1:
            return max(least, ALWAYS / 2)
        if self._saved >= self.question + reading:
            return 1.0
        return NEVER

    def asked(self, seconds: float, questions: int, unread: int) -> None:
        """Count the seconds of a step's questions; refines what a question and a token cost."""
        self._spent += seconds
        if unread > READ_FOR:
            self._token = max(seconds - questions * self.question, 0.0) / (unread - 1)
            return
        each = (seconds - self._token * max(unread - 1, 0)) / questions
        if each > 0:
            self.question = SECONDS_MEMORY * self.question + (1 - SECONDS_MEMORY) * each

    def learn(self, tokens: int, reach: float) -> None:
        """Count the accepted tokens that questions brought beyond the pool's own, and their reach."""
        self._gain = MEMORY * self._gain + tokens
        self._reach = MEMORY * self._reach + reach
        self._squares = MEMORY * self._squares + tokens * tokens

    def settle(self, seconds: float) -> float:
        """End a step that took so many seconds in all; returns how many of them the draft model took."""
        spent, self._spent = self._spent, 0.0
        if spent:
            self._saved = max(self._saved, 0.0) - spent
        else:
            self._saved += SAVED * seconds
        return spent
