"""Decides when to ask the draft model: when the tokens that it brings are worth the time that it takes.

A question to the draft model costs s seconds and asks for the tokens after one node of the draft tree. The tuner
(`row_planner.py`) values a second at R tokens. If the node's reach (`draft_tree.py`) is r, the question brings
g * r tokens. The gain g is measured: the number of tokens that the joint trees brought beyond those of the pool's
own trees, divided by the sum of the asked nodes' reaches. So a question is asked if

    g * r  >  R * s,   that is, if r is above R * s / g

No node has a reach above 1. So if R * s / g is above 1, questions are asked only as trials. For trials, half a
percent of the time of steps without a question is saved. A trial begins when this is enough for one question and
for reading the tokens that the draft model has not read yet. If a question took longer than was saved, the
difference is saved before the next trial.
"""

from math import sqrt

FIRST_GAIN, FIRST_REACH = 0.5, 6.0
"""The gain that is assumed at first. It counts like a measurement over questions with this sum of reaches."""
MEMORY = 0.98
"""Factor by which the weight of earlier trees in the gain falls with each new tree."""
SECONDS_MEMORY = 0.9
"""The weight of the old estimate of a question's seconds when a step gives a new value."""
SAVED = 0.005
"""The share of the time of steps without the draft model that may be spent on asking it again."""
READ_FOR = 32
"""The cost of reading unread tokens is divided among this many questions. A step that reads more tokens than this
updates the estimated seconds of a token; other steps update the estimated seconds of a question."""
ALWAYS = 0.1
"""While no price is set, the draft model is asked about nodes with at least this reach. With a price, the limit is
never below half of it."""
NEVER = 2.0
"""A limit above the reach of any node, so that the draft model is not asked."""
EVIDENCE = 1.0
"""The draft model's guesses are fed only if they gain more tokens than chance explains: more than this many times
the square root of the sum of squared gains."""


class DraftModelBudget:
    """Decides when the draft model is asked, in all replies of a model. While no price is set, for example because
    the user fixed the number of rows, time is ignored."""

    def __init__(self, question: float, token: float) -> None:
        """Start from measured seconds: of a question, and of each further token that is read with it."""
        self.question, self._token = question, token
        self._price = 0.0
        self.expect(FIRST_GAIN)
        self._saved = 0.0
        self._spent = 0.0

    @property
    def gain(self) -> float:
        """Tokens that a question brings, per unit of the node's reach."""
        return self._gain / self._reach

    @property
    def is_worth_rows(self) -> bool:
        """Whether the draft model's guesses should be fed to the target; else they are only counted."""
        return self._gain > EVIDENCE * sqrt(self._squares)

    def expect(self, gain: float) -> None:
        """Start from a gain that an earlier run has measured."""
        self._gain, self._reach, self._squares = gain * FIRST_REACH, FIRST_REACH, 0.0

    def begin_reply(self) -> None:
        """Forget the price, so that time is ignored until a new price is set."""
        self._price = self._spent = 0.0

    def price(self, tokens_per_second: float) -> None:
        """Set how many tokens a second is worth."""
        self._price = tokens_per_second

    def least(self, unread: int) -> float:
        """Return the smallest reach of the nodes to be asked about, in a step with `unread` tokens to read."""
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
        """Count the seconds of a step's questions; refine the estimated seconds of a question or token."""
        self._spent += seconds
        if unread > READ_FOR:
            self._token = max(seconds - questions * self.question, 0.0) / (unread - 1)
            return
        each = (seconds - self._token * max(unread - 1, 0)) / questions
        if each > 0:
            self.question = SECONDS_MEMORY * self.question + (1 - SECONDS_MEMORY) * each

    def learn(self, tokens: int, reach: float) -> None:
        """Count the tokens that the questions of a tree brought beyond the pool's, and the asked nodes' reaches."""
        self._gain = MEMORY * self._gain + tokens
        self._reach = MEMORY * self._reach + reach
        self._squares = MEMORY * self._squares + tokens * tokens

    def settle(self, seconds: float) -> float:
        """End a step that took `seconds` in all; return how many of these seconds the draft model took."""
        spent, self._spent = self._spent, 0.0
        if spent:
            self._saved = max(self._saved, 0.0) - spent
        else:
            self._saved += SAVED * seconds
        return spent
