"""Penalties and biases as OpenAI defines them, on each row's own path; log probabilities of what was chosen."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.engine.sampling.logits_processing import LogprobsRecorder, biases, penalties
from app.engine.sampling.sampling import make_sampler
from app.values.logits import LogitsSettings
from app.values.messages import Sampling
from tests.engine.simulated_graphs import Waits

VOCABULARY = 12
PROMPT = [1, 1, 2]


def logits_of(seed: int, rows: int = 1) -> torch.Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed))


@given(
    written=st.lists(st.integers(0, VOCABULARY - 1), max_size=8),
    frequency=st.floats(-2, 2),
    presence=st.floats(-2, 2),
)
def test_penalties_count_the_replys_own_tokens(written: list[int], frequency: float, presence: float) -> None:
    settings = LogitsSettings(frequency, presence)
    logits = logits_of(1)[0]
    changed = penalties(settings, len(PROMPT))(logits, [*PROMPT, *written])
    for token in range(VOCABULARY):
        times = written.count(token)
        expected = float(logits[token]) - times * frequency - (times > 0) * presence
        assert float(changed[token]) == pytest.approx(expected, abs=1e-5)


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
    sampler = make_sampler(sampling, [penalties(settings, len(PROMPT))])
    rows, paths = logits_of(3, rows=4), ([*PROMPT], [*PROMPT, 4], [*PROMPT, 4, 4], [*PROMPT, 9])
    together = sampler(rows)
    for row in (2, 0, 3, 1):
        assert together.choose(row, paths[row]) == sampler(rows[row : row + 1]).choose(0, paths[row])


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, seed=5)])
def test_recording_changes_no_choice_and_tells_the_models_own_probabilities(sampling: Sampling) -> None:
    rows = logits_of(4, rows=3)
    recorder = LogprobsRecorder(make_sampler(sampling), 2, lambda ids: tuple(f"t{token}" for token in ids))
    choices, plain = recorder(rows), make_sampler(sampling)(rows)
    path = list(PROMPT)
    for row in range(3):
        token = choices.choose(row, path)
        assert token == plain.choose(row, path)
        path.append(token)
    for row, found in enumerate(recorder.take(len(PROMPT), 3)):
        expected = rows[row].log_softmax(dim=-1)
        assert found.chosen.text == f"t{path[len(PROMPT) + row]}"
        assert found.chosen.logprob == pytest.approx(float(expected[path[len(PROMPT) + row]]))
        assert [one.text for one in found.likeliest] == [
            f"t{token}" for token in expected.topk(2).indices.tolist()
        ]


def test_log_probabilities_of_a_chosen_token_come_in_one_copy() -> None:
    rows = logits_of(4, rows=3)
    recorder = LogprobsRecorder(make_sampler(Sampling()), 2, lambda ids: tuple(map(str, ids)))
    choices = recorder(rows)
    with Waits():  # whoever asks for a number waits for the device; a list of them is one copy
        tokens = [choices.choose(row, PROMPT + [0] * row) for row in range(3)]
    assert tokens == rows.argmax(-1).tolist()


@pytest.mark.parametrize(
    "wrong",
    [{"frequency_penalty": 3}, {"presence_penalty": -3}, {"logit_bias": ((1, 200),)}, {"top_logprobs": 21}],
)
def test_impossible_settings_say_so(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="got"):
        LogitsSettings(**wrong)  # type: ignore[arg-type]
