"""Numbers about models, for people."""

import pytest

from app.values.model import parameters_label


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (512, "512"),
        (260_000, "260K"),
        (7_300_000, "7.3M"),
        (7_340_000, "7.3M"),
        (134_515_008, "135M"),
        (999_885_952, "1B"),
        (1_720_574_976, "1.7B"),
        (7_000_000_000, "7B"),
        (8_030_261_248, "8B"),
    ],
)
def test_parameters_are_counted_as_models_are_named(count: int, words: str) -> None:
    assert parameters_label(count) == words
