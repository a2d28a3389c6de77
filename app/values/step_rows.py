"""The rows that a step feeds to the model, by the chosen sizes: one formula for engine and settings.

With W=5, N=4, G=5:

    tree      1 + G·(N-1) = 16    the current token, and 5 guesses of 3 tokens without common prefixes
    window    W·(N-1) - 1 = 14    its first token is the current token
    logits         16 + 5 = 21    every row of the tree, and the window's top row
"""

from dataclasses import dataclass

from app.values.messages import Decoding

PROMPT_LOOKUP_DRAFTS = 10
"""Most tokens that prompt lookup copies."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """The most rows of a step: of the tree, including the current token; of the window; and with logits."""

    tree: int
    window: int
    read: int

    @property
    def total(self) -> int:
        """All rows."""
        return self.tree + self.window


def tree_rows(guesses: int, ngram: int) -> int:
    """The current token, and G guesses of N-1 tokens."""
    return 1 + guesses * (ngram - 1)


def window_rows(width: int, ngram: int) -> int:
    """W columns of N-1 guesses, of which the first one is the current token."""
    return width * (ngram - 1) - 1 if width else 0


def step_rows(decoding: Decoding) -> StepRows | None:
    """The largest step with these sizes; None where auto chooses while it decodes."""
    match decoding.decoder:
        case "plain":
            return StepRows(1, 0, 1)
        case "prompt-lookup":
            return StepRows(1 + PROMPT_LOOKUP_DRAFTS, 0, 1 + PROMPT_LOOKUP_DRAFTS)
        case "jacobi":
            return StepRows(1, decoding.window, 1 + decoding.window)
        case "lookahead":
            tree = tree_rows(decoding.guesses, decoding.ngram)
            window = window_rows(decoding.window, decoding.ngram)
            return StepRows(tree, window, tree + decoding.window)
        case "auto":
            rows = decoding.rows
            return StepRows(rows, 0, rows) if rows else None
