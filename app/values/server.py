"""Values about model servers on other machines or in other programs of this machine: addresses, keys, models."""

from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from app.errors import BadOption
from app.values.messages import ModelChoice, ModelInfo
from app.values.validation import require

LOCAL_NAMES = (".local", ".localhost", ".lan", ".internal", ".home.arpa")
NOT_LOCAL = (
    "This model runs on {host}. Lookahead, the X-ray and the same-text setting do not apply to it. It gets only "
    "these sampling settings: temperature, top-p, seed, max tokens and stop strings."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many seconds a server may take to connect, to list its models, and between two pieces of a reply."""

    connect: float = 10.0
    listing: float = 20.0
    silence: float = 600.0


@dataclass(frozen=True, slots=True)
class Server:
    """An OpenAI-compatible server, with the models that it listed last."""

    address: str
    key: str = field(default="", repr=False)
    models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.hostname), "a server's address must have a host", self.address)
        require(self.key.isascii() and self.key.isprintable(), "a key must be ASCII", "(not shown)")

    @property
    def host(self) -> str:
        """The host with its port, which is shown as the server's name."""
        return server_name(self.address)

    @property
    def hostname(self) -> str:
        return urlsplit(self.address).hostname or ""

    @property
    def is_here(self) -> bool:
        """Whether the server runs on this machine, so that nothing is sent to another machine."""
        name = self.hostname
        address = _ip_address(name)
        return address.is_loopback if address else name == "localhost" or name.endswith(".localhost")

    @property
    def warning(self) -> str:
        """A warning that the connection is not encrypted; "" if it is encrypted, or stays in a private network."""
        if self.address.startswith("https:") or self.is_here or _is_private(self.hostname):
            return ""
        return (
            f"The connection to {self.host} is not encrypted: others on the network can read your chats and the "
            "key. Use https:// if the server has it."
        )


def server_name(address: str) -> str:
    """Return the host with its port, without a user name and a password before it."""
    return urlsplit(address).netloc.rpartition("@")[2]


def read_address(text: str) -> str:
    """Return the address of a server's API from the text that the user typed.

    A missing scheme (https, or http in a private network) and a missing path (/v1) are added; the path of an
    endpoint, such as /chat/completions, is removed. Raises BadOption."""
    typed = text.strip()
    address = typed if "://" in typed else f"http://{typed}"
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        raise BadOption(
            f"{address} is not an address ({error}). Enter one like http://192.168.1.20:8000/v1."
        ) from error
    name = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not name or any(sign.isspace() for sign in typed):
        raise BadOption("Enter the address of a server, such as http://192.168.1.20:8000/v1.")
    if "@" in parts.netloc:
        raise BadOption(
            "The address has a name or a password in it. Leave them out, and use the box for the key."
        )
    is_near = name == "localhost" or _is_private(name)
    scheme = parts.scheme if "://" in typed or is_near else "https"
    path = parts.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/models")
    return f"{scheme}://{parts.netloc.lower()}{path or '/v1'}"


def remote_info(choice: ModelChoice) -> ModelInfo:
    """Describe a model on a server, of which little more than the name is known."""
    host = server_name(choice.server)
    return ModelInfo(
        name=choice.name,
        label="remote",
        revision="",
        architecture="",
        parameters=0,
        context=0,
        dtype="",
        device=host,
        server=choice.server,
        notes={"lookahead": NOT_LOCAL.format(host=host)},
    )


def _is_private(name: str) -> bool:
    """Return whether the name is local: without a dot, with a local suffix, or a private address."""
    address = _ip_address(name)
    return not address.is_global if address else "." not in name or name.endswith(LOCAL_NAMES)


def _ip_address(name: str) -> IPv4Address | IPv6Address | None:
    with suppress(ValueError):
        return ip_address(name)
    return None
