"""Statistics of one model, kept while it is loaded. The first three kinds are also kept on disk.

    first successors       the tokens that are likely after a single token   measured at load and while idle
    acceptance estimators  how often guesses of each kind were right, for    updated by every drafted step
                           each temperature
    step curves            the time of a step by its number of rows          updated by steps of the tuner
    window columns         how many columns a reply's window begins with     updated by steps with a window
    pool                   which tokens followed which in this chat          dropped when another chat begins

Only the pool contains text, and it never leaves memory.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter

import numpy as np

from app.engine.block.context_entries import GAP_STEP, MOST_GAP, SUCCESSORS, Packed, pack_successors
from app.engine.block.step_profile import Buckets, StepTimes
from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator, Counts
from app.engine.lookahead.context_table import ContextTable
from app.engine.lookahead.drafter import MakeDrafter, PythonDrafter
from app.engine.lookahead.jacobi_window import WindowSizer
from app.engine.lookahead.ngram_pool import Pool
from app.engine.lookahead.step_time_curve import CurveShape, StepTimeCurve
from app.engine.runner.model_runner import ModelRunner
from app.engine.sampling.penalties import Constraint, unconstrained
from app.engine.sampling.sampling import likeliest
from app.values.messages import MAX_ROWS, Sampling

ROWS = 128
"""Rows of each measured block of tokens."""
SECONDS = 1.5
"""Seconds of measuring at load. Tokens are measured by ascending id, because rare tokens have high ids."""


def measure_first_successors(
    runner: ModelRunner,
    known: Packed,
    start: int,
    progress: Callable[[int, int], None],
    rows: int = ROWS,
    clock: Callable[[], float] = perf_counter,
    seconds: float = SECONDS,
) -> Packed:
    """Measure, for each token, what the model predicts after `start` and this token: successors [vocabulary, 8].

    A pool that starts empty hardly helps short replies, so each token is tried as if a text began with it, in
    passes whose rows do not see each other. Tokens that were measured in `known` are skipped. After `seconds` no
    further block begins: the successors of the remaining tokens stay zero; some are measured while the model is
    idle (`model_measurements.py`). At the end the runner's prefix is dropped."""
    successors, vocabulary = known.copy(), len(known)
    began = clock()
    for _ in runner.prefill([start]):
        pass
    for first in range(num_measured(known), vocabulary, rows):
        tokens = range(first, min(first + rows, vocabulary))
        ids, logits = likeliest(runner.forward_siblings(tokens), SUCCESSORS)
        successors[first : first + len(tokens)] = pack_successors(ids, logits)
        progress(first + len(tokens), vocabulary)
        if clock() - began >= seconds:
            break
    runner.forget()
    return successors


def likely_anywhere(successors: Packed) -> Packed:
    """Average the probabilities of the measured successors: return the successors [8] of the empty context."""
    measured = successors[successors[:, 0] != 0]
    tokens, gaps = (measured >> 10) - 1, (measured & MOST_GAP) * GAP_STEP
    # The likeliest token's packed gap is its lead over the second token (context_entries.py), not a distance.
    gaps[:, 0] = 0
    chances = np.where(tokens >= 0, np.exp(-gaps), 0)
    chances /= chances.sum(axis=1, keepdims=True)
    mass = np.bincount(np.maximum(tokens, 0).ravel(), chances.ravel())
    best = np.argsort(-mass, kind="stable")[: min(SUCCESSORS, np.count_nonzero(mass))]
    if not len(best):
        return np.zeros(SUCCESSORS, dtype=np.int32)
    found: Packed = pack_successors(best[None], np.log(mass[best], dtype=np.float32)[None])[0]
    return found


def no_successors(vocabulary: int) -> Packed:
    """Make empty successors [vocabulary, 8], for a model whose successors were not measured yet."""
    return np.zeros((vocabulary, SUCCESSORS), dtype=np.int32)


def num_measured(successors: Packed) -> int:
    """Return how many tokens were measured; these are the tokens with the lowest ids."""
    return int(np.count_nonzero(successors[:, 0]))


SMALL_BITS, LARGE_BITS = 18, 20
"""The pool's table has 2 ** SMALL_BITS rows for longer contexts (16 MiB), or 2 ** LARGE_BITS (64 MiB) for models of
LARGE_MODEL or more parameters."""
LARGE_MODEL = 10**9
FIRST_COLUMNS = 0
"""Columns of the window in a model's first reply in the auto setting. There are none, because a window costs
more than it brings when first successors are known."""
UNKNOWN_VOCABULARY = 2**18


class ModelStatistics:
    """The statistics of one loaded model; the module's docstring lists them."""

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
        self._curves: dict[Buckets, StepTimeCurve] = {}
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
        """Begin a reply in the pool of the text's chat; if another chat begins, make a new pool. Return the pool.

        The pool learns the text, the documents and the predicted output."""
        estimator = self.estimator(sampling.temperature)
        if self._pool is None or not self._pool.is_continued_by(text):
            self._pool = self.new_pool(estimator)
        self._pool.begin(text, estimator, sampling, constraint, branches)
        for document in documents:
            self._pool.learn_document(document)
        self._pool.learn_document(prediction, "prediction")
        return self._pool

    def new_pool(self, estimator: AcceptanceEstimator, make_drafter: MakeDrafter | None = None) -> Pool:
        """Make a pool that knows only the first successors. By default it has the model's usual drafter."""
        table = ContextTable(self._vocabulary, self._bits)
        self.teach_first(table)
        return Pool(table, estimator, self._special, make_drafter or self._make_drafter)

    def learn_first(self, first: Packed) -> None:
        """Keep these first successors [tokens, 8], and copy them to the current pool, if there is one."""
        self.first, self._anywhere = first, likely_anywhere(first)
        if self._pool:
            self.teach_first(self._pool.table)

    def teach_first(self, table: ContextTable) -> None:
        """Copy the first successors to a table."""
        table.set_first_successors(self.first)
        table.set_anywhere(self._anywhere)

    def estimator(self, temperature: float) -> AcceptanceEstimator:
        """Return the estimator of guesses at this temperature, rounded to halves; make it if missing."""
        kind = round(2 * temperature)
        if kind not in self._estimators:
            self._estimators[kind] = AcceptanceEstimator(first_trust=_first_trust(kind))
        return self._estimators[kind]

    @property
    def counts(self) -> dict[int, Counts]:
        """The estimators' counts, to be kept on disk, by `round(2 * temperature)`."""
        return {kind: estimator.counts for kind, estimator in self._estimators.items()}

    def curve(self, times: StepTimes, padded: Buckets) -> StepTimeCurve:
        """Return the curve of step times for blocks padded to these buckets; make it if it does not exist."""
        if padded not in self._curves:
            shape = self._shapes.get(padded)
            fits = shape is not None and len(shape.drafted) == len(times.buckets)
            self._curves[padded] = StepTimeCurve(times, padded, shape if fits else None)
        return self._curves[padded]

    @property
    def shapes(self) -> dict[Buckets, CurveShape]:
        """The shapes of all curves by their buckets, refined by real steps. They are kept on disk."""
        return self._shapes | {padded: curve.shape for padded, curve in self._curves.items()}

    def forget(self) -> None:
        """Drop the pool, and with it all text."""
        self._pool = None


def _first_trust(kind: int) -> float:
    """Return an estimator's first trust; `kind` is twice its temperature. The trust is lower at high temperatures,
    because the priors fit greedy text best."""
    return 1 / (1 + kind / 2)
