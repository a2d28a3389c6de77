"""Checks the environment variables that libraries read by themselves, before the libraries see them.

The page needs no network, so wrong settings of proxies and certificates must not keep the app from starting.
Requests use these settings, or fail with an error that names the variables that may be wrong.
"""

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from app.errors import NetworkSettingsUnusable, first_line
from app.values.validation import web_host

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
NUMBERS = ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT", "TORCHDYNAMO_REPRO_LEVEL")
"""Variables that libraries convert to numbers when they are imported. Text that is not a number ends the app."""
HUB = "HF_ENDPOINT"
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_SECRET = re.compile(r"(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE)


def prepare(environ: MutableMapping[str, str]) -> list[str]:
    """Remove unusable variables from `environ` before libraries are imported. Returns a sentence for each.

    Adds this machine's names to NO_PROXY if NO_PROXY or a proxy is set. Sets HF_HUB_OFFLINE in place of an unusable
    HF_ENDPOINT."""
    # If the shell names no proxy, libraries look up the system's own proxies, and a no_proxy would prevent that.
    if any(value and name.upper() in (*PROXIES, "NO_PROXY") for name, value in environ.items()):
        known = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        environ["no_proxy"] = ",".join(filter(None, (known, *LOOPBACK_NAMES)))
        environ["NO_PROXY"] = environ["no_proxy"]
    wrong = [name for name in NUMBERS if not environ.get(name, "1").isdecimal()]
    notes = [f"{name} is {environ.pop(name)!r} and not a whole number, so it is not used." for name in wrong]
    if (endpoint := environ.get(HUB)) is not None and not web_host(endpoint):
        del environ[HUB]
        environ["HF_HUB_OFFLINE"] = "1"  # so that the default hub is not asked in place of the intended hub
        notes.append(f"{HUB} is {endpoint!r} and not an address, so no hub is asked for models.")
    return notes


@contextmanager
def without_network_settings(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Hide proxies and certificates from libraries that the block imports, and restore them after it."""
    hidden = {
        name: value
        for name, value in environ.items()
        if name.upper() in (*PROXIES, "NO_PROXY", *CERTIFICATES)
    }
    for name in hidden:
        del environ[name]
    environ["no_proxy"] = "*"  # hides the system's own proxies, too
    try:
        yield
    finally:
        del environ["no_proxy"]
        environ.update(hidden)


@contextmanager
def network_settings(uses_proxies: bool = True) -> Iterator[None]:
    """Raise NetworkSettingsUnusable if the block cannot prepare a connection, whatever error the library raises."""
    try:
        for kind, proxy in getproxies().items() if uses_proxies else ():
            if kind in ("http", "https", "all"):  # libraries check the port only while they connect
                _ = _parts_of_proxy(proxy).port
        yield
    except Exception as error:
        suspects = CERTIFICATES if isinstance(error, OSError) else PROXIES
        names = [name for name in suspects if name in os.environ or name.lower() in os.environ]
        raise NetworkSettingsUnusable(
            f"No connection can be opened with this shell's settings ({first_line(error).rstrip('.')}). "
            f"Correct or unset {' and '.join(names) or 'NO_PROXY'}, then start Foresight again."
        ) from error


def proxy_for(url: str) -> str:
    """Return the host and port of the proxy for this address; "" if none is used."""
    try:
        asked, proxies = urlsplit(url), getproxies()
        proxy = proxies.get(asked.scheme) or proxies.get("all") or ""
        if not proxy or proxy_bypass(asked.hostname or ""):
            return ""
        return _parts_of_proxy(proxy).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without keys, tokens and passwords, for a child process that needs none."""
    return {name: value for name, value in environ.items() if not _SECRET.search(name)}


def _parts_of_proxy(proxy: str) -> SplitResult:
    """Split the address of a proxy, whose default scheme is http. Raises ValueError."""
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")
