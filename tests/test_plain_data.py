"""Plain data, comparison and drawing."""

from __future__ import annotations

import collections
import enum
import math
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from comparing import find_difference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from helpers.drawing import Draw
from helpers.plain import NotPlainError, describe, one_line, plain_copy

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


# --- Right values of a kind that is close enough -----------------------------------------------


class Liar:
    """Answers every question with a lie; only what it is made of tells the truth."""

    def _lie(self, *args: object) -> object:
        return 42

    __float__ = __int__ = __index__ = __abs__ = __pos__ = __trunc__ = __complex__ = _lie
    __str__ = __repr__ = __format__ = lambda self, *args: "a lie"
    __len__ = __getitem__ = items = keys = values = get = tolist = item = copy = _lie
    __hash__ = _lie

    def __iter__(self) -> Iterator:
        return iter([42])

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


class LyingFloat(Liar, float): ...


class LyingInt(Liar, int): ...


class LyingComplex(Liar, complex): ...


class LyingStr(Liar, str): ...


class LyingList(Liar, list): ...


class LyingTuple(Liar, tuple): ...


class LyingDict(Liar, dict): ...


class Color(enum.IntEnum):
    RED = 3


class Shade(enum.StrEnum):
    DARK = "dark"


Point = collections.namedtuple("Point", "x y")


