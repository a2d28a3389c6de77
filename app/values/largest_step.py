"""Computes how many rows (token positions) the largest step of given settings feeds to the model.

With lookahead's sizes W=5, N=4, G=5 (`Decoding`) the tree has 1 + G·(N-1) = 16 rows, and the window has
W·(N-1) - 1 = 14 rows. 16 + 5 = 21 rows have logits: all rows of the tree, and the W newest guesses of the window.
"""

from dataclasses import dataclass

from app.values.messages import Decoding

PROMPT_LOOKUP_DRAFTS = 10
"""Maximum number of tokens that prompt lookup copies in one step."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of the largest step: in the tree (with the current token), in the window, with logits (`read`)."""

    tree: int
    window: int
    read: int

    @property
    def total(self) -> int:
        return self.tree + self.window


def tree_rows(guesses: int, ngram: int) -> int:
    """Return the rows of the tree: the current token, and G guesses of N-1 tokens."""
    return 1 + guesses * (ngram - 1)


def window_rows(width: int, ngram: int) -> int:
    """Return the rows of the window: W columns of N-1 tokens, less the first, which is the current token."""
    return width * (ngram - 1) - 1 if width else 0


def largest_step(decoding: Decoding) -> StepRows | None:
    """Return the rows of the largest step with these settings; None if the tuner chooses them for each step."""
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
