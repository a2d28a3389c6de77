"""Lookahead decoding (Fu et al. 2024, "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding").

One step is one forward pass over two branches that do not see each other:

    pool -> draft tree --+             +-- verify -> stop rule -> commit -> text, pool
                         +--> model -->+
    window of guesses ---+             +-- n-grams -> pool, window moves on

Against the authors' code (LADE): a full match earns the model's own next token as well, guesses are checked from
the first step on and share their prefixes, what the model says behind rejected guesses is learned too, and the
end rules cut a step's tokens before cache, pool and text see them.
"""

from collections.abc import Iterator, Sequence

from app.engine.lookahead.draft_tree import DraftTree, grow_tree
from app.engine.lookahead.layout import lay_out
from app.engine.lookahead.pool import NGramPool, Pool
from app.engine.lookahead.verification import Accepted, verify
from app.engine.lookahead.window import Window
from app.engine.runner import Runner
from app.engine.sampling import Sampler
from app.engine.step import Decoder, Step
from app.engine.stopping import Stopper
from app.messages import Decoding


def make_lookahead(decoding: Decoding) -> Decoder:
    """The decoder with these W, N and G, and a pool of its own for each reply."""

    def decode(runner: Runner, tokens: list[int], sampler: Sampler, stopper: Stopper) -> Iterator[Step]:
        pool = NGramPool(decoding.ngram, decoding.guesses)
        return lookahead(runner, tokens, sampler, stopper, decoding=decoding, pool=pool)

    return decode


def lookahead(
    runner: Runner,
    tokens: list[int],
    sampler: Sampler,
    stopper: Stopper,
    *,
    decoding: Decoding,
    pool: Pool,
) -> Iterator[Step]:
    """Drafts from the pool, verifies, commits; the window fills the pool on the side."""
    pool.learn(tokens, len(tokens), "prompt")
    window = _open_window(decoding, pool, tokens)
    reason = None
    while reason is None:
        position = len(tokens) - 1
        horizon = runner.horizon(position)
        if position + window.reach >= horizon:
            window = Window(0, decoding.ngram, ())
        depth = min(stopper.left, decoding.ngram, horizon - position) - 1
        tree = grow_tree(tokens[-1], pool.candidates(tokens), depth)
        layout = lay_out(tree, window, position)
        choices = sampler(runner.forward(layout.block))
        accepted = verify(tree, choices.choose, tokens)
        cut = stopper.cut(accepted.tokens)
        new, reason = accepted.tokens[: cut.kept], cut.reason
        runner.commit(accepted.rows[: cut.kept])
        _learn_rejected(pool, tree, accepted, choices.guesses)
        _advance(window, pool, tokens[-1], choices.guesses[layout.top])
        tokens += new
        pool.learn(tokens, len(new), "output")
        yield Step(new, accepted.origins[: cut.kept], len(layout.block), len(tree) > 1, len(pool), reason)


def _open_window(decoding: Decoding, pool: Pool, tokens: Sequence[int]) -> Window:
    """A window that starts from what the pool expects, not from noise."""
    if not decoding.window:
        return Window(0, decoding.ngram, ())
    ahead = decoding.window + decoding.ngram - 3
    return Window(decoding.window, decoding.ngram, [tokens[-1], *pool.continuation(tokens, ahead)])


def _advance(window: Window, pool: Pool, current: int, said: Sequence[int]) -> None:
    for line in window.lines(current, said):
        pool.learn(line, 1, "window")
    window.shift(said)


def _learn_rejected(pool: Pool, tree: DraftTree, accepted: Accepted, said: Sequence[int]) -> None:
    """What the model says behind a rejected guess is one more n-gram, for nothing."""
    for node in range(1, len(tree)):
        if node not in accepted.rows:
            before = tree.tokens[tree.parents[node]]
            pool.learn((before, tree.tokens[node], said[node]), 1, "successor")
