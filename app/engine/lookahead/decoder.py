"""Lookahead decoding (Fu et al. 2024, "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding").

One step is one forward pass over two branches that do not see each other:

    planner -> pool -> draft tree --+             +-- verify -> stop rule -> commit -> text, pool, estimator
                                    +--> model -->+
               window of guesses ---+             +-- n-grams and successors -> pool, window moves on

Against the authors' code (LADE): guesses are a tree grown best first by learned chances, a full match earns the
model's own next token as well, every row's logits teach the pool, guesses are checked from the first step on, and
the end rules cut a step's tokens before cache, pool and text see them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from app.engine.lookahead.context_table import last_tokens
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.entries import SUCCESSORS, pack_successors
from app.engine.lookahead.jacobi_window import JacobiWindow
from app.engine.lookahead.layout import lay_out
from app.engine.lookahead.planning import DraftedStep, DraftPlan, DraftPlanner
from app.engine.lookahead.pool import Pool
from app.engine.lookahead.verification import most_drafts, trace_of, verify_and_commit
from app.engine.plain import plain
from app.engine.runner import ModelRunner
from app.engine.sampling import Choices, Sampler
from app.engine.step import Step
from app.engine.stopping import StoppingCriteria


def lookahead(
    runner: ModelRunner,
    tokens: list[int],
    sampler: Sampler,
    stopper: StoppingCriteria,
    *,
    planner: DraftPlanner,
    pool: Pool,
) -> Iterator[Step]:
    """Drafts what the planner wants, verifies, commits; every row of the step teaches the pool."""
    window = _open_window(planner, pool, tokens)
    reason = None
    while reason is None:
        plan = planner.plan(window.size)
        if plan.is_plain:
            step = _plain_step(runner, tokens, sampler, stopper, planner, pool)
        else:
            step = _step(runner, tokens, sampler, stopper, planner, plan, pool, window)
        reason = step.reason
        yield step


def _plain_step(
    runner: ModelRunner,
    tokens: list[int],
    sampler: Sampler,
    stopper: StoppingCriteria,
    planner: DraftPlanner,
    pool: Pool,
) -> Step:
    """One row, no draft."""
    began = perf_counter()
    step = next(plain(runner, tokens, sampler, stopper))
    split = planner.observe_plain(perf_counter() - began)
    pool.learn(tokens, 1, "output")
    return replace(step, pool_size=len(pool), split=split)


def _step(
    runner: ModelRunner,
    tokens: list[int],
    sampler: Sampler,
    stopper: StoppingCriteria,
    planner: DraftPlanner,
    plan: DraftPlan,
    pool: Pool,
    window: JacobiWindow,
) -> Step:
    """One forward pass: appends what it commits to `tokens`, moves the window on."""
    began = perf_counter()
    window.fit(runner.horizon(len(tokens) - 1) - len(tokens), runner.max_rows - 1)
    tree = _draft(planner, plan, pool, tokens, window, most_drafts(runner, tokens, stopper), runner.max_rows)
    layout = lay_out(tree, window, len(tokens) - 1)
    choices = sampler(runner.forward(layout.block), SUCCESSORS, layout.sampled_positions)
    kept = verify_and_commit(runner, tree, choices.choose, tokens, stopper)
    new, origins = kept.tokens, kept.origins
    pool.observe(tokens, new)
    _teach(pool, tree, window, tokens, choices)
    trace = trace_of(tree, choices, kept.rows, window.shown(tokens[-1]))
    window.shift(choices.ids[layout.top, 0].tolist())
    tokens += new
    pool.learn(tokens, len(new), "output")
    rows, seconds = len(layout.block), perf_counter() - began
    split = planner.observe(
        DraftedStep(tree.reaches, window, rows, len(new), origins.count("window"), seconds)
    )
    return Step(new, origins, rows, len(tree) > 1, len(pool), kept.reason, split, trace)


def _open_window(planner: DraftPlanner, pool: Pool, tokens: Sequence[int]) -> JacobiWindow:
    """A window that starts from what the pool expects, not from noise."""
    columns = planner.columns
    if not columns:
        return JacobiWindow(0, planner.ngram, ())
    ahead = columns + planner.ngram - 3
    return JacobiWindow(columns, planner.ngram, [tokens[-1], *pool.continuation(tokens, ahead)])


def _draft(
    planner: DraftPlanner,
    plan: DraftPlan,
    pool: Pool,
    tokens: Sequence[int],
    window: JacobiWindow,
    depth: int,
    max_rows: int,
) -> DraftTree:
    """The tree that pays, no deeper and with no more rows than the reply and the runner have room for."""
    rows = min(plan.rows, max_rows - window.need)
    tree = pool.draft(tokens, rows, min(plan.depth, depth), plan.min_reach)
    tree.cut(planner.kept(tree.reaches, window.size))
    return tree


def _teach(
    pool: Pool, tree: DraftTree, window: JacobiWindow, tokens: Sequence[int], choices: Choices
) -> None:
    """Teach the pool what every row predicted: its successors, and the window's n-grams."""
    contexts = tree.contexts(tokens)
    predicted = choices.ids[len(tree) :, 0].tolist()
    for line in window.lines(tokens[-1], predicted):
        contexts.append(last_tokens(line[:-1]))
        pool.learn(line, 1, "window")
    pool.learn_successors(np.array(contexts), pack_successors(choices.ids, choices.logits))
