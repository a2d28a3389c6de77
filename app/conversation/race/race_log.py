"""The history of races in SQLite, by model, dtype, device and quantisation.

Older versions also raced models on servers. The lanes of such models have a server's name, and are skipped.
"""

import sqlite3
from itertools import groupby
from statistics import median

from app.database.database import Database
from app.values.messages import ModelInfo
from app.values.race import LaneSummary, RaceResult, RaceSummary, SpeedByKind

OF_MODEL = "model = ? AND dtype = ? AND device = ? AND quantisation = ?"
PROMPT_EXCERPT = 200
"""Number of characters of a prompt that are saved."""
LANE_COLUMNS = "name, speed_up, tokens_per_second, tokens_per_step, is_identical"


class RaceLog:
    """The finished races. Safe to use from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, result: RaceResult) -> None:
        """Saves a race's results and the beginning of its prompt."""
        prompt = result.plan.prompt
        row = (result.at, *_key(result.model), prompt.kind, prompt.text[:PROMPT_EXCERPT])
        with self._database.writing() as connection:
            race = connection.execute(
                "INSERT INTO races (at, model, dtype, device, quantisation, kind, prompt)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            ).lastrowid
            for number, lane in enumerate(result.lanes):
                speeds = lane.speed_up.median, lane.speed.median, lane.run.statistics.tokens_per_step
                connection.execute(
                    f"INSERT INTO race_lanes (race, lane, {LANE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (race, number, lane.run.name, *speeds, lane.is_identical),
                )

    def last(self, model: ModelInfo, limit: int) -> list[RaceSummary]:
        """Returns the latest races of this model with its dtype, device and quantisation, the newest first."""
        with self._database.reading() as connection:
            races = connection.execute(
                f"SELECT id, at, kind, prompt FROM races WHERE {OF_MODEL} ORDER BY id DESC LIMIT ?",
                (*_key(model), limit),
            ).fetchall()
            return [
                RaceSummary(at, kind, prompt, _lanes(connection, race)) for race, at, kind, prompt in races
            ]

    def summary(self, model: ModelInfo) -> list[SpeedByKind]:
        """Returns each lane's median speed-up and tokens per step on each kind of text, if a speed-up is known."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT kind, name, speed_up, tokens_per_step FROM race_lanes JOIN races ON races.id = race"
                f" WHERE {OF_MODEL} AND server = '' AND speed_up > 0 ORDER BY kind, name",
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


def _lanes(connection: sqlite3.Connection, race: int) -> tuple[LaneSummary, ...]:
    rows = connection.execute(
        f"SELECT {LANE_COLUMNS} FROM race_lanes WHERE race = ? AND server = '' ORDER BY lane", (race,)
    )
    return tuple(
        LaneSummary(name, speed_up, per_second, per_step, bool(is_identical))
        for name, speed_up, per_second, per_step, is_identical in rows
    )
