"""The Hugging Face hub, and its cache on this machine that every other program shares.

A download is pinned to one commit: the revision's commit is looked up once, every file is fetched at that commit,
and only when all are here and checked does a snapshot of them appear. So a download that broke off is never taken
for a model, and the next try fetches only the bytes that had not come.
"""

from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import HfApi, constants, get_token, login, logout, try_to_load_from_cache
from huggingface_hub.hf_api import ModelInfo

from app.config_limits import CONFIG
from app.errors import ModelBroken, ModelError, ModelGated
from app.models_registry.files.model_files import is_complete
from app.models_registry.hub.download_plan import DownloadPlan, make_plan
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.http import RetryPolicy, session
from app.models_registry.hub.hub_id import HubId

SECONDS_TO_ANSWER = 10.0


@dataclass(frozen=True, slots=True)
class Hub:
    """Where models are fetched from and kept; without values, what the Hugging Face tools use.

    An offline hub makes no request at all."""

    endpoint: str | None = None
    cache: Path | None = None
    is_offline: bool = False
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)

    @property
    def root(self) -> Path:
        """The cache's folder."""
        return (self.cache or Path(constants.HF_HUB_CACHE)).absolute()

    @property
    def address(self) -> str:
        """The hub's own address."""
        return (self.endpoint or constants.ENDPOINT).rstrip("/")

    def page(self, repo: str) -> str:
        """The address of a model's page."""
        return f"{self.address}/{repo}"

    def require_online(self, what: str) -> None:
        """Raise ModelError when Foresight is offline, or no connection can be opened; `what` is wanted."""
        if self.is_offline:
            raise ModelError(
                f"{what} is not on this machine, and Foresight is set to offline: allow downloads in the settings, "
                "or choose an installed model."
            )
        session()

    def api(self, what: str) -> HfApi:
        """The hub's API. Raises ModelError when Foresight is offline; `what` is wanted."""
        self.require_online(what)
        return HfApi(endpoint=self.endpoint)

    def cached(self, wanted: HubId) -> Path | None:
        """The model's folder, or its GGUF file, when all of it is in the cache already; asks no network."""
        with as_model_errors(wanted.repo, wanted.revision, self.page(wanted.repo)):
            found = try_to_load_from_cache(wanted.repo, wanted.file or CONFIG, self.cache, wanted.ref)
        if not isinstance(found, str):
            return None
        if wanted.file:
            return Path(found)
        folder = Path(found).parent
        return folder if is_complete(folder) else None

    def look_up(self, wanted: HubId) -> ModelInfo:
        """The hub's description of a model and its files."""
        api = self.api(wanted.repo)
        try:
            with as_model_errors(wanted.repo, wanted.revision, self.page(wanted.repo)):
                return api.model_info(
                    wanted.repo, revision=wanted.ref, files_metadata=True, timeout=SECONDS_TO_ANSWER
                )
        except (TypeError, LookupError, AttributeError) as error:  # the client takes the hub at its word
            raise ModelBroken(
                f"Hugging Face describes {wanted.repo} in an invalid way: try again later, or choose another model."
            ) from error

    def plan(self, wanted: HubId) -> DownloadPlan:
        """What a download of this model will fetch. Raises ModelError when there is nothing to fetch."""
        return make_plan(self.look_up(wanted), wanted)


def is_logged_in() -> bool:
    """Whether a token is there; asks no network."""
    return get_token() is not None


def log_in(hub: Hub, token: str) -> str:
    """Check a token with the hub, keep it, and return whose it is. Raises ModelError when the hub refuses it."""
    token = token.strip()
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise ModelGated(f"This is not a token: copy one from {hub.address}/settings/tokens.")
    with as_model_errors("your account", "", hub.address):
        name = str(hub.api("Your account").whoami(token=token).get("name", ""))
        login(token=token, add_to_git_credential=False, skip_if_logged_in=False)
    return name


def log_out() -> None:
    """Forget the token."""
    logout()
