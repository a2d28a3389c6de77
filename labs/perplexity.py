"""Measures the perplexity of texts with each quantisation of a model.

python -m labs.perplexity MODEL-FOLDER QUESTIONS.jsonl --limit 16

A line of the file is an object with `turns`, as in MT-Bench and Spec-Bench.
"""

import argparse
import json
import sys
from math import exp
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from app.engine.block.block import chain_block
from app.engine.loading.loading import LoadedModel, load
from app.engine.runner.runner import BlockRunner
from app.values.messages import ModelChoice, ModelFolder
from app.values.quantisation_sizes import Quantisation

TOKENS, ROWS = 512, 64
"""Maximum number of tokens that are read from a text, and in one pass."""
SHORTEST = 600
"""Texts with fewer characters are left out."""


def texts(file: Path, limit: int) -> list[str]:
    """Return at most `limit` long texts, evenly spread over the file."""
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    long = [text for text in ("\n".join(line["turns"]) for line in lines) if len(text) >= SHORTEST]
    return long[:: max(1, len(long) // limit)][:limit]


def perplexity(loaded: LoadedModel, chosen: list[str]) -> tuple[float, int]:
    """Return the perplexity of all texts together, read in blocks as decoders read, and the number of tokens."""
    runner, surprise, count = loaded.runner, 0.0, 0
    assert isinstance(runner, BlockRunner)
    for text in chosen:
        ids = loaded.tokenizer(text)["input_ids"][:TOKENS]
        runner.forget()
        for _ in runner.prefill(ids[:1]):
            pass
        for start in range(1, len(ids) - 1, ROWS):
            line = ids[start : start + ROWS]
            rows = tuple(range(len(line)))
            logits = runner.forward(chain_block(line, start, rows))
            expected = ids[start + 1 : start + 1 + len(line)]
            surprise += float(
                cross_entropy(logits[: len(expected)].float(), torch.tensor(expected), reduction="sum")
            )
            count += len(expected)
            runner.commit(rows)
    return exp(surprise / count), count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--limit", type=int, default=16)
    parser.add_argument("--quantisations", default="none,int8")
    arguments = parser.parse_args()
    chosen, first = texts(arguments.texts, arguments.limit), 0.0
    for name in arguments.quantisations.split(","):
        quantisation: Quantisation = name
        choice = ModelChoice(arguments.model.name, "float32", "cpu", quantisation)
        found, count = perplexity(load(ModelFolder(arguments.model, arguments.model.name), choice), chosen)
        first = first or found
        sys.stdout.write(
            f"{name:5} {found:8.4f} ({found / first - 1:+.2%}) over {count:,} tokens of {len(chosen)} texts\n"
        )


if __name__ == "__main__":
    main()
