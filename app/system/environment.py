"""What libraries read of the shell's environment by themselves, and what the app lets them.

Proxies are for other machines: this one is asked directly, and the page needs no network at all, so what the shell
says of proxies and certificates cannot keep it from starting. The hub and servers follow it, or tell what is wrong.
"""

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from app.errors import NetworkSettingsUnusable, first_line

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
NUMBERS = ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT", "TORCHDYNAMO_REPRO_LEVEL")
"""Variables that a library converts to a number while it is imported, which would end the app."""
HUB = "HF_ENDPOINT"
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_SECRET = re.compile(r"(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE)


def prepare(environ: MutableMapping[str, str]) -> list[str]:
    """Changes what would lead libraries astray, before they are imported. Returns a sentence for each."""
    # Where the shell names no proxy, the system's own are looked up, and a no_proxy would prevent that.
    if any(value and name.upper() in (*PROXIES, "NO_PROXY") for name, value in environ.items()):
        known = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        environ["no_proxy"] = ",".join(filter(None, (known, *LOOPBACK_NAMES)))
        environ["NO_PROXY"] = environ["no_proxy"]
    wrong = [name for name in NUMBERS if not environ.get(name, "1").isdecimal()]
    notes = [f"{name} is {environ.pop(name)!r} and not a whole number, so it is not used." for name in wrong]
    if (endpoint := environ.get(HUB)) is not None and not _is_address(endpoint):
        del environ[HUB]
        environ["HF_HUB_OFFLINE"] = "1"  # another hub than the one that was meant is not asked instead
        notes.append(f"{HUB} is {endpoint!r} and not an address, so no hub is asked for models.")
    return notes


@contextmanager
def without_network_settings(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Hides proxies and certificates from libraries that read them while they are imported."""
    hidden = {name: value for name, value in environ.items() if _is_network_setting(name)}
    for name in hidden:
        del environ[name]
    environ["no_proxy"] = "*"  # those that the system itself has
    try:
        yield
    finally:
        del environ["no_proxy"]
        environ.update(hidden)


@contextmanager
def network_settings(uses_proxies: bool = True) -> Iterator[None]:
    """Raises NetworkSettingsUnusable where no connection can be prepared, whatever the library raises."""
    try:
        if uses_proxies:
            _check_ports()
        yield
    except Exception as error:
        suspects = CERTIFICATES if isinstance(error, OSError) else PROXIES
        names = [name for name in suspects if name in os.environ or name.lower() in os.environ]
        raise NetworkSettingsUnusable(
            f"No connection can be opened with this shell's settings ({first_line(error).rstrip('.')}). "
            f"Correct or unset {' and '.join(names) or 'NO_PROXY'}, then start Foresight again."
        ) from error


def _check_ports() -> None:
    """Raises ValueError for a proxy's port that cannot be, which libraries find out only while they connect."""
    for kind, proxy in getproxies().items():
        if kind in ("http", "https", "all"):
            _ = _parts_of_proxy(proxy).port


def proxy_for(url: str) -> str:
    """Return the host and port of the proxy through which this address is asked; "" for none."""
    try:
        asked, proxies = urlsplit(url), getproxies()
        proxy = proxies.get(asked.scheme) or proxies.get("all") or ""
        if not proxy or proxy_bypass(asked.hostname or ""):
            return ""
        return _parts_of_proxy(proxy).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child process, which needs no key, token or password."""
    return {name: value for name, value in environ.items() if not _SECRET.search(name)}


def _parts_of_proxy(proxy: str) -> SplitResult:
    """Splits a proxy's address, whose scheme may be left out. Raises ValueError."""
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_network_setting(name: str) -> bool:
    return name.upper() in (*PROXIES, "NO_PROXY", *CERTIFICATES)
