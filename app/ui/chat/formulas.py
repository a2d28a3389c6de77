"""LaTeX as MathML: finds formulas in Markdown, and lets only safe parts of them reach the page.

Formulas are $x$, \\(x\\), $$x$$ and \\[x\\], and \\begin{align}…\\end{align} on lines of their own. A price is not
a formula: "$5 and $6" has a space before the second $, "$5-$10" a digit after it, "CA$6" a letter before the first
$.

latex2mathml's output as text undoes the escaping inside \\text{…}. So only its tree is used, and this module writes
the HTML: only listed tags and attributes, and every text escaped.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from html import escape, unescape
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

LONGEST = 2_000
"""A formula with more characters of LaTeX is shown as its source."""
DEEPEST = 80
"""Maximum nesting depth of the elements of a formula that is drawn."""
MOST_LINES = 60
"""Maximum number of lines that are searched for the end of a formula."""

CLOSING = {"$$": "$$", r"\[": r"\]", r"\(": r"\)"}
"""The closing delimiter of each opening delimiter; a single $ has rules of its own."""

TAGS = frozenset(
    """math mrow mi mn mo mtext ms mspace msub msup msubsup munder mover munderover mfrac msqrt mroot mtable mtr
    mtd mstyle mpadded mphantom menclose merror mmultiscripts mprescripts none""".split()  # noqa: SIM905
)
ATTRIBUTES = frozenset(
    """display displaystyle scriptlevel mathvariant stretchy symmetric largeop movablelimits fence separator form
    dir accent accentunder lspace rspace minsize maxsize width height depth voffset linethickness columnalign
    rowalign rowspacing columnspacing columnlines rowlines frame notation mathcolor mathbackground""".split()  # noqa: SIM905
)
PARTS = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3}
"""Elements that must have a fixed number of parts, with that number."""
LONG = 30
"""Formulas with fewer elements are not broken into lines."""
_BREAKS = frozenset("=<>≤≥≈≡→⇒⇔∈+\N{MINUS SIGN}-±,;")
"""Operators after which a line may end."""
_CLOSERS = frozenset(")]}|")
_ENVIRONMENT = re.compile(
    r"\\begin\{((?:align|aligned|alignat|equation|gather|gathered|multline|split|cases)\*?)\}"
)
_ALIGNED = re.compile(r"\\(begin|end)\{(?:align|aligned|gather|gathered|multline|split)\*?\}")
_PLAIN = re.compile(r"\\(?:begin|end)\{equation\*?\}")
_PLAIN_VALUE = re.compile(r"[\w .,#%+-]{0,60}")
# Formulas that define macros are refused, because macros can grow without end when they are expanded.
_REFUSED = re.compile(r"\\(?:re)?newcommand|\\def\b|\\let\b|\\DeclareMathOperator")
# No space follows an opening $ or comes before a closing $, and no letter or digit follows a closing $.
_INLINE = re.compile(r"\$(?![\s$])((?:\\.|[^\\$])*?(?<!\s))\$(?![\w$])", re.DOTALL)


def formula_html(latex: str, source: str, is_display: bool) -> str:
    """Return a formula as MathML; if it is invalid or very long, return its source as code."""
    mathml = _mathml(latex.strip(), is_display)
    if not mathml:
        return f'<code class="tex" dir="ltr">{escape(source)}</code>'
    return f'<span class="formula">{mathml}</span>' if is_display else mathml


@lru_cache(maxsize=512)
def _mathml(latex: str, is_display: bool) -> str:
    if not latex or len(latex) > LONGEST or _REFUSED.search(latex):
        return ""
    try:
        # Environments that latex2mathml does not know, or would number, become align*; equation is removed.
        known = _PLAIN.sub("", _ALIGNED.sub(r"\\\1{align*}", latex)) if "\\begin" in latex else latex
        tree = convert_to_element(known, display="block" if is_display else "inline")
    except Exception:
        # latex2mathml's errors have no common base, and odd LaTeX raises IndexError and StopIteration, too.
        return ""
    tree.set("dir", "ltr")
    if not _is_whole(tree):
        return ""
    _break_into_lines(tree)
    return _written(tree)


def _is_whole(tree: Element) -> bool:
    """Return whether all elements have their parts (unlike "\\frac{a"), and none is nested too deeply."""
    level, depth = [tree], 0
    while level and depth <= DEEPEST:
        if any(len(element) != PARTS.get(element.tag, len(element)) for element in level):
            return False
        level, depth = [child for element in level for child in element], depth + 1
    return not level


def _break_into_lines(formula: Element) -> None:
    """Divide a long formula into rows, each of which ends with an operator, because browsers break no row."""
    if len(formula) != 1 or formula[0].tag != "mrow" or sum(1 for _ in formula.iter()) < LONG:
        return
    rows, is_sign = [Element("mrow")], True  # in "(-x" and "= -x", the operator is a sign
    for part in formula[0]:
        rows[-1].append(part)
        symbol = unescape(part.text or "") if part.tag == "mo" else ""
        if symbol in _BREAKS and not is_sign:
            part.set("form", "infix")
            rows.append(Element("mrow"))
        is_sign = bool(symbol) and symbol not in _CLOSERS
    formula[:] = rows


def _written(element: Element) -> str:
    """Return an element as HTML; an unknown element is reduced to its texts and children."""
    inside = _text(element.text) + "".join(_written(child) + _text(child.tail) for child in element)
    if element.tag not in TAGS:
        return inside
    known = ((name, value) for name, value in element.attrib.items() if name in ATTRIBUTES)
    attributes = "".join(f' {name}="{value}"' for name, value in known if _PLAIN_VALUE.fullmatch(value))
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"


def _text(text: str | None) -> str:
    """Escape a text of the tree after turning its entities into symbols."""
    return escape(unescape(text or ""))


def add_formulas(markdown: MarkdownIt) -> None:
    """Make a parser recognise formulas: tokens of the type `formula` with the meta values latex, is_display."""
    markdown.inline.ruler.before("escape", "formula", _inline_rule)
    options = {"alt": ["paragraph", "blockquote", "list"]}
    markdown.block.ruler.before("fence", "formula", _block_rule, options)  # type: ignore[arg-type]
    markdown.block.ruler.before("fence", "environment", _environment_rule, options)  # type: ignore[arg-type]


def _inline_rule(state: StateInline, silent: bool) -> bool:
    found = _find(state.src, state.pos)
    if not found:
        return False
    latex, length, is_display = found
    if not silent:
        token = state.push("formula", "", 0)
        token.content = state.src[state.pos : state.pos + length]
        token.meta = {"latex": latex, "is_display": is_display}
    state.pos += length
    return True


def _find(text: str, start: int) -> tuple[str, int, bool] | None:
    """Find the formula that begins at `start`: its LaTeX, its length with delimiters, and is_display."""
    opening = text[start : start + 2]
    if opening in CLOSING:
        if start + 2 > _last(text, CLOSING[opening]):
            return None
        end = text.find(CLOSING[opening], start + 2)
        latex = text[start + 2 : end]
        return (latex, end + 2 - start, opening != r"\(") if latex.strip() else None
    if opening[:1] != "$" or (start and text[start - 1].isalnum()):
        return None
    found = _INLINE.match(text, start)
    return (found[1], found.end() - start, False) if found else None


@lru_cache(maxsize=16)
def _last(text: str, mark: str) -> int:
    """Return the last index of a delimiter, or -1. Cached, so that a text full of openings is searched once."""
    return text.rfind(mark)


def _block_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a formula that starts where a line starts and ends where a line ends, with no blank line inside."""
    if state.is_code_block(start):
        return False
    opening = _line(state, start)[:2]
    if opening not in ("$$", r"\["):
        return False
    closing = CLOSING[opening]
    source = _lines_until(state, start, end, lambda line: closing in line)
    latex = source[2:-2]
    if not source.endswith(closing) or closing in latex or not latex.strip():
        return False
    return _push_block(state, start, source, latex, silent)


