"""The lookahead window of a step as a table: a row for each age, a column for each distance.

Column i of row r guesses the token i + r places behind the current one (see app/engine/lookahead/window.py), so
guesses of the same place stand below each other. With W=3, N=4 and c the current token:

              c  +1 +2 +3 +4
    newest          2  3  4
                 1  2  3
    oldest    c  1  2
    written   c  1  2  …            what the reply really says there: guesses that came true are lit
"""

from collections.abc import Sequence
from html import escape

from app.ui.live.token_text import visible
from app.ui.live.tree_picture import Words

Guesses = Sequence[Sequence[int]]
"""A window's rows, oldest first."""


def window_table(window: Guesses, ahead: Sequence[int], fresh: int, words: Words) -> str:
    """The table. `ahead` are the current token and what is known to follow it, `fresh` of them of this step."""
    reach = len(window[0]) + len(window) - 1
    rows = "".join(
        _row(_age(age, len(window)), age, guesses, ahead, reach, words)
        for age, guesses in reversed(list(enumerate(window)))
    )
    heads = "".join(f'<th scope="col">{f"+{place}" if place else "now"}</th>' for place in range(reach))
    written = _written(ahead[:reach], reach, fresh, words)
    return f'<table class="guesses"><thead><tr><td></td>{heads}</tr></thead><tbody>{rows}{written}</tbody></table>'


def tokens_of(window: Guesses) -> list[int]:
    """Every token of a window."""
    return [token for row in window for token in row]


def _age(age: int, count: int) -> str:
    words = "newest" if age == count - 1 else "oldest" if not age else ""
    return f'<th scope="row">{words}</th>' if words else "<td></td>"


def _row(head: str, age: int, guesses: Sequence[int], ahead: Sequence[int], reach: int, words: Words) -> str:
    cells = ["<td></td>"] * age
    for place, token in enumerate(guesses, start=age):
        came_true = 0 < place < len(ahead) and ahead[place] == token
        cells.append(_cell(token, "true" if came_true else "guess" if place else "now", words))
    cells += ["<td></td>"] * (reach - len(cells))
    return f"<tr>{head}{''.join(cells)}</tr>"


def _written(ahead: Sequence[int], reach: int, fresh: int, words: Words) -> str:
    cells = "".join(
        _cell(token, "fresh" if place < fresh else "later", words) for place, token in enumerate(ahead)
    )
    return f'<tr class="written"><th scope="row">written</th>{cells}{"<td></td>" * (reach - len(ahead))}</tr>'


def _cell(token: int, kind: str, words: Words) -> str:
    text = escape(visible(words[token]))
    return f'<td class="{kind}" title="{text}">{text}</td>'
