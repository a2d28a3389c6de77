"""Measures tokens per step with several combinations of the n-gram pool's sources, with and without a window.

    python -m labs.ablation --model stories260K --raw --prompts assets/bench/stories.jsonl --max-new-tokens 200

Every reply begins with a new pool; each combination estimates anew how often guesses are accepted. The window
takes about a third of the row budget. Prints a Markdown table of tokens per step, and ends with an error if
a text differs from plain decoding's.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from app.commands.prompts import SamplingOverride, read_sets
from app.engine.decoders.lookahead_decoder import lookahead
from app.engine.decoders.plain import plain
from app.engine.loading.loading import LoadedModel
from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator
from app.engine.lookahead.context_table import ContextTable
from app.engine.lookahead.jacobi_window import JacobiWindow, WindowSizer
from app.engine.lookahead.ngram_pool import Pool
from app.engine.lookahead.row_planner import RowBudgetPlanner
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.runner import BlockRunner
from app.engine.runner.step import Decoder, FirstToken, Step
from app.engine.sampling.sampling import Sampler, make_sampler
from app.engine.session.reply_events import generate
from app.engine.session.session import Session
from app.engine.text.prompt import encode
from app.engine.text.stopping_criteria import StoppingCriteria
from app.models_registry.locate import locate
from app.values.messages import ModelChoice, Origin, Sampling

BUDGETS = (16, 32, 64, 128)
Sources = frozenset[str]
TEXTS = frozenset({"prompt", "output"})
COMBINATIONS: dict[str, Sources] = {
    "prompt and output": TEXTS,
    "successors": frozenset({"successor"}),
    "successors, also those measured at load": frozenset({"successor", "first"}),
    "prompt, output and successors": TEXTS | {"successor"},
    "all sources": TEXTS | {"successor", "first"},
}


class SomeSources(Pool):
    """A pool that learns from some sources only."""

    def __init__(self, table: ContextTable, estimator: AcceptanceEstimator, sources: Sources) -> None:
        super().__init__(table, estimator)
        self._sources = sources

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        if origin in self._sources:
            super().learn(text, new, origin)

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        if "successor" in self._sources:
            super().learn_successors(contexts, ids, logits)


class FixedSizer(WindowSizer):
    """A sizer that never changes the window."""

    def settle(self, window: JacobiWindow, price: float, accepted: int) -> None:
        """Do nothing, so that the window keeps its size."""


class Bench:
    """A model, its prompts, and what plain decoding writes for them."""

    def __init__(self, loaded: LoadedModel, prompts: Sequence[Sequence[int]], limit: int) -> None:
        self._loaded = loaded
        self._prompts = prompts
        self._limit = limit
        assert isinstance(loaded.runner, BlockRunner)
        self._vocabulary = loaded.runner.vocabulary
        self._plain = [self._reply(plain, prompt)[0] for prompt in prompts]

    def tokens_per_step(self, rows: int, sources: Sources) -> tuple[float, float]:
        """Return mean tokens and mean rows of a step. Raises ValueError if a text differs from plain decoding's."""
        estimator = AcceptanceEstimator()
        earned, spent = [], []
        for prompt, expected in zip(self._prompts, self._plain, strict=True):
            text, steps = self._reply(self._decoder(rows, sources, estimator), prompt)
            if text != expected:
                raise ValueError(
                    f"with {sorted(sources)} and {rows} rows, lookahead wrote another text than plain decoding"
                )
            if steps:
                earned.append(fmean(len(step.tokens) for step in steps))
                spent.append(fmean(step.rows for step in steps))
        return fmean(earned), fmean(spent)

    def _decoder(self, rows: int, sources: Sources, estimator: AcceptanceEstimator) -> Decoder:
        def decode(
            runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
        ) -> Iterator[Step]:
            table = ContextTable(self._vocabulary, bits=18)
            if "first" in sources:
                self._loaded.statistics.teach_first(table)
            pool = SomeSources(table, estimator, sources)
            pool.begin(tokens, estimator)
            planner = RowBudgetPlanner(rows, FixedSizer(rows // 6 if "window" in sources else 0))
            return lookahead(runner, tokens, sampler, stopper, planner=planner, pool=pool)

        return decode

    def _reply(self, decoder: Decoder, prompt: Sequence[int]) -> tuple[list[int], list[Step]]:
        loaded, room = self._loaded, self._loaded.info.context - len(prompt)
        stopper = StoppingCriteria(loaded.eos_ids, self._limit, room)
        return greedy_reply(loaded.runner, prompt, decoder, stopper)


def greedy_reply(
    runner: ModelRunner, prompt: Sequence[int], decoder: Decoder, stopper: StoppingCriteria
) -> tuple[list[int], list[Step]]:
    """Return a greedy reply, written without the cache of earlier replies, and its steps."""
    runner.forget()
    tokens, steps = list[int](), list[Step]()
    for item in generate(runner, prompt, decoder, make_sampler(Sampling()), stopper):
        match item:
            case FirstToken(token):
                tokens.append(token)
            case Step(new):
                tokens += new
                steps.append(item)
    return tokens, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="demo")
    parser.add_argument("--prompts", type=Path, action="append", default=[])
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    loaded = Session(locate).open(ModelChoice(options.model, "float32"), lambda *_: None)
    sets = read_sets(options.prompts, options.raw, SamplingOverride())
    prompts = [
        encode(loaded.tokenizer, asked.prompt, loaded.info.context) for one in sets for asked in one.prompts
    ]
    table = _measure(Bench(loaded, prompts, options.max_new_tokens))
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def _measure(bench: Bench) -> dict[str, list[tuple[float, float]]]:
    windowed = {f"{name}, with a window": sources | {"window"} for name, sources in COMBINATIONS.items()}
    rows: dict[str, Sources] = {"the window alone": frozenset({"window"}), **COMBINATIONS, **windowed}
    print("| sources |" + "".join(f" {budget} rows |" for budget in BUDGETS))
    print("|---|" + "---|" * len(BUDGETS))
    found = {}
    for name, sources in rows.items():
        found[name] = [bench.tokens_per_step(budget, sources) for budget in BUDGETS]
        cells = (f" {earned:.2f} ({spent:.0f}) |" for earned, spent in found[name])
        print(f"| {name} |" + "".join(cells), flush=True)
    return found


if __name__ == "__main__":
    main()
