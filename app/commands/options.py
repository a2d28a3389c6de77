"""Options that several commands share, and the handling of options that are given before a command:

`run.py --data-dir DIR chats list` means `run.py chats list --data-dir DIR`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.commands.console import errors_as_sentences
from app.commands.decoder_options import LANES, OnOff
from app.errors import BadOption, impossible_values
from app.values.chat_format import Thinking, ThinkingLevel
from app.values.messages import AttentionChoice, DecoderName, Decoding, Device, DType, Preset
from app.values.quantisation_sizes import QuantisationChoice

BEFORE = "app.commands.options_before_the_command"
"""The key in a Typer context's `meta` of the options given before the command, each with its value as typed."""
MAY_BE_EMPTY = ("--draft-model", "--prompt")
"""Options that may have an empty value. An empty path would mean the current folder, and an empty host all
addresses of this machine."""
MODEL_HELP = "A folder, a GGUF file, a hub id such as org/name, or 'demo'."


def _expanded(folder: Path | None) -> Path | None:
    """Expand ~ or ~user in the path of a folder. Ends the command with a sentence if there is no such user."""
    with errors_as_sentences():
        try:
            return folder and folder.expanduser()
        except RuntimeError as error:  # the user of ~name is unknown
            raise BadOption(
                f"This machine has no user of {folder}. Choose another folder with --data-dir."
            ) from error


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Keep chats, documents and settings in this folder.",
        callback=_expanded,
    ),
]
LARGEST_NUMBER = 2**63 - 1
"""The largest number that a row of the database can have."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")]
CollectionNames = Annotated[
    list[str] | None,
    typer.Option(
        "--collection", metavar="NAME", help="Search this collection; may be repeated. Default: all."
    ),
]
Model = Annotated[str, typer.Option("--model", metavar="ID_OR_PATH", help=MODEL_HELP)]
DRAFT_MODEL_HELP = (
    "A smaller model with the same tokenizer, an EAGLE-3 head or a Gemma 4 assistant; its guesses are "
    "verified."
)
DraftModel = Annotated[str, typer.Option("--draft-model", metavar="ID_OR_PATH", help=DRAFT_MODEL_HELP)]
OtherDraftModel = Annotated[
    str | None,
    typer.Option(
        "--draft-model",
        metavar="ID_OR_PATH",
        help=f"{DRAFT_MODEL_HELP} [default: the one used last, but none with serve --model; '' means none]",
    ),
]
PromptsFile = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE.jsonl",
        help="One JSON object a line: `prompt` or `messages`, optionally `temperature` and `seed`, which are used "
        "unless the options are given.",
    ),
]
PromptSets = Annotated[
    list[Path] | None,
    typer.Option(
        "--prompts",
        metavar="FILE.jsonl",
        help="A prompt set; may be repeated. Default: all sets that ship with the app.",
    ),
]
Raw = Annotated[bool, typer.Option("--raw", help="Send the prompt without the model's chat template.")]
W_N_G = Decoding()
Window = Annotated[
    int | None,
    typer.Option(
        "--window",
        metavar="W",
        help=f"How many neighbouring positions the lookahead window guesses; 0 is off. [default: {W_N_G.window}]",
    ),
]
NGram = Annotated[
    int | None,
    typer.Option(
        "--ngram",
        metavar="N",
        help=f"Length of token sequences (n-grams): each guess has up to N - 1 tokens. [default: {W_N_G.ngram}]",
    ),
]
Guesses = Annotated[
    int | None,
    typer.Option(
        "--guesses",
        metavar="G",
        help=f"Maximum number of guesses that a step checks; 0 is off. [default: {W_N_G.guesses}]",
    ),
]
PresetOption = Annotated[
    Preset | None,
    typer.Option(
        "--preset",
        help="W, N and G as recommended by lookahead's authors for this model size; explicit values override them.",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        metavar="ROWS",
        help="Positions that a step of auto computes, on average; 0 lets auto choose.",
    ),
]
SameText = Annotated[
    OnOff,
    typer.Option(
        "--same-text", help="Whether bfloat16 and float16, too, give the same text with every decoder."
    ),
]
Lanes = Annotated[str, typer.Option("--decoders", metavar="LANES", help=f"The decoders to compare: {LANES}.")]
Temperature = Annotated[
    float | None, typer.Option(help="How random the choice of tokens is; 0 takes the likeliest. [default: 0]")
]
TopK = Annotated[int, typer.Option(help="Sample from this many of the likeliest tokens; 0 is off.")]
TopP = Annotated[
    float, typer.Option(help="Sample from the likeliest tokens with this total probability; 1 is off.")
]
MinP = Annotated[
    float, typer.Option(help="Sample from tokens with at least this share of the top probability; 0 is off.")
]
Penalty = Annotated[
    float,
    typer.Option("--repetition-penalty", help="Make tokens that occurred before less likely; 1 is off."),
]
Seed = Annotated[
    int | None, typer.Option(help="The same seed writes the same text with every decoder. [default: 0]")
]
QUANTISATION_HELP = (
    "Quantise weights to 8 or 4 bits. Unless --dtype is given, auto means int8 on x86 CPUs under Linux with a C "
    "compiler, because int8 is faster there with hardly any loss."
)
DEVICE_HELP = "auto uses CUDA, or an Apple GPU that passes a trial, or else the CPU."
APPS_OWN = "[default: what the app uses for its model]"
DTYPE_HELP = (
    "The precision of activations, and of weights that are not quantised; auto chooses by hardware and "
    "quantisation."
)
DTypeOption = Annotated[DType, typer.Option("--dtype", help=DTYPE_HELP)]
QuantisationOption = Annotated[QuantisationChoice, typer.Option("--quantisation", help=QUANTISATION_HELP)]
DeviceOption = Annotated[Device, typer.Option("--device", help=DEVICE_HELP)]
OtherDType = Annotated[DType | None, typer.Option("--dtype", help=f"{DTYPE_HELP} {APPS_OWN}")]
OtherQuantisation = Annotated[
    QuantisationChoice | None, typer.Option("--quantisation", help=f"{QUANTISATION_HELP} {APPS_OWN}")
]
OtherDevice = Annotated[Device | None, typer.Option("--device", help=f"{DEVICE_HELP} {APPS_OWN}")]
DevicesOption = Annotated[
    str | None,
    typer.Option("--devices", metavar="0,1,...", help="Share each step among these GPUs (or cpu,cpu)."),
]
OffloadOption = Annotated[
    bool,
    typer.Option(
        "--offload",
        help="Keep weights in main memory if the GPU has no room for them. Slow, because each step copies them.",
    ),
]
AttentionOption = Annotated[
    AttentionChoice,
    typer.Option("--attention", help="The code that computes attention; auto uses the best that works here."),
]
ThinkingOption = Annotated[
    ThinkingLevel,
    typer.Option(
        "--thinking",
        help="How much the model thinks. If its chat template lacks a level, the nearest one is used.",
    ),
]
ThinkingBudget = Annotated[
    int, typer.Option("--thinking-budget", metavar="N", help="Maximum tokens of a thought; 0 is no limit.")
]
MaxNewTokens = Annotated[
    int, typer.Option("--max-new-tokens", metavar="M", help="Maximum tokens of a reply; 0 is no limit.")
]
IgnoreEos = Annotated[
    bool, typer.Option("--ignore-eos", help="Ignore the end-of-text token: write until the token limit.")
]
Stop = Annotated[
    list[str] | None, typer.Option("--stop", help="End the reply before this string; may be repeated.")
]
Decoder = Annotated[
    DecoderName | None,
    typer.Option(
        "--decoder",
        help="How replies are written. [default: auto; lookahead with --window, --ngram, --guesses or --preset]",
    ),
]


def require_free(file: Path, overwrite: bool) -> None:
    """Raise BadOption if the file exists and is not empty, unless it may be replaced."""
    is_there = False
    with suppress(OSError):  # an invalid name is reported when the file is written
        is_there = file.is_file() and file.stat().st_size > 0
    if is_there and not overwrite:
        raise BadOption(f"{file} is there already. Choose another name, or replace it with --overwrite.")


def read_text(file: Path) -> str:
    """Read a UTF-8 text file. Raises BadOption if it cannot be read or decoded."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadOption(f"{file} cannot be read ({error.strerror}). Choose another file.") from error
    except UnicodeDecodeError as error:
        raise BadOption(f"{file} is not UTF-8 text. Save it as UTF-8, or choose another file.") from error


