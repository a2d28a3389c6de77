"""What the page needs of the model library."""

from collections.abc import Sequence
from typing import Protocol

from app.settings import ModelSettings
from app.values.model import (
    DiskUse,
    Download,
    DraftModels,
    Fit,
    InstalledModel,
    Memory,
    Precision,
    Recommendation,
    RemoteModel,
    RowPrice,
    SearchHit,
)
from app.values.quantisation import Quantisation
from app.values.server import Server


class ServersService(Protocol):
    """The servers that the person added. `add` waits for the server. What cannot be done raises an AppError."""

    def servers(self) -> tuple[Server, ...]:
        """All servers."""

    def add(self, address: str, key: str) -> Server:
        """List the models of a server and keep it; with an empty key by the one that is kept."""

    def remove(self, address: str) -> None:
        """Forget a server, with its key."""


class ModelsService(Protocol):
    """The model library. Only `downloads` returns at once. What cannot be done raises an AppError."""

    def use(self, chosen: ModelSettings) -> None:
        """Use these settings."""

    def memory(self, device: str) -> Memory:
        """The free memory of a device; "" is the one that models would run on."""

    def gpus(self) -> Sequence[str]:
        """The graphics cards that models can run on, as torch calls them."""

    def fast_quantisation(self) -> Quantisation:
        """The quantisation that makes steps fastest on this machine; "none" for dense weights."""

    def disk(self) -> DiskUse:
        """The disk that models are downloaded to."""

    def recommended(self, memory: Memory, precision: Precision, context: int) -> Sequence[Recommendation]:
        """The recommended models, each with whether it fits."""

    def installed(self) -> Sequence[InstalledModel]:
        """The models on this machine."""

    def open_path(self, path: str) -> InstalledModel:
        """The model in this folder or GGUF file."""

    def is_here(self, name: str) -> bool:
        """Whether a model is installed. Reads one folder."""

    def judge(
        self, model: InstalledModel, memory: Memory, precision: Precision, context: int, draft_model: str = ""
    ) -> Fit:
        """Whether an installed model fits with its draft model."""

    def draft_models(self, model: InstalledModel) -> DraftModels:
        """Which models can draft for an installed one."""

    def row_price(self, name: str, precision: Precision) -> RowPrice | None:
        """The memory that a row of a decoding step takes with this model, if it is installed."""

    def own_temperature(self, name: str) -> float:
        """The temperature that a model asks for, a usual one where it asks for none."""

    def search(self, words: str) -> Sequence[SearchHit]:
        """Search the hub."""

    def hub_id(self, text: str) -> str:
        """The hub id in a text, which may be the id itself or the URL of its page; "" if there is none."""

    def inspect_model(self, name: str, memory: Memory, precision: Precision, context: int) -> RemoteModel:
        """Inspect a model on the hub before it is downloaded."""

    def page(self, name: str) -> str:
        """The URL of a model's page on the hub."""

    def downloads(self) -> tuple[Download, ...]:
        """All downloads and their states."""

    def start(self, name: str) -> None:
        """Start a download."""

    def resume(self, name: str) -> None:
        """Resume a download."""

    def pause(self, name: str) -> None:
        """Stop a download and keep the files so far."""

    def cancel(self, name: str) -> None:
        """Stop a download and delete its files."""

    def dismiss(self, name: str) -> None:
        """Remove a finished download from the list."""

    def freed_by(self, model: InstalledModel) -> int:
        """The bytes that deleting a model would free."""

    def delete(self, model: InstalledModel) -> int:
        """Delete a model. Returns the bytes that this freed."""

    def is_logged_in(self) -> bool:
        """Whether an access token for the hub is saved."""

    def log_in(self, token: str) -> str:
        """Check an access token with the hub and save it. Returns the account name."""

    def log_out(self) -> None:
        """Delete the access token."""
