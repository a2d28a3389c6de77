"""Our kernels compile and link for real cards with the shapes of real models.

They fit, keep their registers, multiply on matrix units, and add in one order."""

from collections import Counter

import pytest

from app.engine.attention.backend_choice import AMPERE
from tests.engine.offline_compiler import HOPPER, LAPTOP, SHARED_MEMORY, Card, Compiled, compiled
from tests.tiers import named, some

Found = dict[Card, list[Compiled]]
ATTENTION, LAYERS = {"prefix_kernel", "finish_kernel"}, {"norm_kernel", "gate_kernel", "rotary_kernel"}
PACKED = {"packed_product_kernel", "packed_sum_kernel", "packed_rows_kernel"}
SAMPLING = {"scan_kernel", "choose_kernel"}
DEFAULT = (LAPTOP, HOPPER)
UNITS = {HOPPER: {"HGMMA"}, (10, 0): {"UTCHMMA", "HMMA"}}
"""Matrix instructions of cards that multiply the prefix by warpgroups, or narrow heads in tensor memory."""
SPILLED = {
    ((10, 0), "prefix_kernel"): 8,
    ((10, 0), "packed_product_kernel"): 8,
    ((12, 0), "packed_product_kernel"): 16,
}
"""Bytes a thread that a few kernels spill on new cards (docs/notes/2026-11-attention.md)."""
pytestmark = pytest.mark.timeout(7200)  # with --thorough it compiles some thousand kernels


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the launches are compiled to for each card: a few for two cards, or all for all."""
    is_thorough = request.config.getoption("--thorough")
    cards, launches = (tuple(SHARED_MEMORY), "all") if is_thorough else (DEFAULT, "default")
    return compiled("tests.engine.real_shapes", cards, tmp_path_factory.mktemp("triton"), launches)


@pytest.fixture(params=some(named(SHARED_MEMORY), *map(str, DEFAULT)))
def card(request: pytest.FixtureRequest) -> Card:
    chosen: Card = request.param
    return chosen


@pytest.fixture
def kernels(found: Found, card: Card) -> list[Compiled]:
    return found[card]


def test_every_kernel_fits_and_keeps_its_registers(card: Card, kernels: list[Compiled]) -> None:
    assert kernels
    assert [each for each in kernels if each.shared > SHARED_MEMORY[card]] == []
    assert [each for each in kernels if each.spilled > SPILLED.get((card, each.kernel), 0)] == []


@pytest.mark.thorough
def test_older_cards_get_no_kernels_of_attention_and_layers(card: Card, kernels: list[Compiled]) -> None:
    newer = ATTENTION | LAYERS | {"fold_kernel"} if card >= AMPERE else set()
    assert {each.kernel for each in kernels} == SAMPLING | PACKED | newer


def test_half_precision_is_multiplied_by_matrix_units_and_float32_is_not(
    card: Card, kernels: list[Compiled]
) -> None:
    for each in kernels:
        is_product = each.kernel in (*ATTENTION, "packed_product_kernel") and each.launch.endswith("half")
        units = UNITS.get(card, {"HMMA"}) if each.kernel == "prefix_kernel" else {"HMMA"}
        found = {name.split(".")[0] for name in each.instructions}
        if is_product and card >= AMPERE:
            assert len(found) == 1 and found <= units, each
        else:
            assert not found, each


def test_a_long_prompt_in_pieces_needs_no_kernel_of_its_own(kernels: list[Compiled]) -> None:
    compiled_once = Counter((each.launch, each.kernel) for each in kernels if each.kernel in ATTENTION)
    assert set(compiled_once.values()) <= {1}


@pytest.mark.thorough
def test_few_rows_by_spans_and_many_by_groups_add_in_one_order(kernels: list[Compiled]) -> None:
    prefix = {each.launch: each for each in kernels if each.kernel == "prefix_kernel"}
    for launch, groups in prefix.items():
        spans = prefix[launch.replace("groups", "spans")]
        assert (spans.sums, spans.instructions) == (groups.sums, groups.instructions), launch
        # Two products, which may be alike, and the sum of the weights.
        assert len(spans.sums) >= 2


def test_a_norm_adds_in_one_order_alone_and_after_a_sum(kernels: list[Compiled]) -> None:
    """So the residual sum that is fused to a norm changes none of the norm's bits."""
    for launch in {each.launch for each in kernels if ", norms" in each.launch}:
        orders = [each.sums for each in kernels if each.launch == launch]
        assert len(orders) == 2 and orders[0] == orders[1] != (), launch
