"""Which backend a model gets, machine by machine."""

import sys
from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from app.engine.attention import backend_choice
from app.engine.attention.backend_choice import (
    GPU_LIMIT,
    INTERPRETED,
    SDPA,
    DeviceCapabilities,
    HeadShape,
    choose_attention,
    refusal,
    slowness_of_triton,
)
from app.engine.machine.kernel_timing import Run, Timer
from app.errors import AttentionUnavailable
from app.values.messages import AttentionChoice, AttentionName
from tests.engine.attention.backends import interprets_triton

CPU = DeviceCapabilities(torch.device("cpu"), has_triton=True, trials=INTERPRETED)
CARD = DeviceCapabilities(torch.device("cuda"), (9, 0), 232_448, has_triton=True, has_flash=True)
LLAMA = HeadShape(32, 8, 128, torch.bfloat16)
FEW_HEADS = HeadShape(4, 2, 16, torch.float32)


def test_a_cpu_has_torchs_own() -> None:
    assert choose_attention("auto", CPU, LLAMA) is SDPA
    assert choose_attention("sdpa", CPU, LLAMA) is SDPA
    assert SDPA.attend is not SDPA.batch_invariant


@pytest.mark.parametrize("name", ["triton", "flash", "sdpa"])
def test_a_new_card_with_the_packages_may_have_any(name: AttentionName) -> None:
    assert refusal(name, CARD, LLAMA) == ""


@pytest.mark.parametrize(
    ("name", "machine", "heads", "words"),
    [
        ("triton", replace(CARD, has_triton=False), LLAMA, "not installed"),
        ("flash", replace(CARD, has_flash=False), LLAMA, "not installed"),
        ("flash", CPU, LLAMA, "not installed"),
        ("triton", replace(CARD, capability=(7, 5)), LLAMA, "Ampere"),
        ("triton", CARD, replace(LLAMA, size=512), "512 values, and it takes at most 256"),
        ("flash", CARD, replace(LLAMA, dtype=torch.float32), "bfloat16 or float16"),
        ("flash", CARD, replace(LLAMA, size=100), "multiple of 8"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(
    name: AttentionName, machine: DeviceCapabilities, heads: HeadShape, words: str
) -> None:
    assert words in refusal(name, machine, heads)
    with pytest.raises(AttentionUnavailable, match=r"cannot be used here: .*Choose auto\."):
        choose_attention(name, machine, heads)


@pytest.mark.parametrize("choice", ["auto", "sdpa"])
def test_a_card_with_torchs_attention_has_a_limit_for_the_cost_of_the_same_text(
    choice: AttentionChoice,
) -> None:
    card = replace(CARD, has_triton=False, has_flash=False)
    assert choose_attention(choice, card, LLAMA).same_text_limit == GPU_LIMIT


def test_an_old_card_without_packages_has_torchs_own() -> None:
    found = choose_attention("auto", replace(CARD, has_triton=False, has_flash=False), LLAMA)
    assert (found.name, found.note) == ("sdpa", "triton: it is not installed for this device")


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (replace(CARD, capability=(7, 5)), "triton: it needs a GPU of the Ampere generation or newer"),
        (replace(CARD, is_rocm=True, has_flash=False), "triton: it was never tried on AMD's GPUs"),
    ],
)
def test_every_refusal_is_a_note(machine: DeviceCapabilities, words: str) -> None:
    assert choose_attention("auto", machine, LLAMA).note.startswith(words)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card to try them on")
def test_what_fails_its_trial_is_passed_over_and_named() -> None:
    found = choose_attention("auto", CARD, LLAMA)
    assert found.name == "sdpa"
    assert found.attend is SDPA.attend
    assert "triton: its trial failed" in found.note
    assert "flash" not in found.note, "it is used only by its name"
    with pytest.raises(AttentionUnavailable, match="its trial failed"):
        choose_attention("triton", CARD, LLAMA)


def test_triton_is_told_the_cards_multiprocessors_and_tried_by_spans_and_by_groups() -> None:
    """In its interpreter, because it was asked for on a CPU."""
    if not interprets_triton():
        pytest.skip("triton was imported for a card")
    found = choose_attention("triton", replace(CPU, multiprocessors=40), FEW_HEADS)
    assert found.name == "triton" and found.attend is found.batch_invariant
    attends = (found.attend, *found.variants)
    assert [cast(Any, attend).fused.busy for attend in attends] == [80, sys.maxsize, 1, sys.maxsize]


def test_attention_that_is_slower_than_torchs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = replace(SDPA, name="triton")
    slow = "it takes 5.0 times as long as torch's for 1 row after 4,096 tokens"
    monkeypatch.setattr(backend_choice, "_try_backend", lambda *_asked: ours)
    monkeypatch.setattr(backend_choice, "slowness_of_triton", lambda *_asked: slow)
    found = choose_attention("auto", CARD, LLAMA)
    assert (found.name, found.note, found.same_text_limit) == ("sdpa", f"triton: {slow}", GPU_LIMIT)
    assert choose_attention("triton", CARD, LLAMA) is ours, "it was chosen by name"
    monkeypatch.setattr(backend_choice, "slowness_of_triton", lambda *_asked: "")
    assert choose_attention("auto", CARD, LLAMA) is ours


def test_attention_is_timed_with_the_models_heads_once() -> None:
    if not interprets_triton():
        pytest.skip("triton was imported for a card")
    timed: list[torch.Size] = []

    def timer(seconds: float) -> Timer:
        def time(run: Run) -> float:
            out = run()
            assert isinstance(out, torch.Tensor)
            timed.append(out.shape)
            return seconds

        return time

    ours, torchs = timer(5e-3), timer(1e-3)
    for _ in range(2):
        slow = slowness_of_triton(CPU, FEW_HEADS, ours, torchs, ((1, 40), (3, 40)))
        assert slow == "it takes 5.0 times as long as torch's for 1 row after 40 tokens"
    assert timed == [torch.Size((1, 1, 4, 16))] * 2
    assert slowness_of_triton(CPU, FEW_HEADS, torchs, ours, ((1, 40), (3, 40))) == ""
    assert timed[2:] == [torch.Size((1, rows, 4, 16)) for rows in (1, 1, 3, 3)]
