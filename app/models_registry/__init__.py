"""Finds models on this machine and on the hub, judges whether they fit, fetches and deletes them.

It does not import torch: models are judged by their files alone."""

from app.models_registry.catalogue import find as find
from app.models_registry.catalogue import grouped as grouped
from app.models_registry.catalogue import read_catalogue as read_catalogue
from app.models_registry.downloads.downloads import Downloads as Downloads
from app.models_registry.downloads.downloads import SavedDownloads as SavedDownloads
from app.models_registry.files.fit_estimate import fit_on_device as fit_on_device
from app.models_registry.files.fit_estimate import judge_folder as judge_folder
from app.models_registry.hub.hub import Hub as Hub
from app.models_registry.hub.hub_id import HubId as HubId
from app.models_registry.hub.hub_id import parse_hub_id as parse_hub_id
from app.models_registry.hub.hub_id import require_hub_id as require_hub_id
from app.models_registry.hub.search import inspect_model as inspect_model
from app.models_registry.hub.search import search as search
from app.models_registry.installed_models import delete as delete
from app.models_registry.installed_models import find_installed as find_installed
from app.models_registry.installed_models import freed_by as freed_by
from app.models_registry.installed_models import hub_name as hub_name
from app.models_registry.installed_models import installed as installed
from app.models_registry.installed_models import verify as verify
from app.models_registry.locate import find_here as find_here
from app.models_registry.locate import folder_here as folder_here
from app.models_registry.locate import locate as locate
from app.models_registry.locate import template_here as template_here
from app.models_registry.locate import whole_path as whole_path
from app.models_registry.model_library import ModelLibrary as ModelLibrary
from app.system.machine import memories as memories
