"""Serves the page: prepares Gradio's environment, opens a socket, and runs the guarded app on a server thread."""

import os
import secrets
import webbrowser
from collections.abc import MutableMapping
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from app.system.environment import without_network_settings
from app.system.garbage_collection import collecting_later
from app.ui.frame.page_key import Guard, KeyCheck
from app.ui.frame.services import AppContext, Endpoint, Services
from app.ui.frame.uploads import uploads_dir
from app.web.listening import listen
from app.web.server_thread import ServerThread, WebSocketProtocol

OF_GRADIO = ("GRADIO_", "SPACE_", "SPACES_", "OAUTH_")
API_PATHS = ("/v1/", "/api/")
LARGEST_MESSAGE = 2**26
"""Maximum size in bytes of a message from a page; MOST in assets/ui/page_socket.js depends on it."""
PING_SECONDS = 5.0
"""Seconds between two pings to a page. The connection is closed if the browser does not answer in the same time."""


def prepare_environment(environ: MutableMapping[str, str], data_dir: Path) -> None:
    """Set the variables that Gradio reads at import: no telemetry, and uploads in `data_dir`. Removes Gradio's
    other variables, because a GRADIO_SHARE that is meant for another program must not give access to this app."""
    for name in [name for name in environ if name.startswith(OF_GRADIO)]:
        del environ[name]
    environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    environ["GRADIO_TEMP_DIR"] = str(uploads_dir(data_dir))
    environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


class Running:
    """A page that is being served."""

    def __init__(self, server: ServerThread, endpoint: Endpoint, requested_port: int) -> None:
        self._server = server
        self.endpoint = endpoint
        self.port = endpoint.port
        self.url = endpoint.url
        moved = requested_port not in (0, endpoint.port)
        self.note = f"Port {requested_port} is taken, so Foresight is at {self.url}" if moved else ""

    def wait(self) -> None:
        """Wait until the server has ended or the user has pressed Quit."""
        while self._server.is_alive and not self.endpoint.quit_requested.wait(0.5):
            pass

    def close(self) -> None:
        """Stop answering requests. Replies that are being written continue in the engine. Safe to call twice."""
        self._server.close()


def serve(
    services: Services,
    app_context: AppContext,
    port: int,
    open_browser: bool,
    is_native: bool = False,
    has_key: bool = True,
) -> Running:
    """Serve the page and the API on 127.0.0.1, at `port` or the next free port. The API has its own key.

    Raises NoFreePort."""
    listener = listen(port)
    host, port_taken = listener.getsockname()
    endpoint = Endpoint(host, port_taken, is_native, secrets.token_urlsafe(32) if has_key else "")
    with collecting_later(), without_network_settings(os.environ):
        # Gradio takes seconds to import, and other commands never need it.
        from app.ui.layout import build_app

        page = build_app(services, app_context, endpoint)
    guarded = Guard(page, KeyCheck(endpoint.key, endpoint.port, endpoint.one_time_codes))
    server = ServerThread(
        _beside(guarded, app_context.api),
        listener,
        lifespan="on",
        ws=WebSocketProtocol,
        ws_max_size=LARGEST_MESSAGE,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # compressing pays off only over a network
    )
    running = Running(server, endpoint, port)
    if open_browser:
        webbrowser.open(endpoint.one_time_url())
    return running


def _beside(page: ASGIApp, api: ASGIApp) -> ASGIApp:
    """Return an app that passes requests for paths below /v1 and /api to the API, and all others to the page."""

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["type"] == "http" and scope["path"].startswith(API_PATHS)
        await (api if is_api else page)(scope, receive, send)

    return either
