"""Next-next tokens: what the model held likely in place of the current token often comes right behind it.

    the model says, behind "3 * 2":   " ="  1.2 ahead of " is", 2.0 ahead of " equals"
    the current token is " =":        " is" and " equals" are guesses of the next one

LogitSpec (Liu et al. 2025, arXiv 2507.01449) found it. The row that chose the current token taught its likeliest
tokens to the table already, so that they are looked up there.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from app.engine.block.entries import GAP_STEP, gap_class, unpack_successor
from app.engine.lookahead.context_table import LONGEST, ContextTable

NO_ALTERNATIVES: Mapping[int, int] = MappingProxyType({})


def alternatives(table: ContextTable, context: Sequence[int]) -> Mapping[int, int]:
    """Token -> gap class of what was likely in place of the last token of a context."""
    known = table.lookup(context[-LONGEST - 1 : -1]) if len(context) > LONGEST else None
    if known is None or known.successor_length < LONGEST:
        return NO_ALTERNATIVES
    found = {token: gap_class(gap * GAP_STEP) for token, gap in map(unpack_successor, known.successors)}
    found[unpack_successor(known.successors[0])[0]] = 0  # its gap is its lead
    found.pop(context[-1], None)
    return found