def same(one: object, other: object) -> bool:
    """Tell whether two values are the same, with the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(-0.0), -0.0),
        (np.float64("nan"), math.nan),
        (np.float32(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.int64(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.longlong(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.complex64(1 + 2j), 1 + 2j),
        (np.complex128(complex(-0.0, 1)), complex(-0.0, 1)),
        (Color.RED, 3),
        (Shade.DARK, "dark"),
        (Point(1, np.float32(2)), (1, 2.0)),
        (torch.Size([2, 3]), (2, 3)),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.defaultdict(list, a=[np.int8(1)]), {"a": [1]}),
        ({np.int64(1): 1, Color.RED: 2, np.str_("a"): 3}, {1: 1, 3: 2, "a": 3}),
        ([np.float64(1), [np.bool_(False)]], [1.0, [False]]),
        (LyingFloat(1.5), 1.5),
        (LyingInt(7), 7),
        (LyingInt(2**70), 2**70),
        (LyingComplex(1 + 2j), 1 + 2j),
        (LyingStr("truth"), "truth"),
        (LyingList([1, 2]), [1, 2]),
        (LyingTuple((1, 2)), (1, 2)),
        (LyingDict(a=1), {"a": 1}),
        (LyingList([LyingDict({LyingStr("a"): LyingTuple((LyingInt(7),))})]), [{"a": (7,)}]),
    ],
    ids=lambda value: type.__repr__(type(value))[:60],
)
def test_subclasses_and_numbers_of_numpy_become_exact_python(
    value: object, expected: object
) -> None:
    assert same(plain_copy(value), expected)


def test_a_bool_is_no_int_and_an_int_no_float() -> None:
    for got, expected in ((np.bool_(True), 1), (np.int64(1), True), (np.int64(1), 1.0)):
        difference = find_difference(plain_copy(got), expected)
        assert difference is not None
        assert "came back, expected" in difference


def test_what_torch_returns_by_name_is_a_tuple() -> None:
    numbers = torch.tensor([[1.0, 3.0], [5.0, 2.0]])
    got = plain_copy(numbers.max(dim=1))
    assert type(got) is tuple
    assert find_difference(got, (torch.tensor([3.0, 5.0]), torch.tensor([1, 0]))) is None


class LyingNumber(Liar, np.float32): ...


class EqualToEveryKind(type):
    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(np.float32)

    def __subclasscheck__(cls, other: type) -> bool:
        return True


class LooksLikeAll(metaclass=EqualToEveryKind): ...


@pytest.mark.parametrize(
    "value",
    [
        object(),
        LyingNumber(1),
        LooksLikeAll(),
        {1.5: 2},
        {np.float64(1): 2},
        {(1, 2): 2},
        {"a": [object()]},
        np.timedelta64(1, "s"),
        np.datetime64("2020-01-01"),
        np.bytes_(b"a"),
        np.ones(2).view(np.recarray),
        np.ma.masked_array([1.0]),
        torch.ones(2).as_subclass(type("Tensor", (torch.Tensor,), {})),
        lambda: 1,
        b"bytes",
        {1},
        range(3),
    ],
    ids=lambda value: type.__repr__(type(value))[:60],
)
def test_what_is_not_plain_is_refused(value: object) -> None:
    with pytest.raises(NotPlainError):
        plain_copy(value)


@pytest.mark.parametrize(
    ("make", "mend"),
    [
        (lambda: torch.eye(2).to_sparse(), ".to_dense()"),
        (lambda: torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8), ".dequantize()"),
    ],
    ids=["sparse", "quantized"],
)
@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_a_tensor_of_another_layout_is_refused_with_what_mends_it(
    make: Callable[[], torch.Tensor], mend: str
) -> None:
    tensor = make()
    assert describe(tensor).startswith(("float32 tensor", "qint8 tensor"))
    with pytest.raises(NotPlainError, match=re.escape(mend)):
        plain_copy(tensor)


def test_a_tensor_or_array_with_one_number_is_no_number_and_the_message_says_what_is() -> None:
    for got in (torch.tensor(1.0), np.array(1.0)):
        difference = find_difference(got, 1.0)
        assert difference is not None
        assert difference.endswith("came back, expected a float: `.item()` returns a Python number")
    assert "item" not in str(find_difference(torch.ones(2), 1.0))
    assert "item" not in str(find_difference(torch.tensor(1.0), torch.ones(2)))


# --- Tensors on other devices ------------------------------------------------------------------


def test_a_tensor_on_another_device_is_described_and_compared_in_words() -> None:
    elsewhere = plain_copy(torch.ones(3, device="meta"))
    assert elsewhere.is_meta
    assert describe([elsewhere]) == "[float32 tensor of shape (3,) on meta]"
    for expected in (torch.ones(3), torch.ones(2, 3), torch.ones(3, dtype=torch.int64)):
        assert find_difference({"a": elsewhere}, {"a": expected}) == (
            "at ['a']: a tensor on meta came back, expected one on the CPU"
        )
    assert find_difference(torch.ones(3), elsewhere) == (
        "a tensor on the CPU came back, expected one on meta"
    )
    assert find_difference(elsewhere, [1]) == (
        "a float32 tensor of shape (3,) on meta came back, expected a list"
    )


def test_tensors_without_numbers_differ_by_shape_and_dtype_alone() -> None:
    expected = torch.ones(3, device="meta")
    assert find_difference(torch.zeros(3, device="meta"), expected) is None
    assert find_difference(torch.zeros(2, device="meta"), expected) == (
        "a float32 tensor of shape (2,) on meta came back, "
        "expected a float32 tensor of shape (3,) on meta"
    )


# --- Drawing -----------------------------------------------------------------------------------


def everything_drawn() -> list[object]:
    draw = Draw(3)
    tensors = [
        draw.normal(2, 3),
        draw.uniform(3, dtype=torch.float16),
        draw.integers(4, low=0, high=9),
        draw.booleans(5),
        draw.permutation(6),
    ]
    assert all(tensor.device.type == "cpu" for tensor in tensors)
    return [*tensors, draw.integer(0, 9), draw.number(0.0, 1.0)]


def test_a_notebooks_default_device_and_dtype_change_no_draw() -> None:
    expected = everything_drawn()
    try:
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        got = everything_drawn()
        difference = find_difference(torch.zeros(2, device="cpu"), torch.ones(2, device="cpu"))
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert find_difference(got, expected, rtol=0.0, atol=0.0) is None
    assert difference is not None
    assert "2 of 2 values differ" in difference


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


# --- Too much of it ---------------------------------------------------------------------------


def nested(levels: int, width: int = 1) -> list:
    value: list = []
    for _ in range(levels - 1):
        value = [value] * width
    return value


TOO_MUCH = {
    "a list in itself": (itself := [1]).append(itself) or itself,
    "lists of lists of lists": nested(150),
    "few lists, each many times in the next": nested(40, width=24),
    "more numbers than a million": [0.0] * 1_000_001,
    "a tensor of 33 dimensions": torch.ones([1] * 33),
    "a tensor of 60,000 dimensions": torch.ones([1] * 60_000),
}


@pytest.mark.parametrize("value", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_too_much_is_refused_before_it_is_walked_over(value: object) -> None:
    with pytest.raises(NotPlainError, match=r"^it (holds|has) .*more than \d+"):
        plain_copy([value])


LARGE = {
    "a long integer": (10**4999, "(an integer of 16607 bits)"),
    "a negative long integer": (-(10**4999), "(an integer of 16607 bits)"),
    "a long key": ({"k" * 10**6: 1}, "{" + "k" * 399),
    "a long integer as key": ({10**4999: 1}, "{(an integer of 16607 bits): 1}"),
    "lists without an end": (itself, "[1, [1, [1, "),
    "one list many times": (nested(60, width=24), "[" * 60),
    "texts": (["x" * 10**6] * 24, "['" + "x" * 398),
    "half characters": ("\ud800" * 3, r"'\ud800\ud800\ud800'"),
    "an array of objects": (np.array([object()]), "object array of shape (1,)"),
    "bytes in the other order": (np.array([1.0], ">f4"), ">f4 array of shape (1,)"),
    "an array of records": (np.zeros(2, [("f" * 900, "f4")]), "[('" + "f" * 390),
}


@pytest.mark.parametrize(("value", "begins"), LARGE.values(), ids=LARGE.keys())
def test_what_is_large_is_described_in_a_line(value: object, begins: str) -> None:
    described = describe(value)
    assert described.startswith(begins)
    assert len(described) < 900
    assert described.isprintable()


def test_large_values_that_differ_are_told_in_a_line() -> None:
    many = dict.fromkeys(range(10**5)) | {10**4999: None, "k" * 10**6: None}
    for got, expected in ((10**4999, 5), (many, {"a": 1}), ("x" * 10**6, "y")):
        difference = find_difference(got, expected)
        assert difference is not None
        assert len(difference) < 2_000


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_integers_that_torch_hardly_computes_with_are_described_and_compared(
    dtype: torch.dtype,
) -> None:
    values = torch.arange(30).to(dtype)
    assert describe(values) == f"{str(dtype)[6:]} tensor of shape (30,): from 0 to 29"
    other = torch.tensor([*range(29), 30]).to(dtype)
    assert find_difference(other, values) == (
        "1 of 30 values differ; at [29]: 30 came back, expected 29"
    )


def test_a_large_tensor_is_described_as_a_small_one() -> None:
    numbers = torch.full((3, 2**20), 2.0)
    numbers[0, 0], numbers[1, 1], numbers[2, 2], numbers[2, 3] = -7.0, 9.0, math.nan, -math.inf
    assert describe(numbers).endswith(": from -7 to 9, 1 nan, 1 -inf")
    assert describe(numbers.T).endswith(": from -7 to 9, 1 nan, 1 -inf")
    assert describe(torch.full((2**21,), math.inf)).endswith(f": {2**21} inf")
    assert describe(torch.arange(2**21)).endswith(f": from 0 to {2**21 - 1:.4g}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([0.0, 5.0, -2.0], "[0.0, 5.0, -2.0]"),
        (1e20, "1e+20"),
        (5.0, "5"),
        ([0.5], "[0.5]"),
        (math.inf, "inf"),
        (math.nan, "nan"),
        ([0, 5], "[0, 5]"),
    ],
)
def test_a_float_among_others_does_not_look_like_an_int(value: object, text: str) -> None:
    assert describe(value) == text


def test_a_line_has_no_colors_of_a_terminal() -> None:
    assert one_line("only \x1b[1mif\x1b[0m you trust\nit\x07") == "only if you trust it�"


def test_a_line_keeps_spaces_and_no_other_blanks() -> None:
    assert one_line("for 'a,  b ,   c': 3 came back") == "for 'a,  b ,   c': 3 came back"
    assert describe({"a  b": "c   d"}) == "{a  b: 'c   d'}"
    assert one_line(" they\n    differ \t at\u2028 \x0b\x85 1  \r\n") == "they differ at 1"
    assert len(one_line("a" + " " * 600 + "b")) == 401
