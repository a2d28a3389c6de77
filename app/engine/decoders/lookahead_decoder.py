"""Lookahead decoding (Fu et al. 2024, "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding").

A step is one forward pass over two branches that do not see each other. The verification branch checks the
guesses of the pool. The lookahead branch refines the guesses of a window, so that the pool gets new n-grams:

                    1 draft                 2 forward         3 verify                4 learn

    verification    pool -> draft tree --+             +--> accepted tokens ----> text, pool, estimator
                                         +--> model -->+
    lookahead       window --------------+             +--> predicted tokens ---> pool, window

`drafted_step` has these four parts. The estimator learns how often guesses are accepted. Both branches are one
block and share the current token:

    rows   0            1 .. D-1         D .. D+V-1
           current      draft tree       window
    see    prefix       + ancestors      + the rows that jacobi_window.py describes

Differences from the authors' code (LADE): the guesses form a tree that is grown best first by learned chances. If a
whole branch is right, the model's own token after the branch is accepted as well. In a drafted step the pool learns
from every row whose logits are read. Guesses are checked from the first step on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from app.engine.block.block import Block, chain_block
from app.engine.block.context_entries import SUCCESSORS
from app.engine.block.step_profile import StepProfile
from app.engine.lookahead.context_table import last_tokens
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.jacobi_window import JacobiWindow, WindowSizer
from app.engine.lookahead.model_statistics import ModelStatistics
from app.engine.lookahead.ngram_pool import Pool
from app.engine.lookahead.row_planner import (
    ChainTuner,
    DraftedStep,
    DraftPlan,
    DraftPlanner,
    FixedSizesPlanner,
    RowBudgetPlanner,
    Tuner,
)
from app.engine.lookahead.verification import most_drafts, trace_of, verify_and_commit
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder, Step, StepInParts, run_steps
from app.engine.sampling.penalties import Constraint, unconstrained
from app.engine.sampling.sampling import Sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Decoding, Sampling

UNMEASURED_ROWS = 24
"""The row budget of the auto setting if the times of steps were not measured."""


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """What is known before a reply: statistics and step times of the model, the sampling, and texts to quote from.

    `constraint` finds the tokens that the reply's grammar allows; `budget` decides when a draft model is asked."""

    statistics: ModelStatistics = field(default_factory=ModelStatistics)
    profile: StepProfile = field(default_factory=StepProfile)
    sampling: Sampling = field(default_factory=Sampling)
    documents: tuple[tuple[int, ...], ...] = ()
    prediction: tuple[int, ...] = ()
    constraint: Constraint = unconstrained
    budget: DraftModelBudget | None = None


