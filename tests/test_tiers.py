"""The default tier of a product holds what it says, and the rest is marked."""

from itertools import combinations, product

import pytest

from tests.tiers import Case, covering, named, pairwise, some, tiered

IDS = [tuple("abcdefg"), tuple("xyz"), tuple("1234")]


def pairs(cases: set[Case]) -> set[object]:
    return {pair for case in cases for pair in combinations(enumerate(case), 2)}


def by_default(mark: pytest.MarkDecorator) -> dict[str, bool]:
    """Each case's id, and whether it runs without --thorough."""
    return {case.id: not case.marks for case in mark.args[1]}


def test_every_pair_of_values_is_covered_by_few_cases() -> None:
    chosen = covering(IDS)
    assert pairs(chosen) == pairs(set(product(*IDS)))
    assert len(chosen) <= 30, "the two longest lists alone make 28 pairs; there are 84 cases"


def test_what_is_not_looked_at_in_depth_is_there_once_with_all_kinds_of_others() -> None:
    chosen = covering(IDS, deep={"a"})
    deep = {case for case in chosen if case[0] == "a"}
    assert pairs(deep) == pairs(set(product("a", *IDS[1:])))
    others = chosen - deep
    assert sorted(case[0] for case in others) == list("bcdefg")
    assert {case[1] for case in others} == set("xyz")
    assert {case[2] for case in others} == set("1234")


def test_the_choice_is_always_the_same() -> None:
    assert covering(IDS) == covering(IDS)


def test_the_whole_product_is_there_and_what_was_not_chosen_is_thorough() -> None:
    found = by_default(pairwise(letter=named("abc"), number=named((1, 2)), deep={"b"}))
    assert list(found) == ["a-1", "a-2", "b-1", "b-2", "c-1", "c-2"]
    assert found["b-1"] and found["b-2"]
    assert sum(found.values()) == 4
    assert by_default(tiered(lambda letter: letter == "a", letter=named("ab"))) == {"a": True, "b": False}


def test_a_default_that_does_not_exist_is_named() -> None:
    assert [bool(each.marks) for each in some(named("ab"), "b")] == [True, False]
    with pytest.raises(AssertionError, match=r"\('c',\) are not all among \['a', 'b'\]"):
        some(named("ab"), "c")
