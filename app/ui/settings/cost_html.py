"""What the chosen decoder costs, in words: rows of a step, and their memory with the loaded model."""

from html import escape

from app.messages import Decoding
from app.model_messages import RowPrice, gigabytes
from app.step_rows import StepRows, step_rows

AUTO = "As many rows as pay on this machine, step by step; one where no draft pays."
FORMULAS = {
    "lookahead": "tree 1 + G·(N-1), window W·(N-1) - 1",
    "jacobi": "the current token and W guesses",
    "prompt-lookup": "the current token and up to 10 that stood there before",
    "plain": "one token per step",
    "auto": "on average over a reply",
}


def cost_html(decoding: Decoding, price: RowPrice | None, model: str) -> str:
    """The cost of these sizes; `model` is the name of the loaded one, whose price of a row it is."""
    rows = step_rows(decoding)
    if rows is None:
        return _card(decoding, f"<p>{escape(AUTO)}</p>", "")
    return _card(decoding, _rows(decoding, rows), _memory(rows, price, model))


def _card(decoding: Decoding, rows: str, memory: str) -> str:
    return f'<div class="cost" data-decoder="{decoding.decoder}" role="status">{rows}{memory}</div>'


def _rows(decoding: Decoding, rows: StepRows) -> str:
    parts = f"{rows.tree} tree + {rows.window} window, " if rows.window else ""
    words = f"{parts}{_count(rows.read, 'row')} with logits"
    return (
        f"<p><b>{_count(rows.total, 'row')} per step</b> <span>{escape(words)}</span></p>{_bar(rows)}"
        f"<p class='hint'>{escape(FORMULAS[decoding.decoder])}</p>"
    )


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _bar(rows: StepRows) -> str:
    tree, label = rows.tree / rows.total, f"{rows.tree} rows of the tree, {rows.window} of the window"
    return (
        f'<div class="bar" role="img" aria-label="{label}"><i class="of-cache" style="width:{tree:.1%}"></i>'
        f'<i class="of-weights" style="width:{1 - tree:.1%}"></i></div>'
    )


def _memory(rows: StepRows, price: RowPrice | None, model: str) -> str:
    if price is None:
        return '<p class="hint">With a model loaded, its memory for these rows stands here.</p>'
    logits, cache = rows.read * price.logits, rows.total * price.cache
    return (
        f'<p class="hint">With {escape(model)}: {gigabytes(logits)} of logits and {gigabytes(cache)} of keys and '
        "values at each step, estimated.</p>"
    )
