"""The app's log: warnings and errors, in a file that never grows large."""

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

LONGEST = 1_000_000
KEPT = 2


def log_path(data_dir: Path) -> Path:
    """Where the log of this data folder is."""
    return data_dir / "logs" / "foresight.log"


class LogFile(RotatingFileHandler):
    """A log file whose disk may be full or gone."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the name is logging's)
        """Drop the line instead of printing a traceback."""
        del record


def write_log(path: Path) -> logging.Handler | None:
    """Write warnings to this file from now on. Returns None when it cannot be made; the app starts anyway."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = LogFile(path, maxBytes=LONGEST, backupCount=KEPT, encoding="utf-8", delay=True)
    except OSError:
        return None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    return handler
