"""Which model is loaded, and how: the value that `--model` and the Load dialog produce."""

from dataclasses import dataclass
from typing import Literal

from app.values.quantisation import Quantisation
from app.values.validation import require, require_one_of

DType = Literal["auto", "float32", "bfloat16", "float16"]
Device = Literal["auto", "cpu", "cuda"]
AttentionName = Literal["sdpa", "native", "triton", "flash"]
AttentionChoice = Literal["auto", "sdpa", "native", "triton", "flash"]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model (folder or hub id), and its precision, device, quantisation and attention backend.

    `context` is the longest context in tokens; 0 leaves it to the model. If `server` is the address of a server,
    the model runs there, and only its name is used. `draft_model` is the folder or hub id of a model that drafts
    for it, loaded in the same way; "" for none. With `offload` the weights for which a card has no room stay in
    main memory."""

    name: str
    dtype: DType = "auto"
    device: Device = "auto"
    quantisation: Quantisation = "none"
    attention: AttentionChoice = "auto"
    context: int = 0
    server: str = ""
    draft_model: str = ""
    offload: bool = False

    def __post_init__(self) -> None:
        require(0 <= self.context <= 2**31, "context must be from 0 (the model's own) to 2^31", self.context)
        require(bool(self.name.strip()), "model must be a folder or a hub id", self.name)
        is_named = not self.draft_model or bool(self.draft_model.strip())
        require(is_named, "draft model must be a folder or a hub id", self.draft_model)
        require_one_of(DType, "dtype", self.dtype)
        require_one_of(Device, "device", self.device)
        require_one_of(Quantisation, "quantisation", self.quantisation)
        require_one_of(AttentionChoice, "attention", self.attention)
