"""What the window needs of the library of models."""

from collections.abc import Sequence
from typing import Protocol

from app.model_messages import (
    DiskUse,
    Download,
    Fit,
    InstalledModel,
    Memory,
    Precision,
    Recommendation,
    RemoteModel,
    RowPrice,
    SearchHit,
)
from app.settings import ModelSettings


class Models(Protocol):
    """The library. Only `downloads` answers at once; what cannot be done raises an AppError."""

    def use(self, chosen: ModelSettings) -> None:
        """Follow these settings."""

    def memory(self, device: str) -> Memory:
        """What this device has free; "" is the one that models would run on."""

    def disk(self) -> DiskUse:
        """The disk that downloads go to."""

    def recommended(self, memory: Memory, precision: Precision, context: int) -> Sequence[Recommendation]:
        """The catalogue, each with whether it fits."""

    def installed(self) -> Sequence[InstalledModel]:
        """The models on this machine."""

    def is_here(self, name: str) -> bool:
        """Whether a model is on this machine, by a look at one folder."""

    def judge(self, model: InstalledModel, memory: Memory, precision: Precision, context: int) -> Fit:
        """Whether an installed model fits."""

    def row_price(self, name: str, precision: Precision) -> RowPrice | None:
        """What a row of a step takes with this model, if it is on this machine."""

    def search(self, words: str) -> Sequence[SearchHit]:
        """Models on the hub with these words."""

    def hub_id(self, text: str) -> str:
        """The hub id that a text is, or the one in a page's address; "" when it is neither."""

    def look_at(self, name: str, memory: Memory, precision: Precision, context: int) -> RemoteModel:
        """A model on the hub before it is downloaded."""

    def page(self, name: str) -> str:
        """The address of a model's page on the hub."""

    def downloads(self) -> tuple[Download, ...]:
        """How all downloads stand."""

    def start(self, name: str) -> None:
        """Download this model."""

    def resume(self, name: str) -> None:
        """Go on with a download."""

    def pause(self, name: str) -> None:
        """Stop a download's traffic, and keep what has come."""

    def cancel(self, name: str) -> None:
        """Stop a download's traffic, and remove what it brought."""

    def dismiss(self, name: str) -> None:
        """Take a finished download off the list."""

    def freed_by(self, model: InstalledModel) -> int:
        """The bytes that deleting a model would free."""

    def delete(self, model: InstalledModel) -> int:
        """Delete a model; the bytes that this freed."""

    def is_logged_in(self) -> bool:
        """Whether a token of the hub is kept."""

    def log_in(self, token: str) -> str:
        """Check a token with the hub and keep it; whose it is."""

    def log_out(self) -> None:
        """Forget the token."""
