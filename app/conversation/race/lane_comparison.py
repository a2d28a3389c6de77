"""Compares decoders for the race and `bench`: their speed-ups over plain decoding, and the first different token.

The decoders run in turn on the same prompts (A B A B), and cold: without the cache and the pool of earlier runs.
Runs of the same round are compared. A lane is one decoding of the comparison; a column is a list of its runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.conversation.engine_protocol import ReplyEngine
from app.conversation.reply import Reply, ReplySoFar
from app.errors import ReplyFailed
from app.values.messages import Decoding, Failed, Finished, ModelChoice, Options, Prompt, Request
from app.values.race import Difference, LaneRun, Spread

WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Lane:
    """A decoding with the name that the user gave it."""

    name: str
    decoding: Decoding


def lane_request(model: ModelChoice, prompt: Prompt, options: Options, decoding: Decoding) -> Request:
    """Return a lane's request, which is cold, because another lane's cache and pool would give it an advantage."""
    return Request(model, prompt, replace(options, decoding=decoding), is_cold=True)


def warm_up_request(request: Request) -> Request:
    """Return the request for at most WARM_UP_TOKENS tokens. It runs first, so one-time work is not measured."""
    return replace(request, options=warm_up_options(request.options))


def warm_up_options(options: Options) -> Options:
    return replace(options, max_new_tokens=min(WARM_UP_TOKENS, options.max_new_tokens or WARM_UP_TOKENS))


def run_to_end(engine: ReplyEngine, request: Request, reply: Reply) -> Finished:
    """Submit a request, wait for the end of its reply and return the Finished event. Ctrl+C stops the reply.

    Raises ReplyFailed."""
    engine.submit(request, reply)
    try:
        *_, last = reply.events()
    finally:
        reply.stop()
    if isinstance(last, Failed):
        raise ReplyFailed(last.sentence)
    if not isinstance(last, Finished):
        raise ReplyFailed("The reply did not reach its end. Please try again.")
    return last


class LaneReader:
    """Follows one lane's reply from its start; not thread-safe."""

    def __init__(self, decoding: Decoding, reply: Reply) -> None:
        self.run = LaneRun(decoding, decoding.decoder)
        self._reply = reply
        self._so_far = ReplySoFar()
        self._read = 0

    def read(self) -> LaneRun:
        """Returns the lane's run so far; the same object while there are no new events."""
        events = self._reply.wait(self._read, timeout=0)
        if events:
            self._read += len(events)
            so_far = self._so_far
            so_far.take(events)
            self.run = LaneRun(
                decoding=self.run.decoding,
                decoder=so_far.finished.decoder if so_far.finished else self.run.decoder,
                statistics=so_far.statistics,
                text=so_far.text,
                token_ids=tuple(so_far.token_ids),
                ends=tuple(mark.end for mark in so_far.marks),
                curve=tuple(so_far.curve),
                reason=so_far.finished.reason if so_far.finished else None,
            )
        return self.run


def read_lane(decoding: Decoding, reply: Reply) -> LaneRun:
    return LaneReader(decoding, reply).read()


def fastest_plain(columns: Iterable[Sequence[LaneRun]]) -> Sequence[LaneRun]:
    """Return the column of the fastest plain decoding.

    A race may have two plain decodings: with one row per step, and padded to more rows. On most machines the first
    is faster. Only finished runs count; if there are none, the column is empty."""
    plains = [[run for run in column if run.decoding.decoder == "plain" and run.reason] for column in columns]
    return max(plains, key=lambda column: Spread.of(map(speed, column)).median, default=[])


def speed(run: LaneRun) -> float:
    return run.statistics.tokens_per_second


def median_run(column: Sequence[LaneRun]) -> LaneRun:
    return sorted(column, key=speed)[len(column) // 2]


def speed_up(column: Sequence[LaneRun], plain: Sequence[LaneRun]) -> Spread:
    """Return the ratios of a lane's tokens per second to plain decoding's, from the rounds that both have run."""
    pairs = zip(column, plain, strict=False)
    return Spread.of(speed(run) / speed(reference) if speed(reference) else 0.0 for run, reference in pairs)


def first_difference(run: LaneRun, plain: LaneRun) -> Difference | None:
    """Return the first token at which a lane and plain decoding differ; None if all tokens are identical."""
    if run.token_ids == plain.token_ids:
        return None
    pairs = zip(run.token_ids, plain.token_ids, strict=False)
    shorter = min(len(run.token_ids), len(plain.token_ids))
    index = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), shorter)
    return Difference(index, run.around(index)[1], plain.around(index)[1])
