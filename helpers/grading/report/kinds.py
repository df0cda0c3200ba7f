"""What kind of problem a check's answer describes, without what differs from one draw to the next.

Two students who make the same mistake are told other numbers, at other places, of other shapes.
The words for a kind are ours, so that a list of them reads as one.
"""

from __future__ import annotations

import re

# Numbers, and rows of numbers in brackets: sizes, indices, shapes.
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d+(?:[.,]\d+)*(?:e[-+]?\d+)?|\d*\.\d+(?:e[-+]?\d+)?)(?!\w)", re.IGNORECASE
)
_ROW = re.compile(r"[(\[]\s*N(?:\s*,\s*N)*\s*,?\s*[)\]]|N(?:\s*[,×x]\s*N)+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_VALUES = r"\d+ of \d+ values(?: of (?:\[[^\]]*\])+)? differ"
_COUNT = re.compile(rf"{_VALUES}; ")
_PATTERN = re.compile(rf"^(?P<what>.*?){_VALUES}: (?P<pattern>[^;]+); ")
_PLACE = re.compile(r"at (?:\[[^\]]*\])+: ")
_NOT_FINITE = ("nan", "inf", "-inf")
_TENSOR = re.compile(r"an? (?P<dtype>\w+) (?P<kind>tensor|array) of shape (?P<shape>\([\d, ]*\))")
_TYPE = re.compile(r"an? (?P<name>[A-Za-z_]\w*)(?:: .*)?|None")
_MOST = 1000  # a reason is one line; what is longer is no reason of ours


def kind_of_problem(reason: str) -> str:
    """Return what kind of problem ``reason`` describes, in a few words."""
    if found := _PATTERN.match(reason[:_MOST]):
        return without_numbers(found["what"] + found["pattern"])
    text = _PLACE.sub("", _COUNT.sub("", reason[:_MOST]))
    came, is_compared, wanted = text.partition(" came back, expected ")
    if not is_compared:
        return without_numbers(_QUOTED.sub("'…'", text))
    # What check.close was told to call the value stands before it.
    what, _, came = came.rpartition(": ") if not _TENSOR.match(came) else ("", "", came)
    kind = _compare(came, wanted)
    return f"{without_numbers(what)}: {kind}" if what else kind


def without_numbers(text: str) -> str:
    """Return ``text`` with N in place of every number, and of every row of numbers."""
    return _ROW.sub("N", _NUMBER.sub("N", text))


def _compare(came: str, wanted: str) -> str:
    tensors = _TENSOR.match(came), _TENSOR.match(wanted)
    if tensors[0] and tensors[1]:
        return _compare_tensors(*tensors)
    if came in _NOT_FINITE or wanted in _NOT_FINITE:
        given, asked = (text if text in _NOT_FINITE else "a number" for text in (came, wanted))
        return f"{given} instead of {asked}"
    if _NUMBER.fullmatch(came) and _NUMBER.fullmatch(wanted):
        return "other values"
    types = _TYPE.fullmatch(came), _TYPE.fullmatch(wanted)
    if types[0] or types[1]:
        given, asked = (_name_type(text) for text in (came, wanted))
        return f"{given} instead of {asked}"
    if came.endswith(" items"):
        return "another number of items"
    return "something other than expected"


def _compare_tensors(came: re.Match[str], wanted: re.Match[str]) -> str:
    found = []
    if came["kind"] != wanted["kind"]:
        found.append(f"{came['kind']} instead of {wanted['kind']}")
    if came["dtype"] != wanted["dtype"]:
        found.append(f"{came['dtype']} instead of {wanted['dtype']}")
    if came["shape"] != wanted["shape"]:
        sizes = [re.findall(r"\d+", shape["shape"]) for shape in (came, wanted)]
        has_as_many = len(sizes[0]) == len(sizes[1])
        found.append("another shape" if has_as_many else "another number of dimensions")
    return " and ".join(found) or "another device"


def _name_type(text: str) -> str:
    tensor, name = _TENSOR.match(text), _TYPE.fullmatch(text)
    if tensor:
        return f"a {tensor['kind']}"
    if name:
        return f"a value of type {name['name']}" if name["name"] else "None"
    return "a number" if _NUMBER.fullmatch(text) else "something else"
