"""The person's login on the hub, kept where the hub's own tools keep it. The token is never printed or logged."""

from huggingface_hub import get_token, login, logout

from app.errors import ModelGated
from app.models_registry.hub.errors import in_words
from app.models_registry.hub.hub import Hub


def is_logged_in() -> bool:
    """Whether a token is there; asks no network."""
    return get_token() is not None


def log_in(hub: Hub, token: str) -> str:
    """Check a token with the hub, keep it, and return whose it is. Raises ModelError when the hub refuses it."""
    token = token.strip()
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise ModelGated(f"That is no token: copy one from {hub.address}/settings/tokens, all of it.")
    with in_words("your account", "", hub.address):
        name = str(hub.api("Your account").whoami(token=token).get("name", ""))
        login(token=token, add_to_git_credential=False, skip_if_logged_in=False)
    return name


def log_out() -> None:
    """Forget the token."""
    logout()
