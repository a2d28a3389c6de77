"""The options that commands share, declared once."""

from pathlib import Path
from typing import Annotated

import typer

from app.messages import DecoderName, Device, DType

MODEL_HELP = "A folder, a hub id such as org/name, or 'demo'."

Model = Annotated[str, typer.Option("--model", metavar="ID_OR_PATH", help=MODEL_HELP)]
PromptsFile = Annotated[
    Path | None,
    typer.Option("--prompts", metavar="FILE.jsonl", help="One object a line, with `prompt` or `messages`."),
]
Raw = Annotated[bool, typer.Option("--raw", help="Send the text without the model's chat template.")]
Window = Annotated[int, typer.Option("--window", metavar="W", help="Lookahead window; 0 is off.")]
NGram = Annotated[int, typer.Option("--ngram", metavar="N", help="N-gram size.")]
Guesses = Annotated[int, typer.Option("--guesses", metavar="G", help="Guesses verified per step; 0 is off.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
TopK = Annotated[int, typer.Option(help="0 is off.")]
TopP = Annotated[float, typer.Option(help="1 is off.")]
MinP = Annotated[float, typer.Option(help="0 is off.")]
Penalty = Annotated[float, typer.Option("--repetition-penalty", help="1 is off.")]
Seed = Annotated[int, typer.Option(help="The same seed writes the same text, with lookahead on or off.")]
DTypeOption = Annotated[DType, typer.Option("--dtype", help="auto suits the machine.")]
DeviceOption = Annotated[Device, typer.Option("--device", help="auto takes CUDA where there is one.")]
MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", metavar="M")]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Write on to the token limit.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", help="End at this string; may be repeated.")]
Decoder = Annotated[DecoderName, typer.Option("--decoder")]
