"""One step's block: the draft tree and the window, both below the one current token.

    rows   0            1 .. D-1         D .. D+V-1
           current      drafts           window guesses
    see    prefix       + ancestors      + what jacobi_window.py draws

The two branches never see each other. Logits are wanted for every tree row and for the window's top row.
"""

from dataclasses import dataclass

import numpy as np

from app.engine.block import Block
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.jacobi_window import JacobiWindow


@dataclass(frozen=True, slots=True)
class Layout:
    """A block, and which of its wanted logits [R] were read behind the window's top row."""

    block: Block
    top: slice

    @property
    def sampled_positions(self) -> list[int]:
        """The positions of the tokens that the wanted rows say [R]."""
        return [self.block.positions[row] + 1 for row in self.block.wanted]


def lay_out(tree: DraftTree, window: JacobiWindow, position: int) -> Layout:
    """The block of a step whose current token stands at `position`."""
    drafts, guesses = len(tree), window.tokens()
    visible = np.zeros((drafts + len(guesses),) * 2, dtype=np.bool_)
    visible[:drafts, :drafts] = tree.visible()
    if guesses:  # place 0 of the window is the current token, which is the tree's root already
        seen = window.visible()
        visible[drafts:, 0], visible[drafts:, drafts:] = seen[1:, 0], seen[1:, 1:]
    top = [drafts + place - 1 if place else 0 for place in window.top()]
    block = Block(
        tokens=(*tree.tokens, *guesses),
        positions=tuple(position + offset for offset in (*tree.depths, *window.offsets())),
        visible=visible,
        wanted=(*range(drafts), *top),
    )
    return Layout(block, slice(drafts, drafts + len(top)))
