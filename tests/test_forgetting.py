"""What code keeps beside what it returns is gone afterwards, as in a new process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.probes.forgetting import forgotten

COUNT = 0
KEPT: dict[str, int] = {}
LIST = [1]
OTHERS = {"mine": [0]}


def in_a_global_number() -> int:
    global COUNT
    COUNT += 1
    return COUNT


def in_a_new_global() -> int:
    global MADE_BY_A_CALL
    MADE_BY_A_CALL = globals().get("MADE_BY_A_CALL", 0) + 1
    return MADE_BY_A_CALL


def in_a_dict() -> int:
    KEPT["calls"] = KEPT.get("calls", 0) + 1
    return KEPT["calls"]


def in_a_list() -> int:
    LIST.append(1)
    return len(LIST) - 1


def in_a_list_in_a_dict() -> int:
    OTHERS["mine"][0] += 1
    return OTHERS["mine"][0]


def through_another_function() -> int:
    return in_a_dict()


def in_an_attribute() -> int:
    in_an_attribute.calls = getattr(in_an_attribute, "calls", 0) + 1
    return in_an_attribute.calls


def in_a_default(seen: list[int] = []) -> int:  # noqa: B006  that is the point
    seen.append(1)
    return len(seen)


def make_closure():
    calls = 0

    def in_a_closure() -> int:
        nonlocal calls
        calls += 1
        return calls

    return in_a_closure


def in_a_file() -> int:
    calls = len(Path("calls").read_text()) + 1 if Path("calls").exists() else 1
    Path("calls").write_text("x" * calls)
    return calls


class InAClass:
    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.number = type(self).made


class InANewAttribute:
    def __init__(self) -> None:
        InANewAttribute.made = getattr(InANewAttribute, "made", 0) + 1
        self.number = InANewAttribute.made


FUNCTIONS = [
    in_a_global_number,
    in_a_new_global,
    in_a_dict,
    in_a_list,
    in_a_list_in_a_dict,
    through_another_function,
    in_an_attribute,
    in_a_default,
    make_closure(),
    in_a_file,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_function_begins_anew(function) -> None:
    for _ in range(2):
        with forgotten(function):
            assert [function(), function()] == [1, 2]


@pytest.mark.parametrize("made", [InAClass, InANewAttribute], ids=lambda made: made.__name__)
def test_a_class_begins_anew(made) -> None:
    for _ in range(2):
        with forgotten(made):
            assert [made().number, made().number] == [1, 2]


def test_it_is_forgotten_after_an_error_too() -> None:
    before = os.getcwd()
    with pytest.raises(ZeroDivisionError), forgotten(keeps_and_fails):
        keeps_and_fails()
    assert KEPT == {}
    assert os.getcwd() == before


def test_what_another_module_keeps_stays() -> None:
    with forgotten(keeps_in_the_environment):
        keeps_in_the_environment()
    assert os.environ.pop("KEPT_BY_A_TEST") == "1"


def keeps_and_fails() -> float:
    return in_a_dict() / 0


def keeps_in_the_environment() -> None:
    os.environ["KEPT_BY_A_TEST"] = "1"
