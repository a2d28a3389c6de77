"""Finds models on this machine and on the hub, judges whether they fit, fetches and deletes them.

Knows no torch: it deals in files alone."""

from app.models_registry.catalogue import find, grouped, read_catalogue
from app.models_registry.downloads.downloads import Downloads, SavedDownloads
from app.models_registry.files.fit_estimate import fit_on_device, judge_folder
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId, parse_hub_id, require_hub_id
from app.models_registry.hub.search import inspect_model, search
from app.models_registry.installed_models import delete, find_installed, freed_by, installed, verify
from app.models_registry.locate import find_here, folder_here, locate, template_here
from app.models_registry.model_library import ModelLibrary
from app.system.device_memory import memories

__all__ = [
    "SavedDownloads",
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
    "fit_on_device",
    "judge_folder",
    "locate",
    "inspect_model",
    "memories",
    "parse_hub_id",
    "read_catalogue",
    "require_hub_id",
    "search",
    "template_here",
    "verify",
]
