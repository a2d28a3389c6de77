"""Reads the repository, the revision and the file from what a user enters for a model on the hub.

org/name                                    the newest version
org/name@v1.0                               a branch, a tag or a commit
org/name:file.gguf                          a GGUF file of the newest version
org/name:folder/file.gguf@v1.0              a GGUF file in a folder at a revision
https://huggingface.co/org/name             the model's page
https://huggingface.co/org/name/tree/v1.0   the model's page at a revision
https://huggingface.co/org/name/blob/main/file.gguf   the page of a GGUF file at a revision
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from huggingface_hub import constants

from app.errors import ModelNotFound

NAME = r"[\w-][\w.-]*/[\w-][\w.-]*"
FILE = r"(?:\w[\w.-]{0,100}/)?\w[\w.-]{0,200}\.gguf"
HUB_ID = re.compile(rf"(?P<repo>{NAME})(?::(?P<file>{FILE}))?(?:@(?P<revision>[\w][\w./-]*))?", re.ASCII)
PAGE = re.compile(
    rf"/(?P<repo>{NAME})(?:/(?:tree|blob|resolve|commit)/(?P<revision>[\w.-]+)(?:/(?P<file>{FILE})|/.*)?)?/?",
    re.ASCII,
)
DEFAULT_REVISION = "main"
HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")


@dataclass(frozen=True, slots=True)
class HubId:
    """A repository, the wanted revision ("" means the newest), and a GGUF file ("" means the whole repository).

    `file` may be any file of a split GGUF model. Raises ValueError for what cannot be a hub id."""

    repo: str
    revision: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        if not HUB_ID.fullmatch(str(self)) or ".." in self.revision:
            raise ValueError(f"a hub id is org/name, org/name@revision or org/name:file.gguf; it is “{self}”")

    @property
    def ref(self) -> str:
        """The revision's name in git; the default branch if no revision is wanted."""
        return self.revision or DEFAULT_REVISION

    def __str__(self) -> str:
        file, revision = f":{self.file}" if self.file else "", f"@{self.revision}" if self.revision else ""
        return f"{self.repo}{file}{revision}"


def parse_hub_id(text: str, endpoint: str | None = None) -> HubId | None:
    """Return the hub id in a string, which may be an id or the address of a hub page; None for other strings."""
    text = text.strip()
    found = HUB_ID.fullmatch(text)
    if not found:
        parts = urlsplit(text)
        hosts = (*HOSTS, urlsplit(endpoint or constants.ENDPOINT).netloc)
        if parts.scheme in ("http", "https") and parts.netloc.lower() in hosts:
            found = PAGE.fullmatch(unquote(parts.path))
    if not found or ".." in (found["revision"] or ""):
        return None
    return HubId(found["repo"], found["revision"] or "", found["file"] or "")


def require_hub_id(text: str, endpoint: str | None = None) -> HubId:
    """Return the hub id in a string, as `parse_hub_id` does. Raises ModelNotFound for other strings."""
    wanted = parse_hub_id(text, endpoint)
    if wanted is None:
        raise ModelNotFound(
            f"{text} is not a model id: enter one such as org/name, or the address of its page."
        )
    return wanted
