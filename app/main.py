"""The command line: the app itself, `install` and `uninstall`, and the commands of app/commands."""

import logging
import os
import sys
import webbrowser
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from app.commands.bench import bench
from app.commands.chats import chats_cli
from app.commands.console import errors_as_sentences, print_text, replace_unprintable_characters
from app.commands.documents import documents_cli
from app.commands.generate import generate
from app.commands.models import models_cli
from app.commands.options import (
    MODEL_HELP,
    CommandGroup,
    DataDir,
    DevicesOption,
    OtherDraftModel,
    options_given,
)
from app.commands.serve import serve
from app.commands.services import devices_plan
from app.database.data_folder import DataFolder, data_dir_or_default
from app.desktop import menu
from app.desktop.menu import MenuEntry
from app.desktop.single_instance import switch
from app.desktop.window import require_window
from app.engine.machine.process_memory import share_one_heap
from app.errors import BadOption, DataFolderInUse
from app.system.environment import prepare
from app.system.network_log import HUB_WHY, NetworkLog
from app.system.programs import settled

cli = typer.Typer(
    cls=CommandGroup,
    help="Foresight: chat with a local language model, with lookahead decoding. Without a command the app opens.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
cli.command()(generate)
cli.command()(bench)
cli.command()(serve)
cli.add_typer(models_cli, name="models")
cli.add_typer(chats_cli, name="chats")
cli.add_typer(documents_cli, name="documents")
SWITCH_SECONDS = 0.0005
"""Seconds after which a thread must release the GIL if another thread waits for it. With Python's default of
5 ms the engine's thread could wait for as long as a whole decoding step takes."""
HUB_HOSTS = ("huggingface.co", "hf.co")


Port = Annotated[
    int, typer.Option(min=1, max=65_535, help="The page's port. If it is taken, the next free port is used.")
]
WithoutBrowser = Annotated[bool, typer.Option("--no-browser", help="Do not open the page in the browser.")]
AppModel = Annotated[str | None, typer.Option(metavar="ID_OR_PATH", help=MODEL_HELP)]
Native = Annotated[
    bool, typer.Option("--native", help="Open a native window instead of the browser (needs pywebview).")
]
WithoutKey = Annotated[
    bool, typer.Option("--no-key", help="Let every user and program on this machine open the page.")
]
WithApi = Annotated[bool, typer.Option("--api", help="Also serve the API for other programs.")]


@cli.callback(invoke_without_command=True)
def desktop(
    context: typer.Context,
    port: Port = 7860,
    no_browser: WithoutBrowser = False,
    data_dir: DataDir = None,
    model: AppModel = None,
    draft_model: OtherDraftModel = None,
    native: Native = False,
    no_key: WithoutKey = False,
    api: WithApi = False,
    devices: DevicesOption = None,
) -> None:
    """Open the app, or the window of a running instance. Does nothing if a command is given."""
    if context.invoked_subcommand:
        return
    from app.startup import ModelAsked, Opening, run_app
    from app.ui import prepare_environment  # other commands do not import the page's packages

    network_log = start_network_log()
    with errors_as_sentences():
        if native and no_browser:
            raise BadOption("--no-browser changes nothing with --native. Leave it out.")
        folder = DataFolder(data_dir_or_default(data_dir))
        prepare_environment(os.environ, folder.path)
        try:
            folder.hold()
        except DataFolderInUse as in_use:
            typer.echo(switch(folder, in_use, None if no_browser else webbrowser.open))
            if unused := [one for one in options_given(context) if one not in ("--data-dir", "--no-browser")]:
                words = "that" if len(unused) == 1 else "them"
                typer.echo(f"It runs without {' and '.join(unused)}. Quit it and start again to use {words}.")
            return
        try:
            if native:
                require_window()
            plan = devices_plan(devices)
            opening = Opening(port, not no_browser, native, not no_key, api, plan)
            run_app(folder, opening, ModelAsked(model, draft_model), network_log)
        finally:
            folder.release()


@cli.command()
def install(
    native: Annotated[
        bool, typer.Option("--native", help="Let the entry open a native window instead of the browser.")
    ] = False,
) -> None:
    """Add Foresight to the system's application menu."""
    with errors_as_sentences():
        if native:
            require_window()
        _print_lines(menu.install(_menu_entry(native)))


@cli.command()
def uninstall() -> None:
    """Remove Foresight from the system's application menu."""
    with errors_as_sentences():
        _print_lines(menu.uninstall(_menu_entry(False)))


def start_network_log() -> NetworkLog:
    """Record from now on which hosts outside this machine the process contacts."""
    network_log = NetworkLog(dict.fromkeys(HUB_HOSTS, HUB_WHY))
    network_log.watch()
    return network_log


def _menu_entry(is_native: bool) -> MenuEntry:
    return menu.make_entry(menu.make_launch(is_native), sys.platform, Path.home(), os.environ)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def main() -> None:
    os.environ.update(settled(os.environ))
    # Downloads use HTTP, because the hub's Xet transfers cannot be cancelled. No telemetry is sent to the hub.
    os.environ.update(HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1")
    # OpenMP's threads spin for milliseconds while they wait for each other. If another program uses the same core,
    # spinning uses up the threads' share of the core, and a step takes up to 200 times as long.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    notes = prepare(os.environ)
    # Every file that this process and its libraries create is readable by this user only.
    os.umask(0o077)
    replace_unprintable_characters()
    share_one_heap()
    sys.setswitchinterval(SWITCH_SECONDS)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    for note in notes:
        print_text(note, err=True)
    try:
        cli()
    except SystemExit as end:
        # A normal exit would take seconds to free the objects of Gradio and torch, and would wait for a thread that
        # still imports torch. Everything to be kept is on the disk.
        logging.shutdown()
        with suppress(OSError):  # the program that reads the output has ended
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
