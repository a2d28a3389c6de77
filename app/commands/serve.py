"""`python run.py serve`: the API for other programs, without a page."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.api.key import ApiKey, FixedKey, KeyFile, NoKey, checked_key, is_readable_by_others, read_key
from app.commands import options as given
from app.commands.console import errors_as_sentences, print_text
from app.commands.ranks import chosen_ranks
from app.commands.services import engine_in, hub_of
from app.database.data_folder import data_dir_or_default
from app.engine import Engine
from app.errors import BadOption, impossible_values
from app.settings import ModelSettings, Settings, SettingsFile
from app.values.messages import ModelChoice
from app.web.listening import LOOPBACK, listen

if TYPE_CHECKING:
    from app.api.serving import RunningApi

DEFAULT_PORT = 7861
CLOSING_SECONDS = 0.2
"""The engine may still be importing torch. Nothing is lost: replies are their clients'."""
LOOPBACKS = (LOOPBACK, "localhost", "::1")
KEY_VARIABLE = "FORESIGHT_API_KEY"


AppModel = Annotated[
    str | None, typer.Option("--model", metavar="ID_OR_PATH", help="[default: the app's model]")
]
Port = Annotated[int, typer.Option(min=1, max=65_535, help="The port; if it is taken, the next free one.")]
Host = Annotated[str, typer.Option(help="The address to listen at. Others than this machine's need a key.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        metavar="KEY",
        help="Every user of this machine sees it in the list of processes: rather use --api-key-file, or the "
        f"variable {KEY_VARIABLE}. [default: the key in the data folder]",
    ),
]
GivenKeyFile = Annotated[
    Path | None, typer.Option("--api-key-file", metavar="FILE", help="A file with the key and nothing else.")
]
WithoutKey = Annotated[bool, typer.Option("--no-key", help="Let every program on this machine ask.")]


def serve(
    model: AppModel = None,
    draft_model: given.OtherDraftModel = None,
    port: Port = DEFAULT_PORT,
    host: Host = LOOPBACK,
    api_key: Key = None,
    api_key_file: GivenKeyFile = None,
    no_key: WithoutKey = False,
    dtype: given.OtherDType = None,
    device: given.OtherDevice = None,
    devices: given.DevicesOption = None,
    quantisation: given.OtherQuantisation = None,
    offload: given.OffloadOption = False,
    data_dir: given.DataDir = None,
) -> None:
    """Serve the engine to other programs, with OpenAI's API."""
    with errors_as_sentences():
        plan = chosen_ranks(devices, device or "auto")
        folder = data_dir_or_default(data_dir)
        settings = SettingsFile(folder).load()
        asked = {"dtype": dtype, "device": device, "quantisation": quantisation, "draft_model": draft_model}
        choice = chosen_model(settings, model, asked | {"offload": offload or None})
        given_keys = GivenKeys(api_key, api_key_file, os.environ.pop(KEY_VARIABLE, None), no_key)
        key = chosen_key(folder, given_keys, host)
        listener = listen(port, host)
        with engine_in(folder, CLOSING_SECONDS, plan, choice.device) as engine:
            running = _running(engine, choice, settings.library, key, host, listener)
            engine.load(choice, partial(_tell_failure, engine, running))
            _stay(running, key, port)


def chosen_model(
    settings: Settings, model: str | None, asked: Mapping[str, str | bool | None]
) -> ModelChoice:
    """The app's model as the app loads it, or `model`, with the options that were given. Raises BadOption."""
    changes: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    with impossible_values():
        return replace(settings.local_model if model is None else ModelChoice(model), **changes)


def _running(
    engine: Engine, choice: ModelChoice, library: ModelSettings, key: ApiKey, host: str, listener: socket
) -> "RunningApi":
    """The API with this model, listening."""
    from app.api.application import build_api  # the other commands do without the server's packages
    from app.api.gate import own_names
    from app.api.served_models import InstalledModels, served_model
    from app.api.services import ApiServices
    from app.api.serving import RunningApi
    from app.models_registry import folder_here, installed, template_here

    hub, current = hub_of(library), served_model(choice)
    services = ApiServices(
        engine,
        lambda: current,
        InstalledModels(lambda: installed(hub, library.paths)),
        lambda: folder_here(library.embedder, hub),
        lambda asked: template_here(asked.name, hub),
    )
    return RunningApi(build_api(services, key, own_names(host)), listener)


@dataclass(frozen=True, slots=True)
class GivenKeys:
    """Where a key was given: as an option, in a file, by the environment; None where it was not."""

    option: str | None = None
    file: Path | None = None
    variable: str | None = None
    has_none: bool = False

    def __post_init__(self) -> None:
        ways = {"--api-key": self.option, "--api-key-file": self.file, KEY_VARIABLE: self.variable}
        given_ways = [way for way, value in ways.items() if value is not None]
        given_ways += ["--no-key"] if self.has_none else []
        if len(given_ways) > 1:
            raise BadOption(f"Choose one of {' and '.join(given_ways)}.")

    def key(self) -> str | None:
        """The key that was given, or None. Raises BadOption."""
        if self.option is not None:
            return checked_key(self.option, "--api-key")
        if self.variable is not None:
            return checked_key(self.variable, KEY_VARIABLE)
        return None if self.file is None else read_key(self.file)


def chosen_key(folder: Path, keys: GivenKeys, host: str) -> ApiKey:
    """Which key clients send. Raises BadOption."""
    if keys.has_none and host not in LOOPBACKS:
        raise BadOption(f"At {host} other machines can ask, so a key is needed: leave out --no-key.")
    if keys.has_none:
        return NoKey()
    key = keys.key()
    if keys.file and is_readable_by_others(keys.file):
        print_text(f"Other users of this machine can read the key in {keys.file}: chmod 600 it.", err=True)
    return KeyFile(folder) if key is None else FixedKey(key)


def _announce(running: "RunningApi", key: ApiKey, asked_port: int) -> None:
    if running.port != asked_port:
        print_text(f"Port {asked_port} is taken.")
    print_text(f"The API is at {running.url}")
    match key:
        case KeyFile():
            print_text(f"Its key: {key.read()}")
        case NoKey():
            print_text("It needs no key.")
    print_text("Press Ctrl+C to quit.")


def _tell_failure(engine: Engine, running: "RunningApi", is_loaded: bool) -> None:
    """Say why the model was not loaded. The API goes on: each request tries again, or names another model."""
    if not is_loaded and running.is_serving:
        print_text(f"Error: {engine.status().note}", err=True)


def _stay(running: "RunningApi", key: ApiKey, asked_port: int) -> None:
    try:
        _announce(running, key, asked_port)
        running.wait()
    except KeyboardInterrupt:
        print_text("Closing.")
    finally:
        running.close()
