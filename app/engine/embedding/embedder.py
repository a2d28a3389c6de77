"""Runs sentence-embedding models, which give texts with similar meanings vectors of similar directions.

A model is a folder in the format of sentence-transformers. A text that is longer than a window is read in several
windows, whose vectors are averaged with their numbers of tokens as weights."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Embedding
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from app.engine.embedding.job import EmbeddedText, OnTokens, ignore_tokens
from app.engine.loading.weights import HERE
from app.engine.machine.device_faults import refused_because
from app.engine.machine.hardware import choose_device
from app.engine.machine.process_memory import is_out_of_memory
from app.engine.text.sandbox import Sandbox, panics_as_errors
from app.errors import AppError, BadOption, ModelBroken, first_line
from app.values.messages import Device, ModelFolder

log = logging.getLogger(__name__)

_TRIAL = "A first text."

Pool = Callable[[Tensor, Tensor], Tensor]
"""(rows [n, tokens, width], mask [n, tokens, 1]: 1 for tokens, 0 for padding) -> vectors [n, width]."""

KNOWN = frozenset({"Transformer", "Pooling", "Normalize"})
"""The supported modules of sentence-transformers."""
UNLIMITED = 8192
"""Maximum number of tokens in a window if the folder sets no limit."""
AT_ONCE = 16
"""Maximum number of windows in a batch."""


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """A loaded encoder; `most_tokens` is the maximum size of a window, with special tokens."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    pool: Pool
    most_tokens: int

    def embed(self, texts: Sequence[EmbeddedText], on_tokens: OnTokens = ignore_tokens) -> np.ndarray:
        """Embed texts as float32[len(texts), width], each vector of length one.

        Calls `on_tokens` with the number of tokens after reading them. Raises BadOption for ids outside the
        vocabulary, and ModelBroken if a text has tokens without weights."""
        width = int(self.model.config.hidden_size)
        if not texts:
            return np.zeros((0, width), np.float32)
        windows = self.tokenizer(
            [self._text(one) for one in texts],
            truncation=True,
            max_length=self.most_tokens,
            return_overflowing_tokens=True,
        )
        ids: list[list[int]] = windows["input_ids"]
        self._check_weights(max(max(one, default=0) for one in ids))
        owners = torch.tensor(windows["overflow_to_sample_mapping"])
        sizes = torch.tensor([float(len(one)) for one in ids])
        rows = torch.zeros(len(ids), width)
        order = sorted(range(len(ids)), key=lambda one: len(ids[one]))  # so that batches need little padding
        for start in range(0, len(order), AT_ONCE):
            batch = order[start : start + AT_ONCE]
            given = self.tokenizer.pad({"input_ids": [ids[one] for one in batch]}, return_tensors="pt")
            given = given.to(self.model.device)
            with torch.inference_mode():
                states = self.model(**given).last_hidden_state
            pooled = self.pool(states.float(), given["attention_mask"][:, :, None].to(torch.float32))
            rows[batch] = normalize(pooled, dim=1).cpu()
        on_tokens(sum(map(len, ids)))
        whole = torch.zeros(len(texts), width).index_add_(0, owners, rows * sizes[:, None])
        return np.asarray(normalize(whole, dim=1).numpy(), np.float32)

    def _text(self, text: EmbeddedText) -> str:
        if isinstance(text, str):
            return text
        if max(text, default=0) >= len(self.tokenizer):
            raise BadOption(
                f"The embedding model has {len(self.tokenizer):,} tokens, and {max(text):,} is not one of them: "
                "send the text itself (in LangChain: check_embedding_ctx_length=False)."
            )
        return str(self.tokenizer.decode(list(text), skip_special_tokens=True))

    def _check_weights(self, token: int) -> None:
        """Raise ModelBroken for a token without weights. On a GPU this token would cause a device error, after
        which chats fail, too."""
        embedding: Any = self.model.get_input_embeddings()
        if token >= (known := len(embedding.weight)):
            raise ModelBroken(
                "The tokenizer and the weights of the embedding model do not fit each other "
                f"(token {token:,} of {known:,}): choose another one."
            )


class SentenceModels:
    """Keeps the sentence-embedding model that was used last; loads a model when it is needed."""

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        load: Callable[[ModelFolder, Device], SentenceModel] | None = None,
    ) -> None:
        """Begin without a model. With a sandbox, `embed` checks a model's tokenizer in it before loading the model;
        without a sandbox, models are trusted."""
        self._sandbox = sandbox
        self._load = load or load_sentence_model
        self._key: tuple[ModelFolder, Device] | None = None
        self._model: SentenceModel | None = None

    def embed(
        self,
        folder: ModelFolder,
        texts: Sequence[EmbeddedText],
        on_tokens: OnTokens = ignore_tokens,
        device: Device = "auto",
    ) -> np.ndarray:
        """Embed texts with this model; load it on this device if necessary. Raises ModelError or BadOption."""
        key = folder, device
        if self._model is None or key != self._key:
            self.close()
            if self._sandbox:
                self._sandbox.check_tokenizer(folder)
            self._model, self._key = self._load(folder, device), key
        return embed_anywhere(self._model, texts, on_tokens)

    def leave_gpu(self) -> bool:
        """Unload the model if it is on a GPU; return whether it was unloaded."""
        takes_memory = self._model is not None and self._model.model.device.type != "cpu"
        if takes_memory:
            self.close()
        return takes_memory

    def close(self) -> None:
        self._model = self._key = None


