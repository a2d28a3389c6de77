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
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.engine.block.block import chain_block
from app.engine.block.entries import SUCCESSORS
from app.engine.lookahead.context_table import last_tokens
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.jacobi_window import JacobiWindow
from app.engine.lookahead.layout import lay_out
from app.engine.lookahead.planning import DraftedStep, DraftPlan, DraftPlanner
from app.engine.lookahead.pool import Pool
from app.engine.lookahead.verification import CommittedTokens, most_drafts, trace_of, verify_and_commit
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step
from app.engine.runner.step_order import run_steps
from app.engine.sampling.sampling import Choices, Sampler
from app.engine.text.reply_text import StoppingCriteria
from app.values.messages import Split, StopReason


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
    return run_steps(_LookaheadSteps(runner, tokens, sampler, stopper, planner, pool), runner)


class _Pass(Protocol):
    """One forward pass, launched when it is made."""

    def finish(self) -> StopReason | None:
        """Verify, commit, and tell the planner."""

    def report(self) -> Step:
        """What it came to; teaches the pool."""


class _LookaheadSteps:
    """One reply's steps."""

    def __init__(
        self,
        runner: ModelRunner,
        tokens: list[int],
        sampler: Sampler,
        stopper: StoppingCriteria,
        planner: DraftPlanner,
        pool: Pool,
    ) -> None:
        self.runner, self.tokens, self.sampler, self.stopper = runner, tokens, sampler, stopper
        self.planner, self.pool = planner, pool
        self.window = _open_window(planner, pool, tokens)
        self.began = 0.0
        self._launched: _Pass | None = None
        self._finished: _Pass | None = None
        self._reporting = 0.0  # seconds of a report that no pass ran beside

    def launch(self) -> None:
        """As the planner plans."""
        self.began = perf_counter() - self._reporting
        self._reporting = 0.0
        plan = self.planner.plan(self.window.size + self.runner.pending)
        self._launched = _PlainPass(self) if plan.is_plain else _DraftedPass(self, plan)

    def finish(self) -> StopReason | None:
        """Verify, commit."""
        assert self._launched is not None
        self._finished, self._launched = self._launched, None
        return self._finished.finish()

    def report(self) -> Step:
        """Its time is the next step's, unless that one is on its way."""
        assert self._finished is not None
        began = perf_counter()
        step = self._finished.report()
        self._finished = (
            None  # it refers to this: a circle, which would keep a grammar's memory for a long time
        )
        if self._launched is None:
            self._reporting = perf_counter() - began
        return step


class _PlainPass:
    """One row, no draft."""

    def __init__(self, reply: _LookaheadSteps) -> None:
        self._reply = reply
        self._tree = DraftTree(reply.tokens[-1])
        self._rows = 1 + reply.runner.pending
        self._logits = reply.runner.forward(chain_block(self._tree.tokens, len(reply.tokens) - 1, (0,)))
        self._kept: CommittedTokens
        self._choices: Choices
        self._split: Split

    def finish(self) -> StopReason | None:
        """One token."""
        reply = self._reply
        self._choices = choices = reply.sampler(self._logits, positions=(len(reply.tokens),))
        self._kept = kept = verify_and_commit(
            reply.runner, self._tree, choices.choose, reply.tokens, reply.stopper
        )
        reply.tokens += kept.tokens
        self._split = reply.planner.observe_plain(perf_counter() - reply.began, self._rows)
        return kept.reason

    def report(self) -> Step:
        """The pool learns the token."""
        kept, pool = self._kept, self._reply.pool
        pool.learn(self._reply.tokens, 1, "output")
        trace = trace_of(self._tree, self._choices, kept.rows)
        return Step(kept.tokens, kept.origins, self._rows, False, len(pool), kept.reason, self._split, trace)


class _DraftedPass:
    """A draft tree and the window."""

    def __init__(self, reply: _LookaheadSteps, plan: DraftPlan) -> None:
        self._reply = reply
        runner, tokens, window = reply.runner, reply.tokens, reply.window
        window.fit(runner.horizon(len(tokens) - 1) - len(tokens), runner.max_rows - 1)
        depth = most_drafts(runner, tokens, reply.stopper)
        self._tree = _draft(reply, plan, depth)
        self._window = window.copy()
        self._layout = lay_out(self._tree, window, len(tokens) - 1)
        self._rows = len(self._layout.block) + runner.pending
        self._logits = runner.forward(self._layout.block)
        self._positions = self._layout.sampled_positions  # a card computes by now
        self._contexts = self._asked_contexts(tokens)
        reply.pool.expect(self._contexts)
        self._kept: CommittedTokens
        self._choices: Choices
        self._split: Split

    def _asked_contexts(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """The last four tokens up to each wanted row [R, 4]."""
        columns = self._window.columns(self._tree.tokens[0])
        return np.array(self._tree.contexts(tokens) + [last_tokens(column) for column in columns])

    def finish(self) -> StopReason | None:
        """Commit the accepted path; the window moves on."""
        reply, layout, tree = self._reply, self._layout, self._tree
        self._choices = choices = reply.sampler(self._logits, SUCCESSORS, self._positions)
        self._kept = kept = verify_and_commit(reply.runner, tree, choices.choose, reply.tokens, reply.stopper)
        self._teach_successors()
        reply.window.shift(choices.ids[layout.top, 0].tolist())
        reply.tokens += kept.tokens
        seconds, from_window = perf_counter() - reply.began, kept.origins.count("window")
        observed = DraftedStep(tree.reaches, reply.window, self._rows, len(kept.tokens), from_window, seconds)
        self._split = reply.planner.observe(observed)
        return kept.reason

    def _teach_successors(self) -> None:
        """What the rows said is worth most to the very next draft. The guesses are judged before it is known."""
        pool, choices = self._reply.pool, self._choices
        pool.observe(self._reply.tokens, self._kept.tokens)
        pool.learn_successors(self._contexts, choices.ids, choices.logits)

    def _lines(self) -> list[list[int]]:
        """The window's columns, each with what the model said behind it."""
        return self._window.lines(self._tree.tokens[0], self._choices.ids[self._layout.top, 0].tolist())

    def report(self) -> Step:
        """The pool learns the text and the window's n-grams."""
        kept, pool, tree = self._kept, self._reply.pool, self._tree
        new, tokens = len(kept.tokens), self._reply.tokens
        for line in self._lines():
            pool.learn(line, 1, "window")
        pool.learn(tokens, new, "output")
        trace = trace_of(tree, self._choices, kept.rows, self._window.shown(tree.tokens[0]))
        is_covered = len(tree) > 1
        return Step(
            kept.tokens, kept.origins, self._rows, is_covered, len(pool), kept.reason, self._split, trace
        )


def _open_window(planner: DraftPlanner, pool: Pool, tokens: Sequence[int]) -> JacobiWindow:
    """A window that starts from what the pool expects, not from noise."""
    columns = planner.columns
    if not columns:
        return JacobiWindow(0, planner.ngram, ())
    ahead = columns + planner.ngram - 3
    return JacobiWindow(columns, planner.ngram, [tokens[-1], *pool.continuation(tokens, ahead)])


def _draft(reply: _LookaheadSteps, plan: DraftPlan, depth: int) -> DraftTree:
    """The tree that pays, no deeper and with no more rows than the reply and the runner have room for."""
    runner, window = reply.runner, reply.window
    rows = min(plan.rows, runner.max_rows - window.need)
    tree = reply.pool.draft(reply.tokens, rows, min(plan.depth, depth), plan.min_reach)
    tree.cut(reply.planner.kept(tree.reaches, window.size + runner.pending))
    return tree
