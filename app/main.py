"""The composition root and the command line: here the parts meet, and nowhere else."""

import logging
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from app.commands import options as given
from app.commands.bench import bench as run_bench
from app.commands.chats_cli import chats_cli
from app.commands.documents_cli import documents_cli
from app.commands.edge import sentences
from app.commands.generate import generate as run_generate
from app.commands.lanes import Sizes, read_decoding, read_lanes
from app.commands.measuring import Plan
from app.commands.models_cli import models_cli
from app.commands.opening import asked_documents, engine_in
from app.commands.printing import show_all_characters
from app.commands.prompts import Draw, read_prompts, read_sets
from app.conversation import Asked
from app.desktop.menu import installing as menu
from app.desktop.menu.entry import MenuEntry
from app.desktop.switching import show_page, switch
from app.desktop.window import require_window
from app.engine.memory import share_one_heap
from app.errors import DataFolderInUse, impossible_values
from app.messages import Decoding, ModelChoice, Options, Sampling
from app.outside import HUB_WHY, Outside
from app.settings import DEMO_MODEL, DataFolder, data_dir_or_default, default_data_dir

cli = typer.Typer(
    help="Foresight: chat with a language model that decodes with lookahead. Without a command the app opens.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
cli.add_typer(models_cli, name="models")
cli.add_typer(chats_cli, name="chats")
cli.add_typer(documents_cli, name="documents")
GREEDY = Sampling()
HUB_HOSTS = ("huggingface.co", "hf.co")


@cli.callback(invoke_without_command=True)
def desktop(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Taken? The next free one is used.")] = 7860,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page.")] = False,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where settings are kept.")] = None,
    model: Annotated[str | None, typer.Option(metavar="ID_OR_PATH", help=given.MODEL_HELP)] = None,
    native: Annotated[bool, typer.Option("--native", help="In a window of its own (pywebview).")] = False,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let every user and program of this machine open the page.")
    ] = False,
) -> None:
    """Open the app."""
    if context.invoked_subcommand:
        return
    from app.ui import prepare_environment  # the other commands do without a page's packages
    from app.window import Opening, run_window

    outside = watch_outside()
    with sentences():
        folder = DataFolder(data_dir_or_default(data_dir))
        prepare_environment(os.environ, folder.path)
        try:
            folder.hold()
        except DataFolderInUse as in_use:
            typer.echo(switch(folder, in_use, None if no_browser else show_page))
            return
        try:
            if native:
                require_window()
            opening = Opening(port, not no_browser, native, not no_token)
            run_window(folder, opening, model, outside)
        finally:
            folder.release()


@cli.command()
def install(
    native: Annotated[bool, typer.Option("--native", help="The entry opens a window of its own.")] = False,
) -> None:
    """Put Foresight into the system's menu."""
    with sentences():
        if native:
            require_window()
        _say(menu.install(_menu_entry(native)))


@cli.command()
def uninstall() -> None:
    """Take Foresight out of the system's menu."""
    with sentences():
        _say(menu.uninstall(_menu_entry(False)))


@cli.command()
def generate(
    model: given.Model = DEMO_MODEL,
    prompt: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    prompts: given.PromptsFile = None,
    raw: given.Raw = False,
    decoder: given.Decoder = None,
    rows: given.Rows = None,
    preset: given.PresetOption = None,
    window: given.Window = None,
    ngram: given.NGram = None,
    guesses: given.Guesses = None,
    same_text: given.SameText = "on",
    temperature: given.Temperature = None,
    top_k: given.TopK = GREEDY.top_k,
    top_p: given.TopP = GREEDY.top_p,
    min_p: given.MinP = GREEDY.min_p,
    repetition_penalty: given.Penalty = GREEDY.repetition_penalty,
    seed: given.Seed = None,
    dtype: given.DTypeOption = "auto",
    device: given.DeviceOption = "auto",
    quantisation: given.QuantisationOption = "none",
    attention: given.AttentionOption = "auto",
    max_new_tokens: given.MaxNewTokens = 512,
    ignore_eos: given.IgnoreEos = False,
    stop: given.Stop = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a line.")] = False,
) -> None:
    """Answer prompts on standard output."""
    draw = Draw(temperature, seed)
    with sentences():
        decoding = read_decoding(decoder, Sizes(preset, window, ngram, guesses, rows), same_text)
        with impossible_values():
            choice = ModelChoice(model, dtype, device, quantisation, attention)
            sampling = draw.apply(Sampling(0.0, top_k, top_p, min_p, repetition_penalty))
            options = Options(sampling, decoding, max_new_tokens, ignore_eos, tuple(stop or ()))
        asked = read_prompts(prompt, prompts, raw, draw)
        with engine_in(default_data_dir()) as engine:
            run_generate(engine, choice, asked, options, as_json)


