"""Statistics of one model: kept while it is loaded, and the part that is not text also on disk.

    first successors      what the model predicts after each token alone   measured once at load
    acceptance estimator  how often guesses of each kind were right      updated by every step, by temperature
    step curves           what steps of so many rows really took         updated by every step
    window columns        how many of them earned their rows             updated by every reply
    pool                  which tokens followed which in this chat       dropped when another chat begins

All but the last hold nothing of what was written; the pool never leaves memory.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter

import numpy as np

from app.engine.block.entries import GAP_STEP, MOST_GAP, SUCCESSORS, Packed, pack_successors
from app.engine.block.step_profile import Buckets, StepTimes
from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator, Counts
from app.engine.lookahead.context_table import ContextTable
from app.engine.lookahead.drafter import MakeDrafter, PythonDrafter
from app.engine.lookahead.jacobi_window import WindowSizer
from app.engine.lookahead.pool import Pool
from app.engine.lookahead.step_curve import CurveShape, StepCurve
from app.engine.runner.model_runner import ModelRunner
from app.engine.sampling.logits_processing import Constraint, unconstrained
from app.engine.sampling.sampling import likeliest
from app.values.messages import MAX_ROWS, Sampling

ROWS = 128
"""Rows of a block, if memory has room for so many."""
SECONDS = 1.5
"""Time that a model may take at load; the other tokens stay unasked. Low numbers are the frequent ones."""


def ask_first_successors(
    runner: ModelRunner,
    known: Packed,
    start: int,
    progress: Callable[[int, int], None],
    rows: int = ROWS,
    clock: Callable[[], float] = perf_counter,
    seconds: float = SECONDS,
) -> Packed:
    """Measure the successors [vocabulary, 8] of each token alone, after `start`, that are not known yet.

    A pool that starts empty earns nothing in short replies. But the model can be run before there is any text: on
    every token of the vocabulary, each as if a text began with it, in passes whose rows do not see each other. The
    results hold nothing of a user's texts and are kept on disk. Later steps overwrite them, context by context.
    After `seconds` no other block is begun: the rest stays zero and is asked while the model has nothing to do
    (`idle_asking.py`). Leaves no prefix."""
    successors, vocabulary = known.copy(), len(known)
    began = clock()
    for _ in runner.prefill([start]):
        pass
    for first in range(num_asked(known), vocabulary, rows):
        tokens = range(first, min(first + rows, vocabulary))
        ids, logits = likeliest(runner.forward_siblings(tokens), SUCCESSORS)
        successors[first : first + len(tokens)] = pack_successors(ids, logits)
        progress(first + len(tokens), vocabulary)
        if clock() - began >= seconds:
            break
    runner.forget()
    return successors


def likely_anywhere(successors: Packed) -> Packed:
    """Average what was measured [8]: it stands in for tokens that were not measured yet."""
    asked = successors[successors[:, 0] != 0]
    tokens, gaps = (asked >> 10) - 1, (asked & MOST_GAP) * GAP_STEP
    gaps[:, 0] = 0  # its gap is its lead
    chances = np.where(tokens >= 0, np.exp(-gaps), 0)
    chances /= chances.sum(axis=1, keepdims=True)
    mass = np.bincount(np.maximum(tokens, 0).ravel(), chances.ravel())
    best = np.argsort(-mass, kind="stable")[: min(SUCCESSORS, np.count_nonzero(mass))]
    if not len(best):
        return np.zeros(SUCCESSORS, dtype=np.int32)
    found: Packed = pack_successors(best[None], np.log(mass[best], dtype=np.float32)[None])[0]
    return found


def no_successors(vocabulary: int) -> Packed:
    """Successors [vocabulary, 8] of which none was measured yet."""
    return np.zeros((vocabulary, SUCCESSORS), dtype=np.int32)


def num_asked(successors: Packed) -> int:
    """How many tokens were measured; they are the first ones."""
    return int(np.count_nonzero(successors[:, 0]))


SMALL_BITS, LARGE_BITS = 18, 20
"""Rows of the pool's table: 16 MiB, and 64 MiB for models of a billion parameters and more."""
LARGE_MODEL = 10**9
FIRST_COLUMNS = 0
"""Columns of auto's window in a model's first reply: beside first successors they cost more than they bring."""
UNKNOWN_VOCABULARY = 2**18


