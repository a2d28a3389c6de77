"""The model library as the settings say: which hub, which folders, where downloads are remembered."""

from pathlib import Path

from app.models_registry import Downloads, Hub, SavedDownloads
from app.settings import ModelSettings, SettingsFile, default_data_dir


def library() -> ModelSettings:
    """The person's settings for models."""
    return SettingsFile(default_data_dir()).load().library


def hub_of(settings: ModelSettings) -> Hub:
    """The hub, or one that asks nothing."""
    return Hub(is_offline=settings.is_offline)


def downloads_in(data_dir: Path, settings: ModelSettings) -> Downloads:
    """The downloads of this data folder; nothing runs yet."""
    return Downloads(hub_of(settings), SavedDownloads(data_dir / "downloads"), settings.downloads_at_once)
