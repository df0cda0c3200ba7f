"""What all wrong values of a tensor have in common is named, and nothing else is."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.comparison import compare
from helpers.grading.report.kinds import kind_of_problem
from helpers.pattern import pattern_of

X = torch.tensor([[0.5, -2.0, 3.0], [0.0, 7.25, -1.0]])


@pytest.mark.parametrize(
    ("got", "told"),
    [
        (2 * X, "each is 2 times what was expected"),
        (X / 3, "each is 0.3333 times what was expected"),
        (-4 * X, "each is -4 times what was expected"),
        (-X, "each has the other sign"),
        (0 * X, "each is 0"),
        (X + 1, "each is 1 too large"),
        (X - 0.25, "each is 0.25 too small"),
        (X.flip(0), "they are the expected ones in another order"),
        (X.mT.reshape(2, 3), "they are the expected ones in another order"),
        (X * torch.tensor([1.0, 2.0, 1.0]), ""),
        (X.square(), ""),
        (X + 1e-5 * X.cos(), ""),
        (0.9985 * X, ""),
        (torch.where(X == 0, 1e-4, 2 * X), ""),
        (torch.full_like(X, torch.nan), ""),
        (torch.full_like(X, 2.0), ""),
    ],
)
def test_what_the_values_have_in_common_is_told(got: torch.Tensor, told: str) -> None:
    assert pattern_of(got, X) == told


def test_integers_have_patterns_too_and_booleans_and_few_values_have_none() -> None:
    whole = torch.tensor([3, 5, 9, 4])
    assert pattern_of(whole + 1, whole) == "each is 1 too large"
    assert pattern_of(whole.flip(0), whole) == "they are the expected ones in another order"
    assert pattern_of(whole == 3, whole == 5) == ""
    assert pattern_of(whole[:2] * 2, whole[:2]) == ""


def test_where_all_are_to_be_alike_a_factor_is_no_more_likely_than_a_shift() -> None:
    assert pattern_of(torch.full((5,), 6.0), torch.full((5,), 2.0)) == ""


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_factor_is_seen_through_the_roundings_of_a_dtype(dtype: torch.dtype) -> None:
    values = torch.linspace(-3, 4, 50).to(dtype)
    told = pattern_of(values * 8, values)
    assert told == "each is 8 times what was expected"


@settings(max_examples=200)
@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=4, max_size=30, unique=True),
    st.integers(0, 2**32),
)
def test_noise_has_no_pattern(numbers: list[float], seed: int) -> None:
    expected = torch.tensor(numbers)
    noise = torch.randn(len(numbers), generator=torch.Generator().manual_seed(seed))
    assert pattern_of(expected + 500 * noise, expected) == ""


def test_a_difference_that_float64_loses_is_no_shift() -> None:
    numbers = torch.arange(2**60, 2**60 + 5)
    assert pattern_of(numbers + 98, numbers) == ""


def test_it_stands_in_the_difference_and_in_the_kind_of_the_problem() -> None:
    difference = compare(2 * X, X)
    assert difference.sentence == (
        "5 of 6 values differ: each is 2 times what was expected; "
        "at [1, 1]: 14.5 came back, expected 7.25"
    )
    of_two = compare([X, 2 * X], [X, X])
    assert of_two.sentence == (
        "5 of 6 values of [1] differ: each is 2 times what was expected; "
        "at [1][1, 1]: 14.5 came back, expected 7.25"
    )
    for sentence in (difference.sentence, of_two.sentence):
        kind = kind_of_problem(f"the gradient by x: {sentence}")
        assert kind == "the gradient by x: each is N times what was expected"


def test_values_that_are_each_a_little_off_have_no_factor_in_common() -> None:
    expected = torch.tensor([0.00168896, -0.0021, 0.0009, 0.0031])
    off = expected * torch.tensor([0.9960, 0.9945, 0.9937, 0.9951])
    assert pattern_of(off, expected) == ""
    assert pattern_of(0.995 * expected, expected) == "each is 0.995 times what was expected"
