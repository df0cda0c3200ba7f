"""What a student's code leaves behind in its process, and the defaults that a check works with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import overrides

from helpers.calling import call_here
from helpers.process_state import (
    course_defaults,
    leave_modes,
    state_kept,
    students_defaults,
)


class Doubles(overrides.TorchFunctionMode):
    """A mode that says that it equals every other."""

    def __torch_function__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if isinstance(result, torch.Tensor) else result

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


def made() -> tuple[str, torch.dtype]:
    """Return where a tensor is made, and of what dtype."""
    tensor = torch.zeros(2)
    return tensor.device.type, tensor.dtype


CPU, ELSEWHERE = ("cpu", torch.float32), ("meta", torch.float64)


@pytest.fixture
def students_cell() -> Iterator[None]:
    """A cell of a notebook has changed the defaults."""
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def modes() -> list[Any]:
    return overrides._get_current_function_mode_stack()


def enter_and_set() -> None:
    Doubles().__enter__()
    torch.set_default_device("meta")


def set_and_enter() -> None:
    torch.set_default_device("meta")
    Doubles().__enter__()


def enter_a_device_twice() -> None:
    torch.set_default_device("meta")
    torch.device("cpu").__enter__()
    torch.device("meta").__enter__()


@pytest.mark.parametrize(
    "meddle",
    [
        lambda: torch.set_default_device("meta"),
        lambda: torch.set_default_device("cuda"),
        enter_and_set,
        set_and_enter,
        enter_a_device_twice,
    ],
    ids=["device", "no such device", "under a mode", "over a mode", "nested"],
)
def test_a_default_device_is_put_back_whatever_else_was_entered(meddle: Callable) -> None:
    with state_kept():
        meddle()
    assert modes() == []
    assert made() == CPU
    torch.set_default_device("meta")  # torch itself finds all in order
    torch.set_default_device(None)
    assert (modes(), made()) == ([], CPU)


def test_modes_that_were_there_before_are_still_there_and_in_order() -> None:
    outer, inner = Doubles(), Doubles()
    with outer, inner:
        with state_kept():
            inner.__exit__(None, None, None)
            Doubles().__enter__()
            torch.set_default_device("meta")
        stack = modes()
    assert [id(mode) for mode in stack] == [id(outer), id(inner)]


def test_a_default_device_that_is_not_there_is_no_error_of_the_checks() -> None:
    torch.set_default_device("cuda:99")
    try:
        answer = call_here(lambda: 1, [], {})
    finally:
        torch.set_default_device(None)
    assert (answer.value, answer.problem) == (1, "")


@pytest.mark.usefixtures("students_cell")
def test_a_check_has_its_own_defaults_and_the_students_code_the_students() -> None:
    seen = [made()]
    with course_defaults():
        seen.append(made())
        with students_defaults():
            seen.append(made())
            with course_defaults():  # a function that the test has lent
                seen.append(made())
                with students_defaults():
                    seen.append(made())
            seen.append(made())
        seen.append(made())
    seen.append(made())
    assert seen == [ELSEWHERE, CPU, ELSEWHERE, CPU, ELSEWHERE, ELSEWHERE, CPU, ELSEWHERE]


@pytest.mark.usefixtures("students_cell")
def test_a_call_from_a_check_runs_with_the_students_defaults() -> None:
    with course_defaults():
        place, dtype = call_here(lambda: [str(word) for word in made()], [], {}).value
        assert made() == CPU
    assert (place, dtype) == ("meta", "torch.float64")


@pytest.mark.usefixtures("students_cell")
def test_what_a_call_changes_of_the_defaults_lasts_neither_inside_nor_outside() -> None:
    with course_defaults():
        with contextlib.suppress(ValueError), students_defaults():
            torch.set_default_device(None)
            torch.set_default_dtype(torch.float16)
            raise ValueError
        assert made() == CPU
    assert made() == ELSEWHERE


def test_a_device_that_a_cell_entered_and_never_left_is_not_the_checks() -> None:
    with state_kept():
        torch.device("meta").__enter__()
        with course_defaults():
            assert made() == CPU
            with students_defaults():
                assert made() == ("meta", torch.float32)
        assert made() == ("meta", torch.float32)


def test_outside_a_check_the_students_defaults_are_what_holds() -> None:
    with students_defaults():
        assert made() == CPU
        torch.set_default_dtype(torch.float64)
    assert torch.zeros(1).dtype == torch.float64
    torch.set_default_dtype(torch.float32)


def test_modes_of_the_test_itself_reach_through_to_the_students_code() -> None:
    with course_defaults(), Doubles(), students_defaults():
        assert torch.ones(1).item() == 2.0
    assert torch.ones(1).item() == 1.0


@pytest.mark.skipif(
    not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"),
    reason="torch 2.4 does not tell which hooks are set",
)
def test_modes_that_a_cell_has_entered_are_left_and_a_default_device_stays() -> None:
    def refuse(tensor: torch.Tensor) -> None:
        raise AssertionError("the hook is still there")

    torch.set_default_device("meta")
    try:
        Doubles().__enter__()
        torch.autograd.graph.saved_tensors_hooks(refuse, refuse).__enter__()
        leave_modes()
        assert torch.ones(2).device.type == "meta"
        x = torch.ones(2, device="cpu", requires_grad=True)
        assert torch.exp(x).sum().item() == pytest.approx(2 * 2.718281828)
    finally:
        torch.set_default_device(None)
