"""The Hugging Face hub, and its cache on this machine, which other programs share.

A download is pinned to one commit, and its snapshot is made only when all files are complete and checked. So an
interrupted download is never taken for a model, and the next try fetches only the missing bytes.
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote

from huggingface_hub import constants, get_token, hf_hub_url, logout, try_to_load_from_cache

from app.errors import ModelBroken, ModelError, ModelGated, SettingsNotSaved
from app.models_registry.files.checksum import new_hash
from app.models_registry.files.config import check_config, config_values
from app.models_registry.files.model_files import has_tokenizer, is_complete
from app.models_registry.files.recognition import refuse_config
from app.models_registry.hub.download_plan import (
    DownloadPlan,
    RemoteFile,
    Repository,
    make_plan,
    read_repository,
)
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.http import RetryPolicy, read_json, read_part, session
from app.models_registry.hub.hub_id import DEFAULT_REVISION, HubId
from app.system.answer_limits import plain_words
from app.system.files import write_file
from app.values.draft_heads import drafts_only
from app.values.gguf_header import parts_of
from app.values.model import CONFIG

PREFIX = "models--"
"""The beginning of the names of models' folders in the cache."""


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub from which models are fetched, and the cache; by default those of the Hugging Face tools.

    If `is_offline`, no request is sent."""

    endpoint: str | None = None
    cache: Path | None = None
    is_offline: bool = False
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)

    @property
    def root(self) -> Path:
        """The folder of the cache, as an absolute path."""
        return (self.cache or Path(constants.HF_HUB_CACHE)).absolute()

    @property
    def address(self) -> str:
        return (self.endpoint or constants.ENDPOINT).rstrip("/")

    def page(self, repo: str) -> str:
        return f"{self.address}/{repo}"

    def require_online(self, what: str) -> None:
        """Raise ModelError if Foresight cannot open connections, or is set to offline and so cannot get `what`."""
        if self.is_offline:
            raise ModelError(
                f"{what} is not on this machine, and Foresight is set to offline: turn Offline off under Models → "
                "Discover, or choose an installed model."
            )
        session()

    def cached(self, wanted: HubId) -> Path | None:
        """Return the complete folder or GGUF file in the cache, or None. Raises ModelError. Sends no request."""
        with as_model_errors(wanted.repo, wanted.revision, self.page(wanted.repo)):
            found = try_to_load_from_cache(wanted.repo, wanted.file or CONFIG, self.cache, wanted.ref)
        if not isinstance(found, str):
            return None
        if wanted.file:
            return Path(found) if all(part.exists() for part in parts_of(Path(found))) else None
        folder = Path(found).parent
        return folder if is_complete(folder) else None

    def look_up(self, wanted: HubId) -> Repository:
        """Ask the hub for a repository and its files. Raises ModelError."""
        self.require_online(wanted.repo)
        url = f"{self.address}/api/models/{wanted.repo}/revision/{quote(wanted.ref, safe='')}?blobs=true"
        with as_model_errors(wanted.repo, wanted.revision, self.page(wanted.repo)):
            return read_repository(read_json(url), wanted.repo)

    def plan(self, wanted: HubId) -> DownloadPlan:
        """Ask the hub for this model, and plan its download.

        Raises ModelError, also if the model's config shows that Foresight would refuse to load the model."""
        plan = self.plan_of(self.look_up(wanted), wanted)
        if not wanted.file:
            self.read_config(plan)
        return plan

    def plan_of(self, repository: Repository, wanted: HubId) -> DownloadPlan:
        """Plan the download of a repository that was looked up already. Raises ModelError."""
        return make_plan(repository, wanted, partial(self._read, wanted, repository.commit))

    def read_config(self, plan: DownloadPlan) -> bytes:
        """Return the config.json of a model.

        Raises ModelError if the config or the names of the files show that loading would refuse the model."""
        wanted = HubId(plan.repo, "" if plan.revision == DEFAULT_REVISION else plan.revision)
        (file,) = [file for file in plan.files if file.name == CONFIG]
        config = self._read(wanted, plan.commit, file)
        values, files = config_values(config, plan.repo), {one.name for one in plan.files}
        refuse_config(values, plan.repo, files)
        check_config(config, plan.repo)
        if not has_tokenizer(files) and not drafts_only(values):
            raise ModelBroken(f"{plan.repo} has no tokenizer that can be read: choose another model.")
        return config

    def _read(self, wanted: HubId, commit: str, file: RemoteFile) -> bytes:
        """Return a small file of a repository, from the cache or the hub.

        Raises ModelError, also for a wrong checksum."""
        blob = self.root / (PREFIX + wanted.repo.replace("/", "--")) / "blobs" / file.digest
        if blob.is_file() and blob.stat().st_size == file.size:
            content = blob.read_bytes()
            if _has_digest(content, file):
                return content
        self.require_online(wanted.repo)
        url = hf_hub_url(wanted.repo, file.name, revision=commit, endpoint=self.endpoint)
        with as_model_errors(wanted.repo, wanted.revision, self.page(wanted.repo)):
            content = read_part(url, 0, file.size)
        if not _has_digest(content, file):
            raise ModelBroken(
                f"The {file.name} of {wanted.repo} arrived damaged (its checksum is wrong): try again later, or "
                "from another network."
            )
        return content

    def is_logged_in(self) -> bool:
        """Return whether there is a token, saved or in HF_TOKEN. Sends no request."""
        return get_token() is not None

    def log_in(self, token: str) -> str:
        """Check a token with the hub and save it. Returns the account's name.

        Raises ModelError, SettingsNotSaved."""
        token = token.strip()
        if not token or not token.isascii() or any(character.isspace() for character in token):
            raise ModelGated(f"This is not a token: copy one from {self.address}/settings/tokens.")
        if self.is_offline:
            raise ModelError(
                "Foresight is set to offline: turn Offline off under Models → Discover to log in."
            )
        session()  # so that unusable network settings are reported as such
        with as_model_errors("your account", "", self.address):
            answer = read_json(f"{self.address}/api/whoami-v2", token)
        name = answer.get("name") if isinstance(answer, dict) else None
        if not isinstance(name, str):
            raise ModelError(f"{self.address} does not report whose token this is: try again later.")
        path = Path(constants.HF_TOKEN_PATH)
        try:
            write_file(path, token)  # the client's own `login` would ask the hub again, without a time limit
        except OSError as error:
            raise SettingsNotSaved(
                f"The token could not be saved in {path.parent} ({error.strerror}): free some disk space, or "
                "check the folder's permissions."
            ) from error
        return plain_words(name, 100)

    def log_out(self) -> None:
        """Delete the saved access tokens from this machine. Raises ModelError if there is still a token."""
        if get_token() is None and not Path(constants.HF_STORED_TOKENS_PATH).exists():
            return  # `logout` would log a warning
        try:
            logout()
        except OSError as error:
            if error.filename:
                raise ModelError(
                    f"{error.filename} cannot be deleted ({error.strerror}): delete it yourself."
                ) from error
            raise ModelError(
                "The saved tokens are deleted, but an environment variable has a token: unset HF_TOKEN and "
                "HUGGING_FACE_HUB_TOKEN, and start Foresight again."
            ) from error


def _has_digest(content: bytes, file: RemoteFile) -> bool:
    known = new_hash(file.digest, file.size)
    known.update(memoryview(content))
    return known.hexdigest() == file.digest
