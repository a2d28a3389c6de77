"""Fits the acceptance estimator's initial weights, and writes them as app/engine/lookahead/priors.py.

    python -m labs.acceptance_priors MODEL:raw MODEL --towards MODEL --suite-data FOLDER --out priors.py
    python -m labs.acceptance_priors --towards MODEL --suite-data FOLDER --out priors.py

Each model writes greedy replies with lookahead to made-up prompts (`:raw`: without a chat template, the
model continues a story). Every candidate after an accepted token is one observation: its two codes, which
app/engine/lookahead/acceptance_estimator.py makes, and whether the model agreed. The log odds are a base plus a
weight for each code. A logistic regression with a small ridge penalty fits them; every model counts the same.

`--towards` then fits the weights to a real model's replies to the first questions of each Spec-Bench category. A
stronger ridge penalty keeps them near the weights fitted before or, if no MODEL is given, near the weights in use.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from app.engine.block.context_entries import LEADS, SOURCES
from app.engine.decoders.lookahead_decoder import lookahead
from app.engine.loading.loading import LoadedModel
from app.engine.lookahead.acceptance_estimator import (
    FIRST_ALTERNATIVE_CODE,
    FIRST_CODE,
    NUM_FOLLOWER_CODES,
    NUM_SUCCESSOR_CODES,
    RANKS,
    AcceptanceEstimator,
)
from app.engine.lookahead.context_table import LONGEST
from app.engine.lookahead.drafter import PythonDrafter
from app.engine.lookahead.jacobi_window import WindowSizer
from app.engine.lookahead.priors import BASE, FOLLOWER_WEIGHTS, SUCCESSOR_WEIGHTS
from app.engine.lookahead.row_planner import RowBudgetPlanner
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step
from app.engine.sampling.sampling import Sampler
from app.engine.session.session import Session
from app.engine.text.prompt import encode
from app.engine.text.stopping_criteria import StoppingCriteria
from app.models_registry.locate import locate
from app.values.messages import ModelChoice, Prompt
from labs.ablation import greedy_reply
from labs.bench.suites import read_suite
from tools.prompts import questions, stories

SEED = 4
BUDGETS = (16, 32, 64)
TOKENS = 150
RIDGE = 0.5
REAL_BUDGETS = (32, 64)
REAL_TOKENS = 96
REAL_RIDGE = 5.0
BORROWED = ("document", "history", "prediction")
"""Sources that single short replies do not have. They get the mean of the weights of prompt and output."""


class Recorder(AcceptanceEstimator):
    """An acceptance estimator that records every observation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, bool]] = []

    def observe(self, cell: int, is_accepted: bool) -> None:
        self.seen.append((cell, is_accepted))
        super().observe(cell, is_accepted)


Observed = list[tuple[int, bool]]
"""The estimator's cell for each candidate (a pair of codes), and whether the candidate was accepted."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The base log odds, and the weights of successor codes and of follower codes."""

    base: float
    successors: Tensor
    followers: Tensor


def no_weights() -> Weights:
    """Return a base of -2 and weights of zero for every code."""
    return Weights(-2.0, torch.zeros(NUM_SUCCESSOR_CODES), torch.zeros(NUM_FOLLOWER_CODES))


def weights_in_use() -> Weights:
    """Return the weights with which the app starts."""
    return Weights(BASE, torch.tensor(SUCCESSOR_WEIGHTS), torch.tensor(FOLLOWER_WEIGHTS))


def observe_made_up(name: str, is_raw: bool, prompts: int) -> Observed:
    made: Iterator[Prompt] = stories(SEED) if is_raw else questions(SEED)
    return _observe(name, islice(made, prompts), BUDGETS, TOKENS)


def observe_suite(name: str, folder: Path, limit: int) -> Observed:
    """Observe a model's replies to the first questions of each Spec-Bench category."""
    sets = read_suite("spec-bench", folder, limit)
    asked = (item.prompt for one in sets for item in one.prompts)
    return _observe(name, asked, REAL_BUDGETS, REAL_TOKENS)


def _observe(name: str, prompts: Iterable[Prompt], budgets: Sequence[int], limit: int) -> Observed:
    loaded = Session(locate).open(ModelChoice(name, "float32"), lambda *_: None)
    recorder = Recorder()
    for prompt in prompts:
        tokens = encode(loaded.tokenizer, prompt, loaded.info.context)
        for rows in budgets:
            _write(loaded, tokens, rows, limit, recorder)
    return recorder.seen


