"""The history of races in SQLite, by model, dtype, device and quantisation."""

import sqlite3
from itertools import groupby
from statistics import median

from app.database import Database
from app.values.messages import ModelInfo
from app.values.race import LaneResult, LaneSummary, RaceResult, RaceSummary, RemoteResult, SpeedByKind
from app.values.server import server_name

OF_MODEL = "model = ? AND dtype = ? AND device = ? AND quantisation = ?"
PROMPT_EXCERPT = 200
"""Characters of a prompt that are saved."""
Columns = tuple[str, float, float, float, bool, str, bool]
"""What is saved of a lane, in the order of the table."""


class RaceLog:
    """The finished races. Safe to use from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, result: RaceResult) -> None:
        """Saves a race's numbers."""
        prompt = result.plan.prompt
        row = (result.at, *_key(result.model), prompt.kind, prompt.text[:PROMPT_EXCERPT])
        with self._database.writing() as connection:
            race = connection.execute(
                "INSERT INTO races (at, model, dtype, device, quantisation, kind, prompt)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            ).lastrowid
            lanes = [*map(_columns, result.lanes), *map(_remote_columns, result.remote)]
            connection.executemany(
                "INSERT INTO race_lanes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(race, number, *columns) for number, columns in enumerate(lanes)],
            )

    def last(self, model: ModelInfo, limit: int) -> list[RaceSummary]:
        """The newest races of this model as it runs now, newest first."""
        with self._database.reading() as connection:
            races = connection.execute(
                f"SELECT id, at, kind, prompt FROM races WHERE {OF_MODEL} ORDER BY id DESC LIMIT ?",
                (*_key(model), limit),
            ).fetchall()
            return [
                RaceSummary(at, kind, prompt, _lanes(connection, race)) for race, at, kind, prompt in races
            ]

    def summary(self, model: ModelInfo) -> list[SpeedByKind]:
        """The medians of each lane on each kind of text; unknown speeds are left out."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT kind, name, speed_up, tokens_per_step FROM race_lanes JOIN races ON races.id = race"
                f" WHERE {OF_MODEL} AND speed_up > 0 ORDER BY kind, name",
                _key(model),
            ).fetchall()
        groups = groupby(rows, key=lambda row: (row[0], row[1]))
        lanes = ((kind, name, list(group)) for (kind, name), group in groups)
        return [
            SpeedByKind(kind, name, median(row[2] for row in of), median(row[3] for row in of), len(of))
            for kind, name, of in lanes
        ]


def _key(model: ModelInfo) -> tuple[str, str, str, str]:
    return model.name, model.dtype, model.device, model.quantisation


def _columns(lane: LaneResult) -> Columns:
    per_step = lane.run.statistics.tokens_per_step
    return lane.run.name, lane.speed_up.median, lane.speed.median, per_step, lane.is_identical, "", False


def _remote_columns(remote: RemoteResult) -> Columns:
    """Without a speed-up, which leaves it out of the summary, and without an identical text: it has neither."""
    run = remote.run
    per_step = run.statistics.tokens_per_step
    server = server_name(run.model.server)
    return run.name, 0.0, remote.speed.median, per_step, False, server, run.counts_pieces


def _lanes(connection: sqlite3.Connection, race: int) -> tuple[LaneSummary, ...]:
    rows = connection.execute(
        "SELECT name, speed_up, tokens_per_second, tokens_per_step, is_identical, server, counts_pieces"
        " FROM race_lanes WHERE race = ? ORDER BY lane",
        (race,),
    )
    return tuple(
        LaneSummary(name, speed_up, per_second, per_step, bool(is_identical), server, bool(counts_pieces))
        for name, speed_up, per_second, per_step, is_identical, server, counts_pieces in rows
    )
