"""The Hugging Face hub and its cache on this machine, shared with every other program that uses it.

A download is pinned to one commit: the revision's commit is looked up once, every file is fetched at that
commit, and only when all are here is the revision's name written into the cache. So a download that broke off
is never taken for a model, and the next try fetches only the files that were not complete.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
from huggingface_hub.hf_api import ModelInfo

from app.messages import Progress
from app.models_registry.byte_bar import counting_bar
from app.models_registry.checking import is_complete
from app.models_registry.files import CONFIG, needed, require_model
from app.models_registry.hub_errors import in_words

DEFAULT_REVISION = "main"
SECONDS_TO_ANSWER = 10.0


@dataclass(frozen=True, slots=True)
class Hub:
    """Where models are fetched from and kept; without values, what the Hugging Face tools use."""

    endpoint: str | None = None
    cache: Path | None = None

    def cached(self, repo: str, revision: str) -> Path | None:
        """The model's folder when all of it is in the cache already; asks no network."""
        with in_words(repo, revision):
            config = try_to_load_from_cache(repo, CONFIG, self.cache, revision or DEFAULT_REVISION)
        if not isinstance(config, str):
            return None
        folder = Path(config).parent
        return folder if is_complete(folder) else None

    def download(self, repo: str, revision: str, progress: Progress) -> Path:
        """Fetch what is missing of the model and return its folder."""
        revision = revision or DEFAULT_REVISION
        progress(f"Asking the hub for {repo}", 0, 0)
        with in_words(repo, revision):
            model = self._look_up(repo, revision)
            folder = self._fetch_all(repo, str(model.sha), _sizes(model, repo), progress)
            self._fetch(repo, CONFIG, revision)
        return folder

    def _look_up(self, repo: str, revision: str) -> ModelInfo:
        api = HfApi(endpoint=self.endpoint)
        return api.model_info(repo, revision=revision, files_metadata=True, timeout=SECONDS_TO_ANSWER)

    def _fetch_all(self, repo: str, commit: str, sizes: dict[str, int], progress: Progress) -> Path:
        report = partial(progress, f"Downloading {repo}")
        total, done = sum(sizes.values()), 0
        folder = self._fetch(repo, CONFIG, commit).parent
        for file, size in sizes.items():
            self._fetch(repo, file, commit, counting_bar(_adding(done, total, report)))
            done += size
            report(done, total)
        return folder

    def _fetch(self, repo: str, file: str, revision: str, bar: type | None = None) -> Path:
        bar = bar or counting_bar(lambda _: None)
        return Path(
            hf_hub_download(
                repo, file, revision=revision, cache_dir=self.cache, endpoint=self.endpoint, tqdm_class=bar
            )
        )


def _sizes(model: ModelInfo, repo: str) -> dict[str, int]:
    """The files to fetch and their bytes. Raises a ModelError when they make no model."""
    sizes = {file.rfilename: file.size or 0 for file in model.siblings or []}
    require_model(sizes, repo)
    return {name: sizes[name] for name in needed(sizes)}


def _adding(before: int, total: int, report: Callable[[int, int], None]) -> Callable[[int], None]:
    return lambda count: report(before + count, total)
