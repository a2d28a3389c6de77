"""The history of races: on which kind of text a decoder pays, on this machine."""

from app.races.race_log import RaceLog

__all__ = ["RaceLog"]
