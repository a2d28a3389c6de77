"""The options that commands share, declared once."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.lanes import LANES, OnOff
from app.messages import AttentionChoice, DecoderName, Decoding, Device, DType, Preset
from app.quantisation import Quantisation

MODEL_HELP = "A folder, a hub id such as org/name, or 'demo'."

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Where the app keeps its files.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[str, typer.Option("--model", metavar="ID_OR_PATH", help=MODEL_HELP)]
PromptsFile = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE.jsonl",
        help="One object a line, with `prompt` or `messages`, perhaps a `temperature` and a `seed`.",
    ),
]
PromptSets = Annotated[
    list[Path] | None,
    typer.Option(
        "--prompts",
        metavar="FILE.jsonl",
        help="A prompt set; may be repeated. Without it all the sets that ship with the app.",
    ),
]
Raw = Annotated[bool, typer.Option("--raw", help="Send the text without the model's chat template.")]
W_N_G = Decoding()
Window = Annotated[
    int | None,
    typer.Option("--window", metavar="W", help=f"Lookahead window; 0 is off. [default: {W_N_G.window}]"),
]
NGram = Annotated[
    int | None, typer.Option("--ngram", metavar="N", help=f"N-gram size. [default: {W_N_G.ngram}]")
]
Guesses = Annotated[
    int | None,
    typer.Option(
        "--guesses",
        metavar="G",
        help=f"Guesses verified per step; 0 is off. [default: {W_N_G.guesses}]",
    ),
]
PresetOption = Annotated[
    Preset | None,
    typer.Option(
        "--preset",
        help="W, N and G as lookahead's authors advise for a model of this size; those given by hand win.",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option("--rows", metavar="ROWS", help="Rows per step for auto to spend; 0 lets it choose."),
]
SameText = Annotated[
    OnOff,
    typer.Option("--same-text", help="Whether half-precision text must not depend on the decoder."),
]
Lanes = Annotated[str, typer.Option("--decoders", metavar="LANES", help=f"Compared in turn: {LANES}.")]
Temperature = Annotated[float | None, typer.Option(help="0 is greedy. [default: 0, or what a line says]")]
TopK = Annotated[int, typer.Option(help="0 is off.")]
TopP = Annotated[float, typer.Option(help="1 is off.")]
MinP = Annotated[float, typer.Option(help="0 is off.")]
Penalty = Annotated[float, typer.Option("--repetition-penalty", help="1 is off.")]
Seed = Annotated[
    int | None,
    typer.Option(
        help="The same seed writes the same text, whatever the decoder. [default: 0, or what a line says]"
    ),
]
DTypeOption = Annotated[DType, typer.Option("--dtype", help="auto suits the machine.")]
QuantisationOption = Annotated[
    Quantisation,
    typer.Option("--quantisation", help="Keep weights in 8 or 4 bits, to fit a larger model; needs torchao."),
]
DeviceOption = Annotated[Device, typer.Option("--device", help="auto takes CUDA where there is one.")]
AttentionOption = Annotated[
    AttentionChoice, typer.Option("--attention", help="The backend; auto takes the best that works here.")
]
MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", metavar="M")]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Write on to the token limit.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", help="End at this string; may be repeated.")]
Decoder = Annotated[
    DecoderName | None,
    typer.Option("--decoder", help="[default: auto, or lookahead where W, N, G or a preset are given]"),
]
