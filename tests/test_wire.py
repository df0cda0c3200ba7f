"""What goes over the wire comes out as it went in, and nothing else gets through."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.grading.inside import wire
from helpers.grading.inside.wire import Name, Probe, WireError, decode, encode, lengths

MIB = 2**20
DTYPES = [
    torch.bool,
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.complex128),
]
ARRAY_DTYPES = "?bBhHiIlLefdFD"


def there(message: dict[str, Any], *, trusted: bool = False) -> dict[str, Any]:
    """Return ``message`` as the other side gets it."""
    text, blob = split(encode(message))
    return decode(text, blob, trusted=trusted)


def split(frame: bytes) -> tuple[bytes, bytes]:
    header = frame[: wire.HEADER.size]
    text, blob = lengths(header)
    assert len(frame) == len(header) + text + blob
    return frame[len(header) : len(header) + text], frame[len(header) + text :]


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same by type and to the last bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and raw(one) == raw(other)
    if isinstance(one, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and one.tobytes() == other.tobytes()
    if isinstance(one, float):
        bits = struct.pack("d", one), struct.pack("d", other)
        return bits[0] == bits[1] or (math.isnan(one) and math.isnan(other))
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one), list(other)) and all(same(one[k], other[k]) for k in one)
    return one == other


def raw(tensor: torch.Tensor) -> bytes:
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return dense.flatten().view(torch.uint8).numpy().tobytes()


def make_tensor(dtype: torch.dtype, shape: tuple[int, ...], content: bytes) -> torch.Tensor:
    if dtype is torch.bool:
        return make_tensor(torch.uint8, shape, content) > 127
    tensor = torch.empty(shape, dtype=dtype)
    size = tensor.numel() * tensor.element_size()
    filled = (content * (size // max(len(content), 1) + 1))[:size]
    if size:
        tensor = torch.frombuffer(bytearray(filled), dtype=dtype).reshape(shape)
    return tensor


shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
tensors = st.builds(
    make_tensor, st.sampled_from(DTYPES), shapes, st.binary(min_size=1, max_size=24)
)
arrays = st.builds(
    lambda kind, shape, seed: np.asarray(np.random.default_rng(seed).normal(0, 9, shape), kind),
    st.sampled_from("bhilefdFD"),
    shapes,
    st.integers(0, 99),
)
huge = st.integers(-(2**5000), 2**5000)
atoms = (
    st.none()
    | st.booleans()
    | huge
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from([math.nan, -0.0, math.inf, -math.inf, 2**53, 2**53 + 1, -(2**63), "\ud800"])
    | st.sampled_from([complex(-0.0, math.nan), complex(math.inf, -0.0)])
)
plain = st.recursive(
    atoms | tensors | arrays,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.booleans(), inner, max_size=4)
    ),
    max_leaves=12,
)


# --- What is plain goes through ---------------------------------------------------------------


@given(plain)
@settings(max_examples=300)
def test_plain_data_comes_out_as_it_went_in(value: Any) -> None:
    assert same(there({"value": value}), {"value": value})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3), (1, 1)], ids=str)
def test_every_dtype_and_shape_of_tensors(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = make_tensor(dtype, shape, bytes(range(7, 200)))
    assert same(there({"t": tensor})["t"], tensor)


@pytest.mark.parametrize("kind", ARRAY_DTYPES)
def test_every_dtype_of_arrays_in_any_layout(kind: str) -> None:
    array = np.arange(24).reshape(4, 6).astype(np.dtype(kind))
    for one in (array, array.T, array[::-1, ::2], array[:0], np.array(array[1, 1])):
        assert same(there({"a": one})["a"], one)


def test_names_probes_and_what_they_are_called_with() -> None:
    message = {"do": "call", "function": Probe("gradient"), "args": [Name("softmax"), 1.0]}
    assert there(message, trusted=True) == message


def test_views_of_one_memory_arrive_as_tensors_of_their_own() -> None:
    base = torch.arange(6.0)
    got = there({"views": [base, base[1:], base.view(2, 3), base]})["views"]
    got[0].fill_(9.0)
    assert [t.tolist() for t in got[1:]] == [
        [1, 2, 3, 4, 5],
        [[0, 1, 2], [3, 4, 5]],
        [0, 1, 2, 3, 4, 5],
    ]
    assert len({t.data_ptr() for t in got}) == 4


def test_what_needs_a_gradient_or_is_conjugate_arrives_as_plain_numbers() -> None:
    leaf = torch.ones(2, requires_grad=True)
    conjugate = torch.tensor([1 + 2j, 3 - 4j]).conj()
    negative = torch.tensor([1 + 2j]).conj().imag
    got = there({"a": leaf * 2, "b": conjugate, "c": negative})
    assert not got["a"].requires_grad
    assert got["a"].tolist() == [2, 2]
    assert got["b"].tolist() == [1 - 2j, 3 + 4j]
    assert got["c"].tolist() == [-2]
    assert not got["b"].is_conj()
    assert not got["c"].is_neg()


LAYOUTS = {
    "transposed": torch.arange(6.0).view(2, 3).T,
    "channels last": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "every second": torch.arange(12)[::2],
    "expanded": torch.arange(3.0).expand(4, 3),
    "overlapping": torch.arange(6.0).unfold(0, 3, 1),
    "complex, transposed": torch.randn(3, 4, dtype=torch.complex64).T,
    "boolean, transposed": (torch.randn(3, 4) > 0).T,
}


@pytest.mark.parametrize("tensor", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_a_layout_is_kept_from_a_trusted_sender_alone(tensor: torch.Tensor) -> None:
    trusted = there({"t": tensor}, trusted=True)["t"]
    assert same(trusted, tensor)
    assert trusted.stride() == tensor.clone().stride()  # what a test's input is, after its copying
    trusted.zero_()  # every element is its own
    other = there({"t": tensor})["t"]
    assert same(other, tensor)
    assert other.is_contiguous()


# --- What is not plain does not ---------------------------------------------------------------


class _List(list):
    pass


class _Tensor(torch.Tensor):
    pass


NOT_PLAIN = {
    "an object": object(),
    "a function": len,
    "a set": {1},
    "bytes": b"x",
    "a subclass": _List([1]),
    "a tensor's subclass": torch.ones(2).as_subclass(_Tensor),
    "a parameter": torch.nn.Parameter(torch.ones(1)),
    "a dtype": torch.float32,
    "a number of NumPy's": np.float64(1.0),
    "a sparse tensor": torch.eye(3).to_sparse(),
    "a tensor on no device": torch.empty(2, device="meta"),
    "an array of objects": np.array([object()]),
    "an array of strings": np.array(["a"]),
    "too large an integer": 2 ** (4 * 10_001),
    "too much text": "x" * (4 * MIB),
    "too many numbers": torch.empty(257 * MIB, dtype=torch.uint8),
    "too many tensors": [torch.empty(0)] * 30_000,
    "a tensor of too many dimensions": torch.ones([1] * 33),
    "too many integers as keys": dict.fromkeys(range(20_000)),
    "too many long integers as keys": dict.fromkeys(range(2**60, 2**60 + 2_000)),
}


@pytest.mark.parametrize("value", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_what_is_not_plain_is_refused_in_words(value: Any) -> None:
    with pytest.raises(WireError, match=r"^[\w].* .*\w"):
        encode({"value": [value]})


def test_a_list_that_has_no_end_is_refused() -> None:
    endless: list = []
    endless.append(endless)
    with pytest.raises(WireError):
        encode({"value": endless})


# --- Bytes from somebody hostile ---------------------------------------------------------------


def read(frame: bytes) -> dict[str, Any] | None:
    """Read a frame as a receiver does; None if it is no message."""
    try:
        text, blob = lengths(frame[: wire.HEADER.size])
        start = wire.HEADER.size
        return decode(frame[start : start + text], frame[start + text : start + text + blob])
    except WireError:
        return None


def examples() -> list[bytes]:
    tensor = torch.arange(6.0).view(2, 3)
    return [
        encode({"value": [tensor, tensor.numpy(), tensor.T, tensor + 1j, tensor > 2], "x": 1.5}),
        encode({"value": {1: (None, math.nan, 2**70, complex(0, 1)), "a": [True, "text"]}}),
    ]


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_any_bytes_are_a_message_or_an_error_of_the_wire(content: bytes) -> None:
    text, blob = content[: len(content) // 2], content[len(content) // 2 :]
    read(wire.HEADER.pack(len(text), len(blob)) + text + blob)
    read(content.ljust(wire.HEADER.size, b"\0"))


@given(st.sampled_from(examples()), st.lists(st.tuples(st.integers(0), st.binary(max_size=3))))
@settings(max_examples=500)
def test_a_damaged_message_is_a_message_or_an_error_of_the_wire(
    frame: bytes, changes: list[tuple[int, bytes]]
) -> None:
    damaged = bytearray(frame)
    for place, new in changes:
        at = wire.HEADER.size + place % (len(frame) - wire.HEADER.size)
        damaged[at : at + len(new)] = new
    message = read(bytes(damaged))
    assert message is None or type(message) is dict


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "list",
                    "tuple",
                    "dict",
                    "int",
                    "float",
                    "complex",
                    "name",
                    "probe",
                    "tensor",
                    "array",
                    "key",
                    "strides",
                ]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=8,
)


@given(json_values)
@settings(max_examples=300)
def test_any_json_is_a_message_or_an_error_of_the_wire(value: Any) -> None:
    tensors = split(encode({"t": torch.ones(2, 3)}))[1]
    text = json.dumps({"dict": [["value", value]]}).encode()
    read(wire.HEADER.pack(len(text), len(tensors)) + text + tensors)


def frame_of(text: str | bytes, blob: bytes = b"") -> bytes:
    content = text.encode() if isinstance(text, str) else text
    return wire.HEADER.pack(len(content), len(blob)) + content + blob


def tensors_of(header: dict[str, Any] | bytes, data: bytes = b"") -> bytes:
    """Return bytes in the form of safetensors."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def one(dtype: str, shape: list[int], data: bytes, **more: Any) -> bytes:
    about = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)], **more}
    return tensors_of({"0": about}, data)


