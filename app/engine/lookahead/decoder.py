"""Lookahead decoding (Fu et al. 2024, "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding").

One step is one forward pass over two branches that do not see each other:

    planner -> pool -> draft tree --+             +-- verify -> stop rule -> commit -> text, pool, edge chances
                                    +--> model -->+
               window of guesses ---+             +-- n-grams and successors -> pool, window moves on

Against the authors' code (LADE): guesses are a tree grown best first by learned chances, a full match earns the
model's own next token as well, every row's logits teach the pool, guesses are checked from the first step on, and
the end rules cut a step's tokens before cache, pool and text see them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from time import perf_counter

import numpy as np

from app.engine.lookahead.verification import accept, room
from app.engine.lookahead.contexts import last_tokens
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.entries import SUCCESSORS, pack_successors
from app.engine.lookahead.layout import lay_out
from app.engine.lookahead.planning import Planner
from app.engine.lookahead.pool import Pool
from app.engine.lookahead.verification import trace_of
from app.engine.lookahead.window import Window
from app.engine.plain import plain
from app.engine.runner import Runner
from app.engine.sampling import Choices, Sampler
from app.engine.step import Step
from app.engine.stopping import Stopper


def lookahead(
    runner: Runner,
    tokens: list[int],
    sampler: Sampler,
    stopper: Stopper,
    *,
    planner: Planner,
    pool: Pool,
) -> Iterator[Step]:
    """Drafts what the planner wants, verifies, commits; every row of the step teaches the pool."""
    window = _open_window(planner, pool, tokens)
    reason = None
    while reason is None:
        for step, seconds in timed(islice(plain(runner, tokens, sampler, stopper), planner.rest())):
            reason = step.reason
            planner.observe_rest(seconds)
            pool.learn(tokens, 1, "output")
            yield replace(step, pool_size=len(pool), split=planner.split(1, 0))
        if reason is None:
            step = _step(runner, tokens, sampler, stopper, planner, pool, window)
            reason = step.reason
            yield step


def timed(steps: Iterable[Step]) -> Iterator[tuple[Step, float]]:
    """Each step with the seconds that it took, whoever waits between two of them."""
    source = iter(steps)
    began = perf_counter()
    while (step := next(source, None)) is not None:
        yield step, perf_counter() - began
        began = perf_counter()


def _step(
    runner: Runner,
    tokens: list[int],
    sampler: Sampler,
    stopper: Stopper,
    planner: Planner,
    pool: Pool,
    window: Window,
) -> Step:
    """One forward pass: appends what it commits to `tokens`, moves the window on."""
    began = perf_counter()
    window.fit(runner.horizon(len(tokens) - 1) - len(tokens), runner.limit - 1)
    tree = _draft(planner, pool, tokens, window, room(runner, tokens, stopper), runner.limit)
    layout = lay_out(tree, window, len(tokens) - 1)
    choices = sampler(runner.forward(layout.block), SUCCESSORS, layout.said_at)
    kept = accept(runner, tree, choices.choose, tokens, stopper)
    new, origins = kept.tokens, kept.origins
    pool.observe(tokens, new)
    _teach(pool, tree, window, tokens, choices)
    split, price = planner.split(len(tree), window.size), planner.price(tree.reaches, window.size)
    trace = trace_of(tree, choices, kept.rows, window.shown(tokens[-1]))
    window.shift(choices.ids[layout.top, 0].tolist())
    planner.share.settle(window, price, origins.count("window"))
    tokens += new
    pool.learn(tokens, len(new), "output")
    planner.observe(len(layout.block), len(new), perf_counter() - began)
    return Step(new, origins, len(layout.block), len(tree) > 1, len(pool), kept.reason, split, trace)


def _open_window(planner: Planner, pool: Pool, tokens: Sequence[int]) -> Window:
    """A window that starts from what the pool expects, not from noise."""
    columns = planner.columns()
    if not columns:
        return Window(0, planner.ngram, ())
    ahead = columns + planner.ngram - 3
    return Window(columns, planner.ngram, [tokens[-1], *pool.continuation(tokens, ahead)])


def _draft(
    planner: Planner, pool: Pool, tokens: Sequence[int], window: Window, room: int, limit: int
) -> DraftTree:
    """The tree that pays, within the reply's room and the runner's limit."""
    plan = planner.plan(window.size)
    tree = pool.draft(tokens, min(plan.rows, limit - window.need), min(plan.depth, room), plan.floor)
    tree.cut(planner.kept(tree.reaches, window.size))
    return tree


def _teach(pool: Pool, tree: DraftTree, window: Window, tokens: Sequence[int], choices: Choices) -> None:
    """What every row of the step said: successors behind each, and the window's n-grams."""
    contexts = tree.contexts(tokens)
    said = choices.ids[len(tree) :, 0].tolist()
    for line in window.lines(tokens[-1], said):
        contexts.append(last_tokens(line[:-1]))
        pool.learn(line, 1, "window")
    pool.learn_successors(np.array(contexts), pack_successors(choices.ids, choices.logits))
