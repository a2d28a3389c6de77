"""GGUF files of a repository before one of them is downloaded: their sizes, and what a model takes by its header.

All files of a model have the same tensors, in blocks of more or fewer bits. They are dequantised when they are
loaded, so one header tells what each of them takes in memory.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from huggingface_hub import hf_hub_url

from app.errors import ModelBroken
from app.models_registry.files.config import ModelConfig, read_config
from app.models_registry.files.gguf import check_kind
from app.models_registry.files.model_files import has_weights
from app.models_registry.files.weights import Weights, read_weights
from app.models_registry.hub.download_plan import gguf_names
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.http import read_part
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.models_registry.hub.repository import Repository, count_of
from app.values.gguf_header import read_gguf_header
from app.values.model import FileProgress

FIRST, MOST = 4_000_000, 64_000_000
"""Bytes of a file's beginning: of the first try, and of the last. A vocabulary takes some millions."""


def gguf_files_of(repository: Repository) -> tuple[FileProgress, ...]:
    """The GGUF files of a repository without other weights, the smallest first; of another one nothing."""
    sizes = {name: count_of(file.size) for name, file in repository.files.items()}
    names = [] if has_weights(sizes) else gguf_names(sizes)
    return tuple(sorted((FileProgress(name, sizes[name]) for name in names), key=lambda file: file.size))


def remote_gguf(hub: Hub, wanted: HubId, commit: str) -> tuple[ModelConfig, Weights]:
    """The sizes and the tensors of a GGUF file on the hub. Raises ModelError."""
    hub.require_online(wanted.repo)
    url = hf_hub_url(wanted.repo, wanted.file, revision=commit, endpoint=hub.endpoint)
    with (
        TemporaryDirectory(prefix="foresight-") as folder,
        as_model_errors(wanted.repo, wanted.revision, hub.page(wanted.repo)),
    ):
        file = Path(folder) / "header.gguf"
        _read_beginning(url, file, wanted.file)
        return read_config(file, wanted.file), read_weights(file, wanted.file)


def _read_beginning(url: str, file: Path, name: str) -> None:
    """Write as much of a GGUF file as its header takes. Raises ModelBroken for what is no text model."""
    content = b""
    while len(content) < MOST:
        wanted = min(max(FIRST, 2 * len(content)), MOST)
        more = read_part(url, len(content), wanted - len(content))
        content += more
        file.write_bytes(content)
        try:
            return check_kind(read_gguf_header(file), name)
        except ValueError as error:
            if len(content) < wanted or len(content) >= MOST:  # the whole file is here, and no header in it
                raise ModelBroken(
                    f"{name} is damaged on Hugging Face: {error}. Choose another one."
                ) from error
    return None
