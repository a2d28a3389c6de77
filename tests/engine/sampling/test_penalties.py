"""Penalties and biases as OpenAI defines them, on each row's own path, counted as if each row were counted anew."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import RepetitionPenaltyLogitsProcessor

from app.engine.sampling.penalties import (
    FEW,
    ROOM,
    Process,
    TokenCounts,
    biases,
    penalised,
    penalties,
    repetition_penalty,
)  # fmt: skip
from app.engine.sampling.sampling import make_sampler
from app.values.logits import LogitsSettings
from app.values.messages import Sampling

VOCABULARY = 30
PROMPT = [3, 1, 4, 1, 5]
CPU = torch.device("cpu")
META = torch.device("meta")
"""A device that is not the CPU, and computes nothing."""

histories = st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=2 * FEW), min_size=1, max_size=6)
finite = st.floats(-2, 2, width=32)


def logits_of(seed: int, rows: int = 1) -> Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 4


@given(histories)
def test_counts_go_from_any_row_to_any_other(texts: list[list[int]]) -> None:
    counts = TokenCounts(len(PROMPT))
    for text in texts:
        ids, times = (found.tolist() for found in counts.before([*PROMPT, *text], CPU))
        assert len(set(ids)) == len(ids)
        assert {token: time for token, time in zip(ids, times, strict=True) if time} == Counter(text)


def test_a_reply_of_very_many_tokens_finds_room() -> None:
    counts, text = TokenCounts(), list(range(ROOM - 1))
    for token in range(ROOM - 1, 2 * ROOM + 5):
        text.append(token)
        ids, times = counts.before(text, CPU)
    assert ids.tolist() == text and times.tolist() == [1.0] * len(text)


def openai_penalties(settings: LogitsSettings, logits: Tensor, reply: Sequence[int]) -> Tensor:
    """Token by token, for those that the reply has."""
    times = Counter(reply)
    if not times:
        return logits
    taken = settings.frequency_penalty * torch.tensor(list(times.values()), dtype=torch.float32)
    return logits.index_add(0, torch.tensor(list(times)), -(taken + settings.presence_penalty))


@given(texts=histories, frequency=finite, presence=finite, penalty=st.floats(0.1, 5))
def test_penalties_have_the_bits_of_openais_definition_and_of_transformers(
    texts: list[list[int]], frequency: float, presence: float, penalty: float
) -> None:
    settings, counts = LogitsSettings(frequency, presence), TokenCounts()
    process, by_transformers = penalties(settings, len(PROMPT)), RepetitionPenaltyLogitsProcessor(penalty)
    for seed, text in enumerate(texts):
        history, logits = [*PROMPT, *text], logits_of(seed)[0]
        before = logits.clone()
        assert torch.equal(process(logits, history), openai_penalties(settings, logits, text))
        found = penalised(logits, counts.before(history, CPU), penalty)
        assert torch.equal(found, by_transformers(torch.tensor([history]), logits[None].clone())[0])  # type: ignore[arg-type]
        assert torch.equal(logits, before)


def test_biases_are_added_and_unknown_tokens_left_out() -> None:
    logits = logits_of(2)[0]
    changed = biases(LogitsSettings(logit_bias=((3, 50.0), (4, -100.0), (999, 1.0))), VOCABULARY)(
        logits, PROMPT
    )
    assert int(changed.argmax()) == 3 and int(changed.argmin()) == 4
    rest = [token for token in range(VOCABULARY) if token not in (3, 4)]
    assert torch.equal(changed[rest], logits[rest])


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, seed=5)])
def test_a_row_depends_on_its_own_path_and_not_on_the_rows_beside_it(sampling: Sampling) -> None:
    settings = LogitsSettings(frequency_penalty=1.5)
    sampler = make_sampler(sampling, processes=[penalties(settings, len(PROMPT))])
    rows, paths = logits_of(3, rows=4), ([*PROMPT], [*PROMPT, 4], [*PROMPT, 4, 4], [*PROMPT, 9])
    together = sampler(rows)
    for row in (2, 0, 3, 1):
        assert together.choose(row, paths[row]) == sampler(rows[row : row + 1]).choose(0, paths[row])


class Uploads(TorchFunctionMode):
    """Counts copies from the host to a device: whether each is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[bool] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        found = func(*args, **(kwargs or {}))
        sources = [one for one in args if isinstance(one, Tensor)]
        is_of_host = func is torch.tensor or (sources and all(one.is_cpu for one in sources))
        if isinstance(found, Tensor) and found.device == META and is_of_host:
            self.waits.append(not (kwargs or {}).get("non_blocking"))
        return found


def uploads_of_a_reply(process: Process, steps: int) -> list[list[bool]]:
    """Those of each step: three rows of it are asked for, two tokens are written with each."""
    history, logits, found = list(PROMPT), torch.empty(VOCABULARY, device=META), []
    for step in range(steps):
        with Uploads() as uploads:
            for row in range(3):
                process(logits, history)
                if row < 2:
                    history.append((7 * step + row) % VOCABULARY)
        found.append(uploads.waits)
    return found


def test_a_reply_uploads_each_of_its_penalties_once_and_waits_for_none() -> None:
    settings = LogitsSettings(0.5, 0.25, ((3, 2.0), (9, -1.0)))
    (ctrl,) = repetition_penalty(Sampling(repetition_penalty=1.2))
    for process in (penalties(settings, len(PROMPT)), biases(settings, VOCABULARY), ctrl):
        first, *others = uploads_of_a_reply(process, 20)
        assert first == [False]
        assert others == [[]] * 19


@pytest.mark.parametrize(
    "wrong",
    [{"frequency_penalty": 3}, {"presence_penalty": -3}, {"logit_bias": ((1, 200),)}, {"top_logprobs": 21}],
)
def test_impossible_settings_say_so(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="it is"):
        LogitsSettings(**wrong)  # type: ignore[arg-type]
