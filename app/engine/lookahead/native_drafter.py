"""The drafter in C (`drafter.c`): the same trees as `PythonDrafter`'s, in a tenth of the time.

A reply under a grammar has the one in Python, which asks the grammar at every node.
"""

from array import array
from collections.abc import Sequence
from ctypes import POINTER, PyDLL, Structure, byref, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache, partial
from pathlib import Path

from app.engine.compiling import Compiled, Source, cache_folder, compiled
from app.engine.lookahead import acceptance_estimator, entries
from app.engine.lookahead.constraint import unconstrained
from app.engine.lookahead.context_table import LONGEST
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.drafter import SUREST, Drafter, DraftSources, Edge, MakeDrafter, PythonDrafter
from app.engine.lookahead.ranking import farthest

MOST_EDGES = 2 * entries.SUCCESSORS + entries.FOLLOWERS

_CONSTANTS = {
    **{name: getattr(entries, name) for name in ("SUCCESSORS", "FOLLOWERS", "LEADS", "GAP_STEP", "MOST_GAP")},
    **{name: getattr(entries, name) for name in ("NUM_REPLIES", "SEEN_BITS", "SEEN_ONCE")},
    **{name.upper(): entries.SOURCES.index(name) for name in ("document", "history", "prediction")},
    **{
        name: getattr(acceptance_estimator, name)
        for name in ("FIRST_CODE", "FIRST_ALTERNATIVE_CODE", "GAP_CLASSES", "RANKS", "NUM_FOLLOWER_CODES")
    },
    "GAPS": ",".join(map(str, entries.GAPS)),
    "LONGEST": LONGEST,
    "SUREST": SUREST,
}
SOURCE = Source(
    Path(__file__).with_name("drafter.c"),
    tuple(f"-D{name}={value}" for name, value in _CONSTANTS.items()),
    otherwise="Drafts are made in Python, which takes several times as long",
)


class _Fields(Structure):
    """`Drafter` of drafter.c."""

    _fields_ = (
        ("table", c_void_p),
        ("vocabulary", c_int64),
        ("shift", c_int64),
        ("anywhere", c_void_p),
        ("rates", c_void_p),
        ("trust", c_double),
        ("reply", c_int64),
        ("special", c_void_p),
        ("num_special", c_int64),
        ("temperature", c_double),
        ("gap_step", c_double),
        ("farthest", c_double),
        ("top_p", c_double),
        ("top_k", c_int64),
        ("seed", c_uint64),
        ("branches", c_int64),
        *((name, POINTER(c_int32)) for name in ("context", "tokens", "parents", "depths", "cells")),
        ("chances", POINTER(c_double)),
    )


class NativeDrafter:
    """Calls the library, whose functions keep the interpreter's lock: they take microseconds."""

    def __init__(self, library: PyDLL, sources: DraftSources) -> None:
        self._library = library
        self._table, self._estimator = sources.table, sources.estimator  # kept alive: C reads their memory
        self._special = array("i", sorted(sources.special))
        sampling, table = sources.sampling, sources.table
        self._fields = _Fields(
            table=table.rows.ctypes.data,
            vocabulary=table.vocabulary,
            shift=table.shift,
            anywhere=table.anywhere.ctypes.data,
            reply=sources.reply % entries.NUM_REPLIES,
            special=self._special.buffer_info()[0],
            num_special=len(self._special),
            temperature=sampling.temperature,
            gap_step=entries.GAP_STEP / (sampling.temperature or 1.0),
            farthest=farthest(sampling),
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=sampling.seed,
            branches=sources.branches,
        )
        self._context = self._fields.context = (c_int32 * (1 + LONGEST))()
        self._make_room(MOST_EDGES)

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        """The best tree of at most `rows` nodes and `depth` guesses in a line, none less likely than `floor`."""
        if depth < 1 or rows < 2:
            return DraftTree(context[-1])
        if rows > len(self._tokens):
            self._make_room(rows)
        known = self._show(context)
        size = self._library.draft(byref(self._fields), known, len(context), rows, depth, floor)
        return DraftTree.of(
            self._tokens[:size],
            list(map(acceptance_estimator.origin_of, self._cells[1:size])),
            self._parents[:size],
            self._depths[:size],
            self._chances[:size],
        )

    def edges(self, context: Sequence[int], position: int, is_current: bool = False) -> list[Edge]:
        """Guesses of the token at this position, behind a context, likeliest first."""
        known = self._show(context)
        count = self._library.find_edges(byref(self._fields), known, position, 0.0, is_current)
        return list(zip(self._chances[:count], self._tokens[:count], self._cells[:count], strict=True))

    def _show(self, context: Sequence[int]) -> int:
        """Write down a context and what the estimator says now; returns how many tokens C may read."""
        newest: list[c_int32 | int] = [*context[: -LONGEST - 2 : -1]]
        self._context[: len(newest)] = newest
        fields, estimator = self._fields, self._estimator
        fields.rates, fields.trust = estimator.rates.buffer_info()[0], estimator.trust
        return len(newest)

    def _make_room(self, rows: int) -> None:
        """For what C writes: the edges of a node, or a tree of so many."""
        fields, column = self._fields, c_int32 * rows
        self._tokens, self._parents, self._depths, self._cells = column(), column(), column(), column()
        self._chances = (c_double * rows)()
        fields.tokens, fields.parents, fields.depths = self._tokens, self._parents, self._depths
        fields.cells, fields.chances = self._cells, self._chances


def _make(library: PyDLL, sources: DraftSources) -> Drafter:
    is_free = sources.constraint is unconstrained
    return NativeDrafter(library, sources) if is_free else PythonDrafter(sources)


@cache
def compiled_drafter() -> Compiled[PyDLL]:
    """`drafter.c`, compiled, or why not."""
    found = compiled(SOURCE, PyDLL, cache_folder())
    if found.library is not None:
        _declare(found.library)
    return found


def _declare(library: PyDLL) -> None:
    fields = POINTER(_Fields)
    library.draft.argtypes = fields, c_int32, c_int64, c_int32, c_int32, c_double
    library.find_edges.argtypes = fields, c_int32, c_int64, c_double, c_int32
    library.draft.restype = library.find_edges.restype = c_int32


def best_drafter(found: Compiled[PyDLL] | None = None) -> MakeDrafter:
    """Drafters in C where there is a compiler, else in Python."""
    library = (found or compiled_drafter()).library
    return PythonDrafter if library is None else partial(_make, library)