def require_with(option: str, is_given: object, other: str, has_other: object) -> None:
    """Raise BadOption if `option` is given without `other`, because it changes nothing alone."""
    if is_given and not has_other:
        raise BadOption(f"{option} changes nothing without {other}. Add {other}, or leave {option} out.")


def read_thinking(level: ThinkingLevel, budget: int) -> Thinking:
    """Return the thinking that these options choose. Raises BadOption for an impossible or useless budget."""
    with impossible_values():
        thinking = Thinking(level, budget)
    if level == "off" and budget:
        raise BadOption("--thinking-budget changes nothing with --thinking off. Leave it out.")
    return thinking


def require_words(query: str) -> None:
    """Raise BadOption if a search has no words."""
    if not query.strip():
        raise BadOption("There is nothing to search for. Type some words.")


class CommandGroup(TyperGroup):
    """A group of commands that passes options given before a command on to the command."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _in_plain_words():
            return super().make_context(*arguments, **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command, and keep them in the context with their values as typed."""
        with errors_as_sentences():
            ctx.meta.setdefault(BEFORE, {}).update(_given(self, ctx, args))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and add the options given before it to its own arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            with errors_as_sentences():
                rest = [*_handed_on(ctx, command, rest), *rest]
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        with _in_plain_words():
            return super().invoke(ctx)