def colliding_keys(count: int) -> str:
    """Return a message with a dict of as many integers, which all have the same hash."""
    pairs = (f'[{{"int": "{hex(i * (2**61 - 1))}"}}, 1]' for i in range(count))
    return '{"dict": [["v", {"dict": [' + ", ".join(pairs) + "]}]]}"


TENSOR = '{"dict": [["v", {"tensor": {"key": "0"}}]]}'
HOSTILE = {
    "nothing": frame_of(""),
    "no dict": frame_of('{"list": []}'),
    "a bare list": frame_of("[]"),
    "an empty dict": frame_of("{}"),
    "two kinds": frame_of('{"dict": [], "list": []}'),
    "an unknown kind": frame_of('{"object": 1}'),
    "a kind with two underscores": frame_of('{"__class__": 1}'),
    "a key that is a list": frame_of('{"dict": [[[], 1]]}'),
    "a key that is a tensor": frame_of(
        '{"dict": [[{"tensor": {"key": "0"}}, 1]]}', one("U8", [], b"x")
    ),
    "a thousand lists": frame_of('{"dict": [["v", ' + '{"list": [' * 1000 + "]}" * 1000 + "]]}"),
    "a million brackets": frame_of("[" * 1_000_000),
    "an integer of a million digits": frame_of('{"dict": [["v", ' + "1" * 1_000_000 + "]]}"),
    "a long integer": frame_of('{"dict": [["v", {"int": "' + "f" * 20_000 + '"}]]}'),
    "a float that is code": frame_of('{"dict": [["v", {"float": "__import__"}]]}'),
    "a complex of three": frame_of('{"dict": [["v", {"complex": [1, 2, 3]}]]}'),
    "half a character": frame_of(b'{"dict": [["v", "\xff"]]}'),
    "a tensor that is not there": frame_of(TENSOR),
    "a tensor twice": frame_of(
        '{"dict": [["v", {"tensor": {"key": "0"}}], ["w", {"tensor": {"key": "0"}}]]}',
        one("U8", [1], b"x"),
    ),
    "a header that is too long": frame_of(TENSOR, struct.pack("<Q", 2**63) + b"{}"),
    "a header of a mebibyte": frame_of(TENSOR, tensors_of(b" " * (MIB + 1))),
    "tensors that hold nothing": frame_of(
        TENSOR,
        tensors_of(
            {str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(20_000)}
        ),
    ),
    "a size that is negative": frame_of(TENSOR, one("U8", [-1], b"x")),
    "an empty tensor that is very long": frame_of(TENSOR, one("U8", [2**40, 0], b"")),
    "sizes whose product runs over": frame_of(TENSOR, one("U8", [2**32, 2**32], b"")),
    "sizes that do not fit": frame_of(TENSOR, one("F32", [3], b"xxxx")),
    "an unknown dtype": frame_of(TENSOR, one("OBJECT", [1], b"xxxxxxxx")),
    "half a byte": frame_of(TENSOR, one("F4", [2], b"x")),
    "complex numbers of whole ones": frame_of(
        '{"dict": [["v", {"tensor": {"key": "0", "complex": true}}]]}', one("U8", [2], b"xx")
    ),
    "complex numbers of three": frame_of(
        '{"dict": [["v", {"tensor": {"key": "0", "complex": true}}]]}', one("F32", [3], b"x" * 12)
    ),
    "a function": frame_of('{"dict": [["v", {"name": "softmax"}]]}'),
    "a probe": frame_of('{"dict": [["v", {"probe": "gradient"}]]}'),
    "something lent": frame_of('{"dict": [["v", {"lent": [0, "function", "f"]}]]}'),
    "a name twice": frame_of('{"dict": [], "dict": [["v", 1]]}'),
    "a key twice": frame_of('{"dict": [["v", 1], ["v", 2]]}'),
    "keys that are equal": frame_of('{"dict": [["v", {"dict": [[1, 1], [true, 1]]}]]}'),
    "a key that is not a number": frame_of('{"dict": [["v", {"dict": [[NaN, 1]]}]]}'),
    "lists in lists, 150 levels": frame_of(
        '{"dict": [["v", ' + '{"list": [' * 150 + "]}" * 150 + "]]}"
    ),
    "many integers as keys": frame_of(
        '{"dict": [["v", {"dict": [' + ", ".join(f"[{i}, 1]" for i in range(20_000)) + "]}]]}"
    ),
    "integers as keys in many dicts": frame_of(
        '{"dict": [["v", {"list": [' + ", ".join(['{"dict": [[1, 1]]}'] * 20_000) + "]}]]}"
    ),
    "integers with one hash": frame_of(colliding_keys(20_000)),
    "a tensor of 33 dimensions": frame_of(TENSOR, one("U8", [1] * 33, b"x")),
    "a tensor of 65 dimensions": frame_of(TENSOR, one("U8", [1] * 65, b"x")),
    "a tensor of 60,000 dimensions": frame_of(TENSOR, one("F32", [1] * 60_000, b"xxxx")),
    "a complex tensor of 33 dimensions": frame_of(
        '{"dict": [["v", {"tensor": {"key": "0", "complex": true}}]]}',
        one("F32", [1] * 32 + [2], b"x" * 8),
    ),
    "an empty tensor that is long in each of three": frame_of(
        TENSOR, one("U8", [2**20, 2**20, 2**20, 0], b"")
    ),
    "a tensor described twice": frame_of(
        TENSOR,
        tensors_of(
            b'{"0":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            b'"0":{"dtype":"U8","shape":[1,1],"data_offsets":[0,1]}}',
            b"x",
        ),
    ),
    "a size that is true": frame_of(
        TENSOR, tensors_of(b'{"0":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}', b"x")
    ),
    "tensors that share bytes": frame_of(
        TENSOR,
        tensors_of(
            {str(i): {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]} for i in range(2)}, b"x"
        ),
    ),
    "a header that is longer than all": frame_of(TENSOR, struct.pack("<Q", 900) + b"{}"),
    "a header that is a list": frame_of(TENSOR, tensors_of(b"[]")),
    "an array of what NumPy lacks": frame_of(
        '{"dict": [["v", {"array": {"key": "0"}}]]}', one("BF16", [1], b"xx")
    ),
}  # fmt: skip


