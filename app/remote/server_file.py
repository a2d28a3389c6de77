"""The servers that the person added, with their keys, in a file of the data folder that only they can read."""

import json
import logging
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from app.errors import SettingsNotSaved
from app.system.files import write_file
from app.values.dataclass_json import parse_json, require_types
from app.values.server import Server

log = logging.getLogger(__name__)
FILE = "servers.json"


class ServerFile:
    """The servers in a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE

    def read(self) -> tuple[Server, ...]:
        """The servers; none where the file is missing. One that makes no sense is set aside."""
        try:
            return tuple(_server(**saved) for saved in parse_json(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return ()
        except OSError as error:
            log.warning("the servers in %s cannot be read (%s)", self.path, error.strerror)
        except (ValueError, TypeError, AttributeError):
            with suppress(OSError):  # read-only disk: the file stays
                self.path.replace(self.path.with_suffix(".json.broken"))
        return ()

    def write(self, servers: tuple[Server, ...]) -> None:
        """Keep these servers. Raises SettingsNotSaved."""
        try:
            write_file(self.path, json.dumps([asdict(server) for server in servers], indent=2))
        except OSError as error:
            raise SettingsNotSaved(
                f"The servers could not be saved in {self.path.parent} ({error.strerror}). "
                "Free some disk space, or choose another folder with --data-dir."
            ) from error


def _server(address: str, key: str, models: list[str]) -> Server:
    saved = {"address": address, "key": key, "models": models}
    return require_types(Server(address, key, tuple(models)), saved)
