"""Runs a model on several ranks: rank 0 splits a step's block among the ranks and joins their results.

Some blocks, such as plain steps and chains, cannot be divided, because one rank's share would have all rows. Rank 0
computes them alone.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial

import torch
from torch import Tensor

from app.engine.block.block import Block
from app.engine.block.step_profile import Buckets, StepProfile, StepTimes
from app.engine.parallel.link import Link, LinkBroken, Op, Order
from app.engine.parallel.step_shares import RankModel, Share, answers_of, choices_of, followed, split
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.sampling import Choices, Sampler
from app.errors import AppError
from app.values.messages import MAX_ROWS, Prefilling, Sampling

FAR = 24
"""With this many unsent tokens, a rank receives them at once instead of with its next share."""


class ParallelRunner:
    """Runs a model of which every rank has a copy. If a rank ends, `prefill`, `forward` and `commit` raise
    AppError, and the runner cannot be used again."""

    max_branches = MAX_ROWS
    pending = 0
    is_asynchronous = False  # `forward` waits for the answers of all ranks

    def __init__(self, runner: BlockRunner, link: Link, lost: Callable[[int], AppError]) -> None:
        """Share steps by this link. `lost` makes the error for a rank that has ended."""
        self.context = runner.context
        self.reused = 0
        self.is_broken = False
        self._runner = runner
        self._model = RankModel(runner)
        self._link = link
        self._lost = lost
        self._others = range(1, link.size)
        self._sampler: Sampler | None = None  # None if ranks send logits instead of sampling
        self._settings: dict[str, object] = {"sampling": None}
        self._sent_settings: dict[str, object] = {}
        self._block: Block | None = None
        self._shares: dict[int, Block] = {}  # shares of the newest step, by rank
        self._unsent: list[list[int]] = [[] for _ in range(link.size)]
        self._missed = [0] * link.size

    @property
    def same_text_buckets(self) -> Buckets:
        """The row counts of blocks that, divided equally, give each rank one of its `same_text_buckets`."""
        return rows_together(self._runner.same_text_buckets, self._link.size)

    @property
    def buckets(self) -> Buckets:
        """The row counts of blocks that, divided equally, fill a bucket on each rank."""
        return rows_together(self._runner.buckets, self._link.size)

    @property
    def max_rows(self) -> int:
        """Maximum number of rows of a block: as many as one rank can run, because a chain is not divided."""
        return self._runner.max_rows

    def horizon(self, position: int) -> int:
        return self._runner.horizon(position)

    def sampler(self, sampling: Sampling, from_logits: bool = False) -> Sampler:
        """Make a reply's sampler. The ranks sample their own rows, unless the logits are needed on this rank."""
        own = self._runner.sampler(sampling)
        # A penalty depends on accepted tokens, which may be in other ranks' shares.
        is_here = from_logits or sampling.repetition_penalty != 1
        self._sampler = None if is_here else own
        self._settings["sampling"] = None if is_here else asdict(sampling)
        return own if is_here else partial(_choices, own=own)

    def prefill(
        self, ids: Sequence[int], same_text_buckets: Buckets = ()
    ) -> Generator[Prefilling, None, Tensor]:
        """Send changed settings, and let every rank read the prompt. Yields the progress of this rank; returns the
        logits [vocab] after the last token."""
        buckets = tuple((rows - 1) // self._link.size + 1 for rows in same_text_buckets)
        self._block, self._shares = None, {}
        self._unsent, self._missed = [[] for _ in self._unsent], [0] * self._link.size
        settings = {**self._settings, "buckets": list(buckets)}
        with self._whole_exchange():
            for rank in self._others:
                if settings != self._sent_settings:
                    self._link.send_order(rank, Order(Op.REPLY, settings=settings))
                self._link.send_order(rank, Order(Op.PREFILL, tuple(ids)))
        self._sent_settings = settings
        logits = yield from self._model.prefill(ids, buckets)
        self.reused = self._runner.reused
        return logits

    def forward(self, block: Block) -> Tensor:
        """Run the block on the ranks; return logits [R, vocab] of its wanted rows.

        If the block is divided and the ranks sample, returns packed answers [R, 1 + SUCCESSORS] (`answers_of`)."""
        shares = split(block, self._missed)
        rows = [len(share.block) + missed for share, missed in zip(shares, self._missed, strict=True)]
        self._block = block
        if max(rows) >= len(block) + self._missed[0]:
            self._shares = {}
            return self._model.forward(block)
        others = {rank: shares[rank] for rank in self._others if shares[rank].own}
        self._shares = {rank: share.block for rank, share in others.items()}
        with self._whole_exchange():
            for rank, share in others.items():
                self._send_text(rank, share)
            answers = self._model.forward(shares[0].block)
            if self._sampler is not None:
                answers = torch.from_numpy(answers_of(self._sampler, answers, shares[0].block))
            joined = answers.new_empty((len(block.wanted), answers.shape[1]))
            joined[list(shares[0].in_block)] = answers[list(shares[0].own)]
            for rank, share in others.items():
                theirs = torch.empty((len(share.own), answers.shape[1]), dtype=answers.dtype)
                self._link.receive(rank, theirs)
                joined[list(share.in_block)] = theirs.to(answers.device)
        return joined

    def forward_siblings(self, tokens: Sequence[int]) -> Tensor:
        return self._runner.forward_siblings(tokens)

    def commit(self, rows: Sequence[int]) -> None:
        """Commit this rank's own rows, and send each other rank its unsent tokens if there are FAR or more."""
        if self._block is None:
            raise ValueError(f"there is no block whose rows {list(rows)} could be committed")
        tokens = [self._block.tokens[row] for row in rows]
        self._block = None
        self._model.extend(tokens)
        self._missed[0] = self._model.missed
        for rank in self._others:
            share = self._shares.get(rank)
            known = len(followed(share, tokens)) if share else 0
            self._missed[rank] = len(tokens) - known + (0 if share else self._missed[rank])
            self._unsent[rank] += tokens
            if len(self._unsent[rank]) >= FAR:
                with self._whole_exchange():
                    self._send_text(rank)

    def forget(self) -> None:
        """Drop the text on this rank and, if no exchange has failed, on the other ranks."""
        self._model.forget()
        if self.is_broken:
            return
        with suppress(AppError), self._whole_exchange():  # the next exchange reports a broken link
            for rank in self._others:
                self._link.send_order(rank, Order(Op.FORGET))

    def _send_text(self, rank: int, share: Share | None = None) -> None:
        """Send the rank its unsent tokens and its share; without a share, the rank only feeds the tokens."""
        text = tuple(self._unsent[rank])
        self._link.send_order(rank, Order(Op.STEP if share else Op.FOLLOW, text, share))
        self._unsent[rank] = []
        if not share:
            self._missed[rank] = 0

    @contextmanager
    def _whole_exchange(self) -> Iterator[None]:
        """Mark the runner as broken after any error, because the next step would read old answers."""
        try:
            yield
        except LinkBroken as broken:
            self.is_broken = True
            raise self._lost(broken.rank) from broken
        except BaseException:
            self.is_broken = True
            raise


def rows_together(buckets: Buckets, ranks: int) -> Buckets:
    """Return the row counts of blocks whose shares have these row counts. Each share repeats the current token."""
    return tuple((rows - 1) * ranks + 1 for rows in buckets)


def _choices(answers: Tensor, likely: int = 1, positions: Sequence[int] = (), *, own: Sampler) -> Choices:
    """Unpack the ranks' answers, which are integers, or sample from the logits of a block that was not divided."""
    is_logits = answers.is_floating_point()
    return own(answers, likely, positions) if is_logits else choices_of(answers.numpy(), likely)


def profile_together(profile: StepProfile, ranks: int, exchange: float) -> StepProfile:
    """Return the step profile of all ranks; an exchange's seconds are added to steps of several rows."""

    def together(times: StepTimes) -> StepTimes:
        seconds = (
            each + exchange * (rows > 1) for rows, each in zip(times.buckets, times.seconds, strict=True)
        )
        return StepTimes(rows_together(times.buckets, ranks), tuple(seconds), times.per_token)

    return replace(
        profile,
        free=together(profile.free),
        batch_invariant=together(profile.batch_invariant),
        bucket_sets=tuple(rows_together(buckets, ranks) for buckets in profile.bucket_sets),
    )
