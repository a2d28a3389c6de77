"""Finds models on this machine and on the hub, judges whether they fit, fetches and deletes them.

Knows no torch: it deals in files alone."""

from app.models_registry.downloads.downloads import Downloads
from app.models_registry.downloads.remembered import DownloadFiles
from app.models_registry.fit.catalogue import find, grouped, read_catalogue
from app.models_registry.fit.judging import judge_folder
from app.models_registry.fit.machine import memories
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.ids import HubId, parse_hub_id, require_hub_id
from app.models_registry.hub.login import log_in, log_out
from app.models_registry.hub.searching import look_at, search
from app.models_registry.installed.installed import delete, find_installed, freed_by, installed, verify
from app.models_registry.installed.locating import find_here, folder_here, locate
from app.models_registry.library import ModelLibrary

__all__ = [
    "DownloadFiles",
    "Downloads",
    "Hub",
    "HubId",
    "ModelLibrary",
    "delete",
    "find",
    "find_here",
    "find_installed",
    "folder_here",
    "freed_by",
    "grouped",
    "installed",
    "judge_folder",
    "locate",
    "log_in",
    "log_out",
    "look_at",
    "memories",
    "parse_hub_id",
    "read_catalogue",
    "require_hub_id",
    "search",
    "verify",
]
