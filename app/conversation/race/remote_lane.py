"""What the remote lane of a race has written, timed as the person who waits sees it.

A server sends text and no tokens. Until it tells how many it wrote, the pieces of the text are counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.conversation.race.decoder_comparison import LaneReader, median_run, speed
from app.conversation.reply import Reply
from app.values.messages import Event, Failed, Finished, ModelChoice, Piece, Statistics
from app.values.race import RemoteResult
from app.values.race_runs import LaneChoice, RemoteRun


class RemoteReader:
    """Follows the reply of a server from its start. For one thread."""

    def __init__(self, model: ModelChoice, reply: Reply) -> None:
        self.run = RemoteRun(model)
        self._reply = reply
        self._read = 0

    def read(self) -> RemoteRun:
        """The run as it is now; the same object while there are no new events."""
        events = self._reply.wait(0, timeout=0)
        if len(events) > self._read:
            self._read, self.run = len(events), remote_run(self.run.model, events)
        return self.run


def reader_of(lane: LaneChoice, reply: Reply) -> LaneReader | RemoteReader:
    """What follows a run of this lane."""
    return RemoteReader(lane, reply) if isinstance(lane, ModelChoice) else LaneReader(lane, reply)


def remote_run(model: ModelChoice, events: Sequence[Event]) -> RemoteRun:
    """A run by the events of its reply so far."""
    pieces = [event for event in events if isinstance(event, Piece)]
    ends = [event for event in events if isinstance(event, Finished)]
    told = ends[0].statistics.tokens if ends else 0
    numbers = [Statistics(), *(each.statistics for each in pieces), *(each.statistics for each in ends)]
    return RemoteRun(
        model=model,
        statistics=numbers[-1] if told else replace(numbers[-1], tokens=max(0, len(pieces) - 1)),
        text="".join(piece.text for piece in pieces),
        curve=tuple(_curve(pieces, told + 1 if told else len(pieces))),
        reason=ends[0].reason if ends else None,
        counts_pieces=not told,
        failure=next((event.sentence for event in events if isinstance(event, Failed)), ""),
    )


def _curve(pieces: Sequence[Piece], tokens: int) -> Iterator[tuple[float, int]]:
    """When how many tokens were there. A piece may hold several: they are spread by the length of the text."""
    whole, written = sum(len(piece.text) for piece in pieces), 0
    for number, piece in enumerate(pieces, 1):
        written += len(piece.text)
        count = number if tokens == len(pieces) else round(tokens * written / whole)
        yield piece.statistics.seconds, max(1, count)


def remote_result(runs: Sequence[RemoteRun]) -> RemoteResult:
    """What the runs of all rounds say. Where none is complete, the first shows how far it came."""
    complete = [run for run in runs if run.reason]
    return RemoteResult(
        median_run(complete) if complete else runs[0],
        tuple(map(speed, complete)),
        tuple(run.statistics.time_to_first_token for run in complete),
        next((run.failure for run in runs if run.failure), ""),
    )
