"""`python run.py serve`: the API for other programs, without a page."""

import os
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.api.api_key import ApiKey, KeyFile, checked_key, is_readable_by_others, read_key
from app.commands import options as given
from app.commands.console import errors_as_sentences, print_text
from app.commands.reply_output import wait_for_load
from app.commands.services import chosen_ranks, engine_in, hub_of, make_api_services
from app.database.data_folder import data_dir_or_default
from app.engine import Engine
from app.errors import BadOption, impossible_values
from app.settings import Settings, SettingsFile
from app.values.messages import ModelChoice
from app.web.listening import LOOPBACK, listen
from app.web.origin_check import checked_origins

if TYPE_CHECKING:
    from app.api.application import RunningApi

DEFAULT_PORT = 7861
CLOSING_SECONDS = 0.2
"""Seconds to wait for the engine at the end: a short time, because clients' connections are closed by then."""
LOOPBACKS = (LOOPBACK, "localhost", "::1")
KEY_VARIABLE = "FORESIGHT_API_KEY"


AppModel = Annotated[
    str | None, typer.Option("--model", metavar="ID_OR_PATH", help="[default: the app's model]")
]
Port = Annotated[int, typer.Option(min=1, max=65_535, help="The port; if it is taken, the next free one.")]
Host = Annotated[
    str, typer.Option(help="The address to listen on. If other machines can reach it, a key is needed.")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        metavar="KEY",
        help="The key for clients. Every user of this machine can see it in the list of processes, so "
        f"--api-key-file or the variable {KEY_VARIABLE} is safer. [default: the key in the data folder]",
    ),
]
GivenKeyFile = Annotated[
    Path | None, typer.Option("--api-key-file", metavar="FILE", help="A file with the key and nothing else.")
]
AllowedOrigins = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin",
        metavar="ORIGIN",
        help="A web app or a browser extension that may use the API with the key, such as http://localhost:3000. "
        "Can be repeated.",
    ),
]
WithoutKey = Annotated[
    bool, typer.Option("--no-key", help="Let every program on this machine use the API without a key.")
]


def serve(
    model: AppModel = None,
    draft_model: given.OtherDraftModel = None,
    port: Port = DEFAULT_PORT,
    host: Host = LOOPBACK,
    api_key: Key = None,
    api_key_file: GivenKeyFile = None,
    no_key: WithoutKey = False,
    allow_origin: AllowedOrigins = None,
    dtype: given.OtherDType = None,
    device: given.OtherDevice = None,
    devices: given.DevicesOption = None,
    quantisation: given.OtherQuantisation = None,
    offload: given.OffloadOption = False,
    thinking: given.ThinkingOption = "default",
    thinking_budget: given.ThinkingBudget = 0,
    data_dir: given.DataDir = None,
) -> None:
    """Serve the engine to other programs through OpenAI's, Anthropic's and Ollama's API."""
    with errors_as_sentences():
        plan = chosen_ranks(devices, device or "auto")
        folder = data_dir_or_default(data_dir)
        settings = SettingsFile(folder).load()
        origins = checked_origins(" ".join(allow_origin or ()))
        thoughts = given.read_thinking(thinking, thinking_budget)
        asked = {"dtype": dtype, "device": device, "quantisation": quantisation, "draft_model": draft_model}
        choice = chosen_model(settings, model, asked | {"offload": offload or None})
        key = chosen_key(folder, host, api_key, api_key_file, os.environ.pop(KEY_VARIABLE, None), no_key)
        listener = listen(port, host)
        with engine_in(folder, CLOSING_SECONDS, plan, choice.device) as engine:
            from app.api.access import own_names  # other commands do not import the server's packages
            from app.api.application import RunningApi, build_api
            from app.models_registry.installed_models import installed

            library = settings.library
            hub = hub_of(library)
            services = make_api_services(
                engine, lambda: choice, lambda: installed(hub, library.paths), library.embedder, hub, thoughts
            )
            running = RunningApi(build_api(services, key, own_names(host), lambda: origins), listener)
            engine.load(choice, (loaded := Future[bool]()).set_result)
            _stay(running, key, port, engine, loaded)


def chosen_model(
    settings: Settings, model: str | None, asked: Mapping[str, str | bool | None]
) -> ModelChoice:
    """Return `model`, or the app's own model with its settings, changed by the given options. Raises BadOption."""
    changes: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    with impossible_values():
        return replace(settings.local_model if model is None else ModelChoice(model), **changes)


def chosen_key(
    folder: Path,
    host: str,
    option: str | None = None,
    file: Path | None = None,
    variable: str | None = None,
    has_none: bool = False,
) -> ApiKey:
    """Return the key that clients must send: the given key, the data folder's, or None. Raises BadOption.

    Prints a warning if other users can read the given key file."""
    ways = {"--api-key": option, "--api-key-file": file, KEY_VARIABLE: variable, "--no-key": has_none or None}
    given_ways = [way for way, value in ways.items() if value is not None]
    if len(given_ways) > 1:
        raise BadOption(f"Choose one of {' and '.join(given_ways)}.")
    if has_none:
        if host not in LOOPBACKS:
            raise BadOption(
                f"At {host} other machines can use the API, so a key is needed: leave out --no-key."
            )
        return None
    if option is not None:
        return checked_key(option, "--api-key")
    if variable is not None:
        return checked_key(variable, KEY_VARIABLE)
    if file is None:
        return KeyFile(folder)
    key = read_key(file)
    if is_readable_by_others(file):
        print_text(f"Other users of this machine can read {file}. `chmod 600` prevents this.", err=True)
    return key


def _stay(running: "RunningApi", key: ApiKey, asked_port: int, engine: Engine, loaded: Future[bool]) -> None:
    """Print the API's address, and its key unless the user chose it. After Ctrl+C, closes the API."""
    try:
        if running.port != asked_port:
            print_text(f"Port {asked_port} is taken.")
        print_text(f"The API is at {running.url}")
        match key:
            case KeyFile():
                print_text(f"Its key: {key.read()}")
            case None:
                print_text("It needs no key.")
        print_text("Press Ctrl+C to quit.")
        # The API continues after a failed load, because each request loads the model again or names another model.
        if not wait_for_load(engine.status, loaded) and running.is_alive:
            print_text(f"Error: {engine.status().note}", err=True)
        running.wait()
    except KeyboardInterrupt:
        print_text("Closing.")
    finally:
        running.close()
