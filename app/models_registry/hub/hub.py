"""The Hugging Face hub, and its cache on this machine that every other program shares.

A download is pinned to one commit: the revision's commit is looked up once, every file is fetched at that commit,
and only when all are here and checked does a snapshot of them appear. So a download that broke off is never taken
for a model, and the next try fetches only the bytes that had not come.
"""

from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.hf_api import ModelInfo

from app.errors import ModelBroken, ModelError
from app.models_registry.files.checking import is_complete
from app.models_registry.files.needed import CONFIG
from app.models_registry.hub.errors import in_words
from app.models_registry.hub.ids import HubId
from app.models_registry.hub.plan import Plan, make_plan
from app.models_registry.hub.retrying import Patience

SECONDS_TO_ANSWER = 10.0


@dataclass(frozen=True, slots=True)
class Hub:
    """Where models are fetched from and kept; without values, what the Hugging Face tools use.

    An offline hub makes no request at all."""

    endpoint: str | None = None
    cache: Path | None = None
    is_offline: bool = False
    patience: Patience = field(default_factory=Patience)

    @property
    def root(self) -> Path:
        """The cache's folder."""
        return self.cache or Path(constants.HF_HUB_CACHE)

    @property
    def address(self) -> str:
        """The hub's own address."""
        return (self.endpoint or constants.ENDPOINT).rstrip("/")

    def page(self, repo: str) -> str:
        """The address of a model's page."""
        return f"{self.address}/{repo}"

    def require_online(self, what: str) -> None:
        """Raise ModelError when the hub must not be asked about `what`."""
        if self.is_offline:
            raise ModelError(
                f"{what} is not on this machine, and Foresight is set to offline: allow it to use the hub in its "
                "settings, or choose a model that is here."
            )

    def api(self, what: str) -> HfApi:
        """The hub's API, to ask about `what`. Raises ModelError when the hub is switched off."""
        self.require_online(what)
        return HfApi(endpoint=self.endpoint)

    def cached(self, wanted: HubId) -> Path | None:
        """The model's folder when all of it is in the cache already; asks no network."""
        with in_words(wanted.repo, wanted.revision, self.page(wanted.repo)):
            config = try_to_load_from_cache(wanted.repo, CONFIG, self.cache, wanted.ref)
        if not isinstance(config, str):
            return None
        folder = Path(config).parent
        return folder if is_complete(folder) else None

    def look_up(self, wanted: HubId) -> ModelInfo:
        """What the hub says of a model and its files."""
        api = self.api(wanted.repo)
        try:
            with in_words(wanted.repo, wanted.revision, self.page(wanted.repo)):
                return api.model_info(
                    wanted.repo, revision=wanted.ref, files_metadata=True, timeout=SECONDS_TO_ANSWER
                )
        except (TypeError, LookupError, AttributeError) as error:  # the client takes the hub at its word
            raise ModelBroken(
                f"What the hub says of {wanted.repo} makes no sense: try again later, or choose another model."
            ) from error

    def plan(self, wanted: HubId) -> Plan:
        """What a download of this model will fetch. Raises ModelError when there is nothing to fetch."""
        return make_plan(self.look_up(wanted), wanted)
