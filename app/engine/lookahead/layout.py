"""One step's block: the draft tree and the window, both below the one current token.

    rows   0            1 .. D-1         D .. D+V-1
           current      drafts           window guesses
    see    prefix       + ancestors      + what jacobi_window.py draws

The two branches never see each other. Logits are wanted for every tree row and for the window's top row.
"""

from dataclasses import dataclass

from app.engine.block.block import Block
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
    drafts = len(tree)
    # place 0 of the window is the current token, which is the tree's root already
    parents = [drafts + place - 1 if place else 0 for place in window.parents()]
    top = [drafts + place - 1 if place else 0 for place in window.top()]
    block = Block(
        tokens=(*tree.tokens, *window.tokens()),
        positions=tuple([position + offset for offset in (*tree.depths, *window.offsets())]),
        parents=(*tree.parents, *parents),
        wanted=(*range(drafts), *top),
    )
    return Layout(block, slice(drafts, drafts + len(top)))