def _environment_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read an environment that starts a line and ends at the end of a line, without delimiters around it."""
    found = None if state.is_code_block(start) else _ENVIRONMENT.match(_line(state, start))
    ending = rf"\end{{{found[1]}}}" if found else ""
    if not found or state.bMarks[start] > _last(state.src, ending):
        return False
    source = _lines_until(state, start, end, lambda line: line.endswith(ending))
    return bool(source) and _push_block(state, start, source, source, silent)


def _lines_until(state: StateBlock, start: int, end: int, is_last: Callable[[str], bool]) -> str:
    """Return the lines from `start` to the first for which `is_last` is true. Returns "" if a blank line or
    the end comes first, or after MOST_LINES. `is_last` gets the first line without its opening delimiter."""
    lines: list[str] = []
    for number in range(start, min(end, start + MOST_LINES)):
        lines.append(_line(state, number))
        if not lines[-1] or state.sCount[number] < state.blkIndent:
            return ""
        if is_last(lines[-1] if number > start else lines[-1][2:]):
            return "\n".join(lines)
    return ""


def _push_block(state: StateBlock, start: int, source: str, latex: str, silent: bool) -> bool:
    if not silent:
        token = state.push("formula", "", 0)
        token.block, token.content = True, source
        token.meta = {"latex": latex, "is_display": True}
        state.line = start + source.count("\n") + 1
        token.map = [start, state.line]
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].rstrip()
