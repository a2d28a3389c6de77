"""The history of races: which decoder is fast on which kind of text, on this machine."""

from app.races.race_log import RaceLog

__all__ = ["RaceLog"]