def options_given(context: typer.Context) -> tuple[str, ...]:
    return tuple(context.meta[BEFORE])


def _given(command: Any, context: Any, words: list[str]) -> Mapping[str, str | None]:
    """Return the options of the command among these words, with their values as typed; None for a flag.

    Raises BadOption for an empty value, and for an option that takes one value and is given several times. Typer
    reports other mistakes."""
    reading = typer.Context(command, parent=context, resilient_parsing=True)
    values, _, order = command.make_parser(reading).parse_args(list(words))
    for argument in (one for one in order if one.param_type_name == "argument" and values[one.name] == ""):
        raise BadOption(f"{argument.metavar} is empty. Give a value for it.")
    options = [one for one in order if one.param_type_name == "option"]
    for one in options:
        if options.count(one) > 1 and not one.multiple and not one.is_flag:
            raise BadOption(f"{one.opts[0]} is given {options.count(one)} times. Give it once.")
        given = values[one.name] if one.multiple else [values[one.name]]
        if "" in given and one.opts[0] not in MAY_BE_EMPTY:
            raise BadOption(f"The value of {one.opts[0]} is empty. Write one, or leave the option out.")
    return {one.opts[0]: None if one.is_flag else values[one.name] for one in options}


def _handed_on(context: Any, command: Any, words: list[str]) -> Iterator[str]:
    """Yield the options given before the command as arguments for it.

    Raises BadOption for an option that the command does not have, or that has two different values."""
    its_own = {name for one in command.params for name in one.opts if one.param_type_name == "option"}
    given = _given(command, context, words)
    groups = context.command_path.removeprefix(context.find_root().command_path)
    path = f"{groups} {command.name}".strip()
    for name, value in context.meta[BEFORE].items():
        if name not in its_own:
            raise BadOption(f"{name} means nothing to `{path}`. Leave it out.")
        if name not in given:
            yield name if value is None else f"{name}={value}"
        elif given[name] != value:
            raise BadOption(f"{name} is given twice, as {value} and as {given[name]}. Give it once.")


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """Report an impossible argument as a sentence, without the terms of Typer's validator."""
    try:
        yield
    except typer.BadParameter as error:
        words = error.message.removeprefix("Value error, ").partition(", unable to parse")[0]
        if words:  # the error of a missing argument has no message
            error.message = f"{words.replace('Input should be', 'it must be').rstrip('.')}."
            error.ctx = None  # so that no usage is printed above the sentence
        raise