def _write(loaded: LoadedModel, prompt: Sequence[int], rows: int, limit: int, recorder: Recorder) -> None:
    def decode(
        runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        # The drafter in C would not call the recorder.
        pool = loaded.statistics.new_pool(recorder, PythonDrafter)
        pool.begin(tokens, recorder)
        planner = RowBudgetPlanner(rows, WindowSizer(rows // 8))
        return lookahead(runner, tokens, sampler, stopper, planner=planner, pool=pool)

    stopper = StoppingCriteria(loaded.eos_ids, limit, loaded.info.context - len(prompt))
    greedy_reply(loaded.runner, prompt, decode, stopper)


def fit(observed: Sequence[Observed], near: Weights, ridge: float) -> Weights:
    """Fit weights to the observations, with equal weight for each model. `ridge` pulls them towards `near`."""
    cells = torch.tensor([cell for one in observed for cell, _ in one])
    right = torch.tensor([float(is_right) for one in observed for _, is_right in one], dtype=torch.float64)
    total = len(cells) / len(observed)
    counts = torch.cat([torch.full((len(one),), total / len(one), dtype=torch.float64) for one in observed])
    start = torch.tensor([near.base], dtype=torch.float64), near.successors.double(), near.followers.double()
    base, successors, followers = (weights.clone().requires_grad_() for weights in start)
    optimizer = torch.optim.LBFGS([base, successors, followers], max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        odds = base + successors[cells // NUM_FOLLOWER_CODES] + followers[cells % NUM_FOLLOWER_CODES]
        misfit = (counts * binary_cross_entropy_with_logits(odds, right, reduction="none")).sum()
        moved = (successors - start[1]).square().sum() + (followers - start[2]).square().sum()
        total_loss = misfit + ridge * moved
        total_loss.backward()  # type: ignore[no-untyped-call]
        return total_loss

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return Weights(base.item(), successors.detach(), followers.detach())


def module(weights: Weights) -> str:
    """Return the text of priors.py with these weights."""
    texts = weights.followers[FIRST_CODE:].reshape(len(SOURCES), LONGEST, RANKS)
    mean = (texts[SOURCES.index("prompt")] + texts[SOURCES.index("output")]) / 2
    own = [
        f"    # {name}\n" + _rows(texts[number])
        for number, name in enumerate(SOURCES)
        if name not in BORROWED
    ]
    borrowed = [f"    *_BORROWED,  # {name}\n" for name in BORROWED]
    successors, alternatives = (
        part.reshape(-1, LEADS)
        for part in (
            weights.successors[FIRST_CODE:FIRST_ALTERNATIVE_CODE],
            weights.successors[FIRST_ALTERNATIVE_CODE:],
        )
    )
    absent_successors = _ABSENT.format("successors") + _rows(weights.successors[None, :FIRST_CODE])
    absent_followers = _ABSENT.format("followers") + _rows(weights.followers[None, :FIRST_CODE])
    return (
        f"{_HEAD}\nBASE = {weights.base:.2f}\n\n"
        f"SUCCESSOR_WEIGHTS = (\n{absent_successors}{_SUCCESSORS}{_rows(successors)}"
        f"{_ALTERNATIVES}{_rows(alternatives)}{_END}\n"
        f"{_BORROW}_BORROWED = (\n{_rows(mean)}{_END}\n"
        f"FOLLOWER_WEIGHTS = (\n{absent_followers}{_SEEN_BITS}{''.join(own + borrowed)}{_END}"
    )


def _rows(weights: Tensor) -> str:
    return "".join("    " + ", ".join(f"{weight:.2f}" for weight in row) + ",\n" for row in weights.tolist())


_HEAD = '''"""Initial weights of the acceptance estimator, in log odds. The weights of a guess's two codes are added
(`acceptance_estimator.py`).

`labs/acceptance_priors.py` fitted them on replies of stories260K and the demo model; they were then adjusted
towards SmolLM2-135M's replies to the dev half of Spec-Bench. The weights of length 0 and of alternatives were
chosen by hand (docs/notes/2026-11-lookahead.md).
"""
'''
_ABSENT = "    # Not among the {}; the context was known up to 0 (nothing), 1, 2, 3, 4 tokens.\n"
_SUCCESSORS = (
    "    # Two lines for each matched length, 0 to 4: gap classes 0 to 7 (distances of the other successors to\n"
    "    # the best), then 8 to 15 (leads of the best).\n"
)
_ALTERNATIVES = (
    "    # Alternatives to the current token: a line for each length of the known context, 0 to 4; gap classes\n"
    "    # 0 to 7.\n"
)
_BORROW = "# For documents, history and predictions, the mean of the weights of prompt and output.\n"
_END = ")  # fmt: skip\n"
_SEEN_BITS = (
    "    # A line for each length, 1 to 4: newest and seen again, newest, older and seen again, older.\n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL[:raw]")
    parser.add_argument("--prompts", type=int, default=20, help="number of made-up prompts for each model")
    parser.add_argument("--towards", metavar="MODEL", help="a model that answers Spec-Bench's questions")
    parser.add_argument("--suite-data", type=Path, metavar="FOLDER", help="folder that contains spec-bench/")
    parser.add_argument("--limit", type=int, default=8, help="number of questions of each category")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    weights = weights_in_use()
    if options.models:
        observed = [
            observe_made_up(name.removesuffix(":raw"), name.endswith(":raw"), options.prompts)
            for name in options.models
        ]
        weights = fit(observed, no_weights(), RIDGE)
    if options.towards:
        replies = observe_suite(options.towards, options.suite_data, options.limit)
        weights = fit([replies], weights, REAL_RIDGE)
    options.out.write_text(module(weights), encoding="utf-8")


if __name__ == "__main__":
    main()