class ModelStatistics:
    """Belongs to one loaded model."""

    def __init__(
        self,
        vocabulary: int = UNKNOWN_VOCABULARY,
        parameters: int = 0,
        first: Packed | None = None,
        special: Collection[int] = (),
        counts: Mapping[int, Counts] | None = None,
        shapes: Mapping[Buckets, CurveShape] | None = None,
        make_drafter: MakeDrafter = PythonDrafter,
    ) -> None:
        self.sizer = WindowSizer(FIRST_COLUMNS)
        self._vocabulary = vocabulary
        self._bits = LARGE_BITS if parameters >= LARGE_MODEL else SMALL_BITS
        self._special = special
        self._make_drafter = make_drafter
        self._estimators = {
            kind: AcceptanceEstimator(of_kind, _first_trust(kind)) for kind, of_kind in (counts or {}).items()
        }
        self._curves: dict[Buckets, StepCurve] = {}
        self._shapes = dict(shapes or {})
        self._pool: Pool | None = None
        self.learn_first(no_successors(0) if first is None else first)

    def pool(
        self,
        text: Sequence[int],
        sampling: Sampling,
        documents: Sequence[Sequence[int]],
        prediction: Sequence[int] = (),
        constraint: Constraint = unconstrained,
        branches: int = MAX_ROWS,
    ) -> Pool:
        """Begin a reply to this text in the pool so far if the same chat goes on, else in a new one."""
        estimator = self.estimator(sampling.temperature)
        if self._pool is None or not self._pool.goes_on(text):
            self._pool = self.new_pool(estimator)
        self._pool.begin(text, estimator, sampling, constraint, branches)
        for document in documents:
            self._pool.learn_document(document)
        self._pool.learn_document(prediction, "prediction")
        return self._pool

    def new_pool(self, estimator: AcceptanceEstimator, make_drafter: MakeDrafter | None = None) -> Pool:
        """Make a pool that knows nothing but the first successors; its drafters are the model's, or others."""
        table = ContextTable(self._vocabulary, self._bits)
        self.teach_first(table)
        return Pool(table, estimator, self._special, make_drafter or self._make_drafter)

    def learn_first(self, first: Packed) -> None:
        """Keep these first successors [tokens, 8], and teach them to the pool of the chat that goes on."""
        self.first, self._anywhere = first, likely_anywhere(first)
        if self._pool:
            self.teach_first(self._pool.table)

    def teach_first(self, table: ContextTable) -> None:
        """Copy the first successors to a table."""
        table.set_first_successors(self.first)
        table.set_anywhere(self._anywhere)

    def estimator(self, temperature: float) -> AcceptanceEstimator:
        """What is known about guesses at this temperature, in steps of a half."""
        kind = round(2 * temperature)
        if kind not in self._estimators:
            self._estimators[kind] = AcceptanceEstimator(first_trust=_first_trust(kind))
        return self._estimators[kind]

    @property
    def counts(self) -> dict[int, Counts]:
        """The counts of guesses to be kept, by kind of temperature."""
        return {kind: estimator.counts for kind, estimator in self._estimators.items()}

    def curve(self, times: StepTimes, padded: Buckets) -> StepCurve:
        """The curve of what steps cost if blocks are padded to these buckets."""
        if padded not in self._curves:
            shape = self._shapes.get(padded)
            fits = shape is not None and len(shape.drafted) == len(times.buckets)
            self._curves[padded] = StepCurve(times, padded, shape if fits else None)
        return self._curves[padded]

    @property
    def shapes(self) -> dict[Buckets, CurveShape]:
        """The shapes that real steps gave to the curves, to be kept."""
        return self._shapes | {padded: curve.shape for padded, curve in self._curves.items()}

    def forget(self) -> None:
        """Drop the pool, and with it all text."""
        self._pool = None


def _first_trust(kind: int) -> float:
    """Trust the priors less the hotter a text is, because they were fitted on greedy text."""
    return 1 / (1 + kind / 2)