@pytest.mark.parametrize("frame", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_messages_are_refused_and_take_little(frame: bytes) -> None:
    tracemalloc.start()
    try:
        assert read(frame) is None
        assert tracemalloc.get_traced_memory()[1] < 20 * len(frame) + 8 * MIB
    finally:
        tracemalloc.stop()


def test_a_message_that_says_it_is_too_long_is_refused_before_it_is_read() -> None:
    for text, blob in ((4 * MIB + 1, 0), (0, 256 * MIB + 1), (2**32 - 1, 2**32 - 1)):
        with pytest.raises(WireError, match="longer than a message may be"):
            lengths(wire.HEADER.pack(text, blob))


def test_a_tensor_of_as_many_dimensions_as_may_be_is_usable() -> None:
    got = there({"t": torch.ones([1] * 32), "b": torch.ones([1] * 32) > 0})
    assert (got["t"].shape, got["b"].tolist()) == ((1,) * 32, (torch.ones([1] * 32) > 0).tolist())


def test_strides_from_a_hostile_sender_mean_nothing() -> None:
    text = '{"dict": [["v", {"tensor": {"key": "0", "strides": [1000000]}}]]}'
    message = read(frame_of(text, one("U8", [2], b"ab")))
    assert message is not None
    assert message["v"].stride() == (1,)
    assert message["v"].tolist() == [97, 98]


def test_a_boolean_is_true_or_false_whatever_its_byte() -> None:
    message = read(frame_of(TENSOR, one("BOOL", [4], b"\x00\x01\x02\xff")))
    assert message is not None
    assert torch.equal(message["v"], torch.tensor([False, True, True, True]))
    assert raw(message["v"]) == b"\x00\x01\x01\x01"


def test_arrays_and_tensors_that_arrive_can_be_written() -> None:
    got = there({"t": torch.ones(3), "a": np.ones(3)})
    got["t"][0], got["a"][0] = 5, 5
    assert (got["t"].tolist(), got["a"].tolist()) == ([5, 1, 1], [5, 1, 1])