def embed_anywhere(
    model: SentenceModel, texts: Sequence[EmbeddedText], on_tokens: OnTokens = ignore_tokens
) -> np.ndarray:
    """Embed texts; if the device runs out of memory, move the model to the CPU and embed the texts there."""
    try:
        return model.embed(texts, on_tokens)
    except Exception as error:
        if model.model.device.type == "cpu" or not is_out_of_memory(error):
            raise
        log.info("texts are embedded on the CPU: %s", refused_because(error))
    model.model.train(False).to("cpu")
    return model.embed(texts, on_tokens)


def load_sentence_model(folder: ModelFolder, device: Device = "auto") -> SentenceModel:
    """Load a sentence-embedding model to a device, or to the CPU if a trial on the device fails.

    Raises ModelError if the model's files are broken or not supported, and the device's error if memory is full."""
    try:
        with panics_as_errors():
            pool = _pool_of(folder)
            limit = _read(folder.path / "sentence_bert_config.json", default={}).get("max_seq_length")
            tokenizer = AutoTokenizer.from_pretrained(folder.path, **HERE)
            model = AutoModel.from_pretrained(folder.path, dtype=torch.float32, use_safetensors=True, **HERE)
    except AppError:
        raise
    except Exception as error:  # libraries that read untrusted files raise errors of all types
        if is_out_of_memory(error):
            raise
        raise ModelBroken(
            f"The embedding model {folder.name} could not be loaded ({first_line(error)}): "
            "choose another one."
        ) from error
    model.requires_grad_(False)
    most_tokens = int(min(limit or UNLIMITED, _positions(model), tokenizer.model_max_length))
    encoder = SentenceModel(model.train(False), tokenizer, pool, most_tokens)
    return on_device(encoder, choose_device(device).device)


def on_device(encoder: SentenceModel, device: torch.device) -> SentenceModel:
    """Move the model to a device, or back to the CPU if a trial on the device fails."""
    if device.type == "cpu":
        return encoder
    try:
        encoder.model.train(False).to(device)
        if np.isfinite(encoder.embed([_TRIAL])).all():
            return encoder
        reason = "a vector was not finite"
    except Exception as error:  # drivers and libraries raise errors of their own types
        reason = refused_because(error)
    log.info("texts are embedded on the CPU: %s", reason)
    encoder.model.train(False).to("cpu")
    return encoder


POOLS: dict[str, Pool] = {
    "mean": lambda rows, mask: (rows * mask).sum(1) / mask.sum(1),
    "cls": lambda rows, _mask: rows[:, 0],
    "max": lambda rows, mask: rows.masked_fill(mask == 0, float("-inf")).amax(1),
}
FLAGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
"""Flag in 1_Pooling/config.json -> the pooling's name. Older folders have flags instead of the name."""


def _pool_of(folder: ModelFolder) -> Pool:
    modules = _read(folder.path / "modules.json", default=[])
    unknown = {str(one["type"]).rpartition(".")[2] for one in modules} - KNOWN
    if unknown:
        raise ModelBroken(
            f"The embedding model {folder.name} has layers that Foresight does not know "
            f"({', '.join(sorted(unknown))}): choose another one."
        )
    config = _read(folder.path / "1_Pooling" / "config.json", default={"pooling_mode": "mean"})
    named = config.get("pooling_mode")
    if named is None:
        flagged = (flag for flag, is_on in config.items() if flag.startswith("pooling_mode_") and is_on)
        named = [FLAGS.get(flag, flag) for flag in flagged]
    poolings = [named] if isinstance(named, str) else list(named)
    if len(poolings) != 1 or poolings[0] not in POOLS:
        raise ModelBroken(
            f"The embedding model {folder.name} uses a pooling that Foresight does not know "
            f"({', '.join(poolings) or 'none'}): choose another one."
        )
    return POOLS[poolings[0]]


def _positions(model: PreTrainedModel) -> int:
    """Return the number of positions that texts can use; in RoBERTa and similar models, only those after the
    padding's index."""
    for name, module in model.named_modules():
        is_table = name.endswith("position_embeddings") and isinstance(module, Embedding)
        if is_table and module.padding_idx is not None:
            return int(module.num_embeddings - module.padding_idx - 1)
    return getattr(model.config, "max_position_embeddings", None) or UNLIMITED


def _read(path: Path, default: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else default
