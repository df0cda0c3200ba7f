"""Plain data, comparison and drawing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from helpers.comparison import find_difference
from helpers.drawing import Draw
from helpers.plain import NotPlainError, describe, plain_copy

numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers() | st.booleans()
leaves = (
    numbers
    | st.none()
    | st.text(max_size=5)
    | npst.arrays(np.float64, npst.array_shapes(max_dims=3, max_side=4)).map(torch.from_numpy)
    | npst.arrays(np.int32, npst.array_shapes(max_dims=2, max_side=4))
)
plain_values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


@given(plain_values)
def test_a_copy_equals_its_original(value: object) -> None:
    assert find_difference(plain_copy(value), value, rtol=0.0, atol=0.0) is None


@given(plain_values)
def test_everything_plain_can_be_described_on_one_line(value: object) -> None:
    described = describe(value)
    assert "\n" not in described or "\n" in str(value)


@given(npst.arrays(np.float32, (2, 3), elements=st.floats(-1e3, 1e3, width=32)), st.data())
def test_one_wrong_element_is_found_and_named(array: np.ndarray, data: st.DataObject) -> None:
    expected = torch.from_numpy(array)
    row, column = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 2))
    got = expected.clone()
    got[row, column] += 1 + abs(got[row, column]) * 1e-3
    difference = find_difference(got, expected)
    assert difference is not None
    assert f"at [{row}, {column}]" in difference
    assert difference.startswith("1 of 6 values differ")


def test_nan_and_inf_must_be_where_they_are_expected() -> None:
    expected = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0])
    assert find_difference(expected.clone(), expected) is None
    for place, value in ((0, 1.0), (1, -torch.inf), (2, torch.nan), (3, torch.inf)):
        got = expected.clone()
        got[place] = value
        assert find_difference(got, expected) is not None


def test_a_copy_shares_no_memory_and_no_graph() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    copy = plain_copy(parameter * 2)
    assert type(copy) is torch.Tensor
    assert not copy.requires_grad
    assert type(plain_copy(parameter)) is torch.Tensor
    view = torch.arange(4.0)
    plain_copy(view)[0] = 9
    assert view[0] == 0


class SneakyFloat(float):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


@pytest.mark.parametrize(
    "value",
    [object(), SneakyFloat(1), {1.5: 2}, {"a": [object()]}, np.float64(1), lambda: 1, b"bytes"],
)
def test_what_is_not_plain_is_refused(value: object) -> None:
    with pytest.raises(NotPlainError):
        plain_copy(value)


def test_draws_differ_each_time_and_repeat_with_a_seed() -> None:
    assert not torch.equal(Draw().normal(5), Draw().normal(5))
    assert torch.equal(Draw(7).normal(5), Draw(7).normal(5))


def test_drawing_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    draw = Draw()
    draw.normal(3, 4), draw.integers(2, low=0, high=9), draw.permutation(5), draw.number(0, 1)
    assert torch.equal(before, torch.get_rng_state())


def test_equal_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="repeat a number"):
        Draw().normal(3, 4, 3)
    assert Draw().normal(1, 3, 1).shape == (1, 3, 1)


@given(st.integers(0, 2**32), st.integers(-50, 50), st.integers(1, 50))
def test_integers_and_numbers_stay_inside_their_bounds(seed: int, low: int, width: int) -> None:
    draw = Draw(seed)
    drawn = draw.integers(7, low=low, high=low + width)
    assert drawn.dtype == torch.int64
    assert drawn.min() >= low
    assert drawn.max() < low + width
    assert low <= draw.integer(low, low + width) < low + width
    assert low <= draw.number(low, low + width) <= low + width