@documents_cli.command("ask")
def ask_documents(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION")],
    collection: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Ask this one; again for more. None: all.")
    ] = None,
    model: given.Model = DEMO_MODEL,
    decoder: given.Decoder = None,
    temperature: given.Temperature = None,
    seed: given.Seed = None,
    dtype: given.DTypeOption = "auto",
    device: given.DeviceOption = "auto",
    max_new_tokens: given.MaxNewTokens = 256,
    data_dir: given.DataDir = None,
    as_json: given.AsJson = False,
) -> None:
    """Answer a question from the documents, with its sources."""
    from app.commands.documents_ask import Question
    from app.commands.documents_ask import ask_documents as run_ask

    with sentences():
        with impossible_values():
            options = Options(
                Draw(temperature, seed).apply(GREEDY), read_decoding(decoder, Sizes(), "on"), max_new_tokens
            )
            asked = Asked(ModelChoice(model, dtype, device), options)
        with asked_documents(data_dir) as (store, engine):
            run_ask(store, engine, Question(" ".join(words), collection or ()), asked, as_json)


@cli.command()
def bench(
    prompts: given.PromptSets = None,
    model: given.Model = DEMO_MODEL,
    decoders: given.Lanes = "plain,auto",
    raw: given.Raw = False,
    rows: given.Rows = None,
    preset: given.PresetOption = None,
    window: given.Window = None,
    ngram: given.NGram = None,
    guesses: given.Guesses = None,
    same_text: given.SameText = "on",
    temperature: given.Temperature = None,
    seed: given.Seed = None,
    dtype: given.DTypeOption = "auto",
    device: given.DeviceOption = "auto",
    quantisation: given.QuantisationOption = "none",
    attention: given.AttentionOption = "auto",
    max_new_tokens: given.MaxNewTokens = 128,
    ignore_eos: given.IgnoreEos = False,
    rounds: Annotated[int, typer.Option(help="How often all prompts run.")] = 2,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the numbers here, too.")] = None,
) -> None:
    """Compare decoders on the same prompts, in turn, in one process."""
    draw = Draw(temperature, seed)
    with sentences():
        sets = read_sets(prompts or [], raw, draw)
        base = Sizes(preset, window, ngram, guesses, rows).apply(Decoding(same_text=same_text == "on"))
        lanes = read_lanes(decoders, base)
        with impossible_values():
            options = Options(draw.apply(GREEDY), base, max_new_tokens, ignore_eos)
            plan = Plan(
                ModelChoice(model, dtype, device, quantisation, attention), sets, lanes, options, rounds
            )
        with engine_in(default_data_dir()) as engine:
            run_bench(engine, plan, json)


def watch_outside() -> Outside:
    """Keep a list of whom this process asks outside this machine, from now on."""
    outside = Outside(dict.fromkeys(HUB_HOSTS, HUB_WHY))
    outside.watch()
    return outside


def _menu_entry(is_native: bool) -> MenuEntry:
    return menu.make_entry(menu.make_launch(is_native), sys.platform, Path.home(), os.environ)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def main() -> None:
    """The console script."""
    # The hub's Xet transfer cannot be ended from outside; its plain HTTP transfer can. No telemetry anywhere.
    os.environ.update(HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1")
    # What any library writes from now on is this user's alone: a database's log, an upload, a child's files.
    os.umask(0o077)
    show_all_characters()
    share_one_heap()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        cli()
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else int(end.code is not None))


def _leave(code: int) -> NoReturn:
    """End at once: all that is kept is on the disk by now.

    The interpreter would take apart what Gradio and torch have made, which takes it seconds, and wait for a thread
    that still imports torch, or take its ground away."""
    logging.shutdown()
    with suppress(OSError):  # nobody reads what is printed any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
