"""`python run.py serve`: the API for other programs, without a page."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.api.key import ApiKey, FixedKey, KeyFile, NoKey
from app.commands import options as given
from app.commands.console import errors_as_sentences, print_text
from app.commands.ranks import chosen_ranks
from app.commands.services import engine_in, hub_of
from app.errors import BadOption, impossible_values
from app.messages import Device, ModelChoice
from app.settings import SettingsFile, data_dir_or_default
from app.web.listening import LOOPBACK, listen

if TYPE_CHECKING:
    from app.api.serving import RunningApi

DEFAULT_PORT = 7861
CLOSING_SECONDS = 0.2
"""The engine may still be importing torch. Nothing is lost: replies are their clients'."""
LOOPBACKS = (LOOPBACK, "localhost", "::1")


def serve(
    model: Annotated[
        str | None, typer.Option(metavar="ID_OR_PATH", help="[default: the app's model]")
    ] = None,
    draft_model: given.OtherDraftModel = None,
    port: Annotated[
        int, typer.Option(min=1, max=65_535, help="The port; if it is taken, the next free one.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str, typer.Option(help="The address to listen at. Others than this machine's need a key.")
    ] = LOOPBACK,
    api_key: Annotated[
        str | None, typer.Option("--api-key", metavar="KEY", help="[default: the key in the data folder]")
    ] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Let every program on this machine ask.")] = False,
    dtype: given.DTypeOption = "auto",
    device: given.DeviceOption = "auto",
    devices: given.DevicesOption = None,
    parallel: given.ParallelOption = "auto",
    quantisation: given.QuantisationOption = "none",
    data_dir: given.DataDir = None,
) -> None:
    """Serve the engine to other programs, with OpenAI's API."""
    from app.api.application import build_api  # the other commands do without the server's packages
    from app.api.gate import own_names
    from app.api.served_models import InstalledModels, served_model
    from app.api.services import ApiServices
    from app.api.serving import RunningApi
    from app.models_registry import folder_here, installed, template_here

    with errors_as_sentences():
        plan = chosen_ranks(devices, device, parallel)
        folder = data_dir_or_default(data_dir)
        settings = SettingsFile(folder).load()
        with impossible_values():
            asked = ModelChoice(model, dtype, device, quantisation) if model is not None else None
            choice = _drafted_by(draft_model, asked or _on_device(device, settings.local_model))
        key = chosen_key(folder, api_key, no_key, host)
        listener = listen(port, host)
        with engine_in(folder, CLOSING_SECONDS, plan, choice.device) as engine:
            hub, library, current = hub_of(settings.library), settings.library, served_model(choice)
            services = ApiServices(
                engine,
                lambda: current,
                InstalledModels(lambda: installed(hub, library.paths)),
                lambda: folder_here(library.embedder, hub),
                lambda asked: template_here(asked.name, hub),
            )
            engine.load(choice)
            _stay(RunningApi(build_api(services, key, own_names(host)), listener), key, port)


def _on_device(device: Device, choice: ModelChoice) -> ModelChoice:
    """The app's model on another device, if one is given."""
    return choice if device == "auto" else replace(choice, device=device)


def _drafted_by(draft_model: str | None, choice: ModelChoice) -> ModelChoice:
    """The choice with another draft model, if one is given."""
    return choice if draft_model is None else replace(choice, draft_model=draft_model)


def chosen_key(folder: Path, given_key: str | None, no_key: bool, host: str) -> ApiKey:
    """Which key clients send. Raises BadOption."""
    if no_key and given_key is not None:
        raise BadOption("Choose one of --api-key and --no-key.")
    if no_key and host not in LOOPBACKS:
        raise BadOption(f"At {host} other machines can ask, so a key is needed: leave out --no-key.")
    if given_key is not None and not given_key.strip():
        raise BadOption("The key of --api-key is empty: give one, or leave the option out.")
    if no_key:
        return NoKey()
    return FixedKey(given_key) if given_key is not None else KeyFile(folder)


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


def _stay(running: "RunningApi", key: ApiKey, asked_port: int) -> None:
    try:
        _announce(running, key, asked_port)
        running.wait()
    except KeyboardInterrupt:
        print_text("Closing.")
    finally:
        running.close()