def make_lookahead(decoding: Decoding, known: ReplyContext | None = None) -> Decoder:
    """Make the decoder for `decoding`: with fixed sizes, a row budget, or as many rows as save time."""
    known = known or ReplyContext()

    def decode(
        runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        pool = known.statistics.pool(
            tokens, known.sampling, known.documents, known.prediction, known.constraint, runner.max_branches
        )
        planner = _make_planner(decoding, known, runner, len(tokens))
        return lookahead(runner, tokens, sampler, stopper, planner, pool)

    return decode


def _make_planner(decoding: Decoding, known: ReplyContext, runner: ModelRunner, context: int) -> DraftPlanner:
    sizer, tune = known.statistics.sizer, Tuner
    if known.budget:
        known.budget.begin_reply()
    if runner.max_branches == 1:
        # The model takes only chains, and a window is not a chain.
        sizer, tune, decoding = WindowSizer(0), ChainTuner, replace(decoding, window=0)
    times = known.profile.times(runner.same_text_buckets)
    if decoding.decoder == "lookahead":
        return FixedSizesPlanner(decoding)
    if decoding.rows or not times:
        return RowBudgetPlanner(decoding.rows or UNMEASURED_ROWS, sizer)
    return tune(known.statistics.curve(times, runner.buckets), sizer, known.budget, context)


def lookahead(
    runner: ModelRunner,
    tokens: list[int],
    sampler: Sampler,
    stopper: StoppingCriteria,
    planner: DraftPlanner,
    pool: Pool,
) -> Iterator[Step]:
    """Yield the steps of a reply, each as large as the planner decides."""
    columns, ngram = planner.columns, planner.ngram
    # The window starts from the continuation that the pool expects; LADE's starts from random tokens.
    window = JacobiWindow(columns, ngram, [tokens[-1], *pool.continuation(tokens, columns + ngram - 3)])
    return run_steps(_Reply(runner, tokens, sampler, stopper, planner, pool, window).next_step, runner)


@dataclass(slots=True)
class _Reply:
    """The state that the steps of one reply share."""

    runner: ModelRunner
    tokens: list[int]
    sampler: Sampler
    stopper: StoppingCriteria
    planner: DraftPlanner
    pool: Pool
    window: JacobiWindow
    reporting: float = 0.0  # seconds of the previous step after its commit, counted in the next step

    def next_step(self) -> StepInParts:
        """Begin the next step, plain or drafted as the planner decides."""
        began = perf_counter() - self.reporting
        self.reporting = 0.0
        plan = self.planner.plan(self.window.size + self.runner.pending)
        return plain_step(self, began) if plan.is_plain else drafted_step(self, plan, began)

    def reported(self, began: float) -> None:
        """Count the time from `began` to now in the next step, unless a device computes meanwhile."""
        if not self.runner.is_asynchronous:
            self.reporting = perf_counter() - began


def plain_step(reply: _Reply, began: float) -> StepInParts:
    """Run a step without a draft: feed the current token, and the runner's pending rows."""
    runner, tokens, pool = reply.runner, reply.tokens, reply.pool
    tree, rows = DraftTree([tokens[-1]]), 1 + runner.pending
    logits = runner.forward(chain_block(tree.tokens, len(tokens) - 1, (0,)))
    yield None

    choices = reply.sampler(logits, positions=(len(tokens),))
    kept = verify_and_commit(runner, tree, choices.choose, tokens, reply.stopper)
    tokens += kept.tokens
    split = reply.planner.observe_plain(perf_counter() - began, rows)
    yield kept.reason

    began = perf_counter()
    pool.learn(tokens, 1, "output")
    trace = trace_of(tree, choices, kept.rows)
    step = Step(kept.tokens, kept.origins, rows, False, len(pool), kept.reason, split, trace)
    reply.reported(began)
    return step


def drafted_step(reply: _Reply, plan: DraftPlan, began: float) -> StepInParts:
    """Run a step that feeds both branches, in the four parts of the module's figure."""
    runner, tokens, planner = reply.runner, reply.tokens, reply.planner
    pool, window = reply.pool, reply.window
    current, position = tokens[-1], len(tokens) - 1

    # 1. Close the window if it does not fit, and draft the verification branch from the pool.
    window.fit(runner.horizon(position) - len(tokens), runner.max_rows - 1)
    most_rows = min(plan.rows, runner.max_rows - window.need)
    depth = min(plan.depth, most_drafts(runner, tokens, reply.stopper))
    tree = pool.draft(tokens, most_rows, depth, plan.min_reach)
    tree.cut(planner.kept(tree.reaches, window.size + runner.pending))

    # 2. Forward both branches as one block.
    block, top = lay_out(tree, window, position)
    rows = len(block) + runner.pending
    logits = runner.forward(block)
    # While a GPU computes, the host prepares the next parts.
    columns, shown = window.columns(current), window.shown(current)
    contexts = np.array(tree.contexts(tokens) + list(map(last_tokens, columns)))  # of the wanted rows [R, 4]
    sampled_positions = [block.positions[row] + 1 for row in block.wanted]
    yield None

    # 3. Verify: accept the guesses that the model agrees with, and its own next token.
    choices = reply.sampler(logits, SUCCESSORS, sampled_positions)
    kept = verify_and_commit(runner, tree, choices.choose, tokens, reply.stopper)

    # 4. Learn. The pool's guesses are judged first, before the pool learns from this step. After the next `yield`
    # it also learns the accepted text and the window's n-grams; on a GPU the next step computes meanwhile.
    pool.observe(tokens, kept.tokens)
    pool.learn_successors(contexts, choices.ids, choices.logits)
    predicted = choices.ids[top, 0].tolist()
    window.shift(predicted)
    tokens += kept.tokens
    seconds, from_window = perf_counter() - began, kept.origins.count("window")
    split = planner.observe(DraftedStep(tree.reaches, window, rows, len(kept.tokens), from_window, seconds))
    yield kept.reason

    began = perf_counter()
    for column, token in zip(columns, predicted, strict=True):
        pool.learn([*column, token], 1, "window")
    pool.learn(tokens, len(kept.tokens), "output")
    trace = trace_of(tree, choices, kept.rows, shown)
    step = Step(kept.tokens, kept.origins, rows, len(tree) > 1, len(pool), kept.reason, split, trace)
    reply.reported(began)
    return step


def lay_out(tree: DraftTree, window: JacobiWindow, position: int) -> tuple[Block, slice]:
    """Lay out the block of a step whose current token is at `position`.

    Logits are wanted for every row of the tree and for the window's top row. Returns the block and the slice
    of its wanted rows that is the window's top row."""
    drafts = len(tree)

    def block_rows(indexes: list[int]) -> list[int]:
        # Index 0 of the window is the current token, which is already the tree's root.
        return [drafts + index - 1 if index else 0 for index in indexes]

    top = block_rows(window.top())
    block = Block(
        tokens=(*tree.tokens, *window.tokens()),
        positions=tuple([position + offset for offset in (*tree.depths, *window.offsets())]),
        parents=(*tree.parents, *block_rows(window.parents())),
        wanted=(*range(drafts), *top),
    )
    return block, slice(drafts, drafts + len(top))
