"""The drafter in C (`drafter.c`), which does what `PythonDrafter` does in a fraction of the time.

Replies with a grammar use `PythonDrafter`, because the grammar must be asked at every node.
"""

from array import array
from collections.abc import Sequence
from ctypes import POINTER, PyDLL, Structure, byref, c_char, c_double, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.engine.block import context_entries as entries
from app.engine.lookahead import acceptance_estimator
from app.engine.lookahead.context_table import LONGEST
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.drafter import SUREST, Drafter, DraftSources, Edge, MakeDrafter, PythonDrafter
from app.engine.lookahead.ranking import farthest
from app.engine.machine.compiling import Compiled, Source, cache_folder, compiled, once
from app.engine.sampling.penalties import unconstrained

MOST_EDGES = 2 * entries.SUCCESSORS + entries.FOLLOWERS

_CONSTANTS = {
    **{name: getattr(entries, name) for name in ("SUCCESSORS", "FOLLOWERS", "LEADS", "GAP_STEP", "MOST_GAP")},
    **{name: getattr(entries, name) for name in ("NUM_REPLIES", "SEEN_BITS", "SEEN_ONCE")},
    **{name.upper(): entries.SOURCES.index(name) for name in ("document", "history", "prediction")},
    **{
        name: getattr(acceptance_estimator, name)
        for name in ("FIRST_CODE", "FIRST_ALTERNATIVE_CODE", "GAP_CLASSES", "RANKS", "NUM_FOLLOWER_CODES")
    },
    **{name: getattr(acceptance_estimator, name) for name in ("PRIOR", "TRUST_PRIOR", "TRUST_FADE")},
    "COUNTS_FADE": acceptance_estimator.FADE,
    "LEAST_TRUST": acceptance_estimator.TRUST[0],
    "MOST_TRUST": acceptance_estimator.TRUST[1],
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
    """The struct `Drafter` of drafter.c."""

    _fields_ = (
        ("table", c_void_p),
        ("vocabulary", c_int64),
        ("shift", c_int64),
        ("anywhere", c_void_p),
        *((name, c_void_p) for name in ("rates", "accepted", "tried", "priors")),
        *((name, c_double) for name in ("trust", "first_trust", "expected", "right")),
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
        *((name, c_void_p) for name in ("context", "tokens", "parents", "depths", "cells", "chances")),
    )


class NativeDrafter:
    """Drafts with the C library, whose functions keep the interpreter's lock, because they take microseconds."""

    def __init__(self, library: PyDLL, sources: DraftSources) -> None:
        self._library = library
        self._table, self._estimator = sources.table, sources.estimator  # kept alive: C uses their memory
        self._special = array("i", sorted(sources.special))
        sampling, table, estimator = sources.sampling, sources.table, sources.estimator
        self._fields = _Fields(
            table=table.rows.ctypes.data,
            vocabulary=table.vocabulary,
            shift=table.shift,
            anywhere=table.anywhere.ctypes.data,
            accepted=_address(estimator.accepted),
            tried=_address(estimator.tried),
            priors=_address(estimator.priors),
            first_trust=estimator.first_trust,
            reply=sources.reply % entries.NUM_REPLIES,
            special=_address(self._special),
            num_special=len(self._special),
            temperature=sampling.temperature,
            gap_step=entries.GAP_STEP / (sampling.temperature or 1.0),
            farthest=farthest(sampling),
            top_p=sampling.top_p,
            top_k=min(sampling.top_k, table.vocabulary),  # a greater number would not fit 64 bits
            seed=sampling.seed,
            branches=sources.branches,
        )
        self._pointer = byref(self._fields)
        self._make_room(MOST_EDGES)

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        if depth < 1 or rows < 2:
            return DraftTree([context[-1]])
        if rows > len(self._tokens):
            self._make_room(rows)
        known = self._show(context)
        size = self._library.draft(self._pointer, known, len(context), rows, depth, floor)
        return DraftTree(
            self._tokens[:size].tolist(),
            ["model", *map(acceptance_estimator.origin_of, self._cells[1:size])],
            self._parents[:size].tolist(),
            self._depths[:size].tolist(),
            self._chances[:size].tolist(),
        )

    def edges(self, context: Sequence[int], position: int, is_current: bool = False) -> list[Edge]:
        known = self._show(context)
        count = self._library.find_edges(self._pointer, known, position, 0.0, is_current)
        return list(zip(self._chances[:count], self._tokens[:count], self._cells[:count], strict=True))

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        fields, estimator, tokens = self._fields, self._estimator, array("i", accepted)
        fields.expected, fields.right = estimator.expected, estimator.right
        known = self._show(context)
        self._library.observe(self._pointer, known, len(context), _address(tokens), len(tokens))
        estimator.trust, estimator.expected, estimator.right = fields.trust, fields.expected, fields.right

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        if not len(ids):
            return
        contexts, ids = np.ascontiguousarray(contexts, np.int64), np.ascontiguousarray(ids, np.int64)
        columns = contexts, ids, np.ascontiguousarray(logits, np.float32)
        # numpy's own way to get an array's address, `ctypes.data`, takes twice as long when caches are cold.
        firsts = [byref(c_char.from_buffer(column.data)) for column in columns]
        self._library.learn_successors(self._pointer, *firsts, *ids.shape)

    def _show(self, context: Sequence[int]) -> int:
        """Pass the last tokens (newest first), rates and trust to C; return the number of these tokens."""
        newest = self._context = array("i", context[: -LONGEST - 2 : -1])
        fields, estimator = self._fields, self._estimator
        fields.context, fields.rates = _address(newest), _address(estimator.rates)
        fields.trust = estimator.trust
        return len(newest)

    def _make_room(self, rows: int) -> None:
        """Allocate the arrays that C writes to: the edges of a node, or the `rows` nodes of a tree."""
        fields, columns = self._fields, [array("i", [0]) * rows for _ in range(4)]
        self._tokens, self._parents, self._depths, self._cells = columns
        self._chances = array("d", [0.0]) * rows
        fields.tokens, fields.parents, fields.depths, fields.cells = map(_address, columns)
        fields.chances = _address(self._chances)


def _address(numbers: "array[int] | array[float]") -> int:
    return numbers.buffer_info()[0]


@once
def compiled_drafter() -> Compiled[PyDLL]:
    """Compile and load `drafter.c` at the first call; return the result of `compiled` at every call."""
    found = compiled(SOURCE, PyDLL, cache_folder())
    if (library := found.library) is not None:
        fields = POINTER(_Fields)
        library.draft.argtypes = fields, c_int32, c_int64, c_int32, c_int32, c_double
        library.observe.argtypes = fields, c_int32, c_int64, c_void_p, c_int64
        library.learn_successors.argtypes = fields, *(c_void_p,) * 3, c_int64, c_int64
        library.observe.restype = library.learn_successors.restype = None
        library.find_edges.argtypes = fields, c_int32, c_int64, c_double, c_int32
        library.draft.restype = library.find_edges.restype = c_int32
    return found


def best_drafter(found: Compiled[PyDLL] | None = None) -> MakeDrafter:
    """Return the maker of drafters in C if the library was compiled, else of drafters in Python."""
    library = (found or compiled_drafter()).library
    if library is None:
        return PythonDrafter

    def make(sources: DraftSources) -> Drafter:
        is_free = sources.constraint is unconstrained
        return NativeDrafter(library, sources) if is_free else PythonDrafter(sources)

    return make
