"""The box that adds a remote lane: the models of the servers that are known. Without a server there is none."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.frame.page_stream import Parts
from app.ui.frame.templates import render_macro
from app.values.messages import ModelChoice
from app.values.server import Server, server_name


@dataclass(slots=True)
class RemoteChoice:
    """The value of one page's box: the chosen model as `value_of` writes it; "" for no remote lane."""

    value: str = ""

    def choose(self, form: str) -> None:
        """Take over what the box sends: its form as JSON."""
        self.value = str(json.loads(form).get("remote", ""))

    def among(self, servers: Sequence[Server]) -> tuple[ModelChoice, ...]:
        """The chosen model, if one of these servers has it."""
        return tuple(model for model in remote_models(servers) if value_of(model) == self.value)


class RemoteChoiceRenderer:
    """Renders the box for one page: anew when the servers change, so that it keeps the focus while one chooses."""

    def __init__(self, servers: Callable[[], Sequence[Server]], choice: RemoteChoice) -> None:
        self._servers = servers
        self._choice = choice
        self._shown: Sequence[Server] = ()
        self._parts: Parts = {"race-remote": ""}

    def render(self) -> Parts:
        """The box; the same object while the servers are the same."""
        servers = self._servers()
        if servers != self._shown:
            self._parts = {"race-remote": remote_choice_html(servers, self._choice)}
            self._shown = servers
        return self._parts


def remote_models(servers: Sequence[Server]) -> tuple[ModelChoice, ...]:
    """The models of all servers."""
    return tuple(ModelChoice(name, server=server.address) for server in servers for name in server.models)


def value_of(model: ModelChoice) -> str:
    """A model of a server as the box's form has it."""
    return json.dumps([model.server, model.name])


def remote_choice_html(servers: Sequence[Server], choice: RemoteChoice) -> Markup:
    """A box with the models of these servers; nothing where there are none."""
    options = [
        (value_of(one), f"{one.name} on {server_name(one.server)}", value_of(one) == choice.value)
        for one in remote_models(servers)
    ]
    return render_macro("race.html", "remote_choice", options=options) if options else Markup()
