"""The picture of a step is of one piece."""

import pytest

from app.values.reply_statistics import Margin, Origin, StepTrace

MODEL: tuple[Origin, ...] = ("model",)


@pytest.mark.parametrize(
    ("parents", "origins", "said"), [((), MODEL, (8,)), ((-1,), (), (8,)), ((-1,), MODEL, (8, 9))]
)
def test_every_row_has_a_parent_an_origin_and_a_word_of_the_model(
    parents: tuple[int, ...], origins: tuple[Origin, ...], said: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="each row needs one parent"):
        StepTrace((7,), parents, origins, said)


@pytest.mark.parametrize("accepted", [(0, 1), (-1,)])
def test_only_rows_are_accepted(accepted: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="accepted rows must exist"):
        StepTrace((7,), (-1,), MODEL, (8,), accepted)


def test_the_likeliest_token_leads() -> None:
    assert Margin("a", "b", 0.0).margin == 0
    with pytest.raises(ValueError, match="the margin must not be negative"):
        Margin("a", "b", -0.5)
