"""Recall, reciprocal ranks, and how sure one can be of them."""

import numpy as np
import pytest

from tools.retrieval.measuring import measured, recalls, reciprocals


def test_an_answer_counts_among_the_first_five() -> None:
    assert recalls([1, 5, 6, 0]).tolist() == [1, 1, 0, 0]


def test_a_rank_earns_its_reciprocal_up_to_the_tenth() -> None:
    assert reciprocals([1, 4, 10, 11, 0]).tolist() == [1, 0.25, 0.1, 0, 0]


def test_an_interval_holds_its_mean_and_narrows_with_more_questions() -> None:
    few, many = measured(np.array([0.0, 1.0] * 10)), measured(np.array([0.0, 1.0] * 1000))
    assert few.mean == many.mean == 0.5
    assert few.low < many.low < 0.5 < many.high < few.high
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(2000), rel=0.1)


def test_where_all_agree_there_is_no_doubt() -> None:
    assert str(measured(np.ones(20))) == "1.000 [1.000, 1.000]"
