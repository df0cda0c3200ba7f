"""What counts is what was computed; the wall's clock is there for code that waits."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from waiting import wait_until

from helpers.grading.judge.clock import Budget, Clock, OutOfTimeError
from helpers.grading.judge.warm import KernelEndedError, KernelLimits, WarmProcess
from helpers.grading.sandbox.sandbox import Limits, Sandbox
from helpers.guard import WALL_FACTOR, CallTimeoutError, time_limit

needs_sandbox = pytest.mark.needs_system("bubblewrap")
MIB = 2**20
SPIN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"


class Machine:
    """A machine on which as much is computed as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.computed = 7.0
        monkeypatch.setattr("helpers.grading.judge.clock.time.monotonic", lambda: self.now)

    def work(self, wall: float, share: float, clock: Clock) -> None:
        """Let time go by, and the clock be looked at as somebody who waits does."""
        end = self.now + wall
        while self.now < end:
            step = min(end - self.now, max(clock.until_next_look(), 1e-3))
            self.now += step
            self.computed += share * step
            clock.look()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_who_computes_too_long_is_stopped_for_that(machine: Machine) -> None:
    clock = Clock(10.0, lambda: machine.computed)
    machine.work(9.9, 1.0, clock)
    with pytest.raises(OutOfTimeError) as end:
        machine.work(2.0, 1.0, clock)
    assert not end.value.by_the_wall


def test_on_a_busy_machine_there_is_as_much_to_compute(machine: Machine) -> None:
    clock = Clock(10.0, lambda: machine.computed)
    machine.work(WALL_FACTOR * 10.0 - 0.1, 0.33, clock)
    assert clock.computed() == pytest.approx(0.33 * WALL_FACTOR * 10.0, rel=0.05)


def test_who_waits_is_stopped_by_the_wall(machine: Machine) -> None:
    clock = Clock(10.0, lambda: machine.computed)
    with pytest.raises(OutOfTimeError) as end:
        machine.work(WALL_FACTOR * 10.0 + 1.0, 0.1, clock)
    assert end.value.by_the_wall


def test_several_that_compute_use_their_time_up_together(machine: Machine) -> None:
    clock = Clock(10.0, lambda: machine.computed)
    with pytest.raises(OutOfTimeError) as end:
        machine.work(2.0, 8.0, clock)
    assert not end.value.by_the_wall


def test_a_budget_is_spent_by_computing_or_by_the_wall(machine: Machine) -> None:
    budget = Budget(5.0)
    budget.spend(3.0)
    assert budget.seconds_left() == 2.0
    assert not budget.is_over_by_the_wall()
    machine.now += WALL_FACTOR * 5.0 + 0.1
    assert budget.seconds_left() == 0.0
    assert budget.is_over_by_the_wall()


# --- In a student's own process


def endless() -> None:
    while True:
        pass


def test_in_a_process_both_clocks_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.guard.torch.get_num_threads", lambda: 1)
    monkeypatch.setattr("helpers.guard.WALL_FACTOR", 1000.0)
    with pytest.raises(CallTimeoutError) as end, time_limit(0.3):
        endless()
    assert not end.value.by_the_wall
    monkeypatch.setattr("helpers.guard.WALL_FACTOR", 1.0)
    with pytest.raises(CallTimeoutError) as end, time_limit(0.3):
        time.sleep(60)
    assert end.value.by_the_wall


def test_afterwards_nothing_rings() -> None:
    with time_limit(0.05):
        pass
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    time.sleep(0.2)


# --- In a sandbox


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmProcess]:
    process = WarmProcess(KernelLimits(768 * MIB, 60, 16 * MIB), {})
    yield process
    process.close()


def run(warm: WarmProcess, code: str, seconds: float) -> dict:
    kernel = warm.start_kernel(seed=1)
    try:
        message = {"do": "run", "code": textwrap.dedent(code), "seconds": 100.0}
        return kernel.request(message, kernel.clock(seconds))
    finally:
        kernel.close()


@pytest.fixture
def patient_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for what is computed, however busy this machine is."""
    monkeypatch.setattr("helpers.grading.judge.clock.WALL_FACTOR", 1000.0)


@needs_sandbox
@pytest.mark.usefixtures("patient_wall")
def test_what_its_children_compute_counts(warm: WarmProcess) -> None:
    code = f"""
        import os, time
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                exec({SPIN.format(60)!r})
        time.sleep(100)
    """
    with pytest.raises(KernelEndedError) as end:
        run(warm, code, 1.5)
    assert (end.value.cause, end.value.by_the_wall) == ("timed out", False)


@needs_sandbox
@pytest.mark.usefixtures("patient_wall")
def test_what_children_that_have_ended_computed_counts_too(warm: WarmProcess) -> None:
    code = f"""
        import subprocess, sys
        while True:
            subprocess.run([sys.executable, "-S", "-c", {SPIN.format(0.3)!r}])
    """
    with pytest.raises(KernelEndedError) as end:
        run(warm, code, 1.5)
    assert (end.value.cause, end.value.by_the_wall) == ("timed out", False)


@needs_sandbox
def test_who_sleeps_is_told_by_the_wall(warm: WarmProcess) -> None:
    with pytest.raises(KernelEndedError) as end:
        run(warm, "import time; time.sleep(100)", 0.5)
    assert (end.value.cause, end.value.by_the_wall) == ("timed out", True)


@needs_sandbox
def test_many_processes_get_no_more_than_their_submissions_share() -> None:
    limits = Limits(memory_bytes=512 * MIB, processes=60)
    many = f"import os\nfor _ in range(5): os.fork()\n{SPIN.format(600)}"
    with Sandbox(["/bin/true"], limits=limits) as trial:
        if trial._cgroup is None or not trial._cgroup.shares_processors:
            pytest.skip("there are no control groups for processors here")
    with (
        Sandbox(["python3", "-S", "-c", many], limits=limits) as greedy,
        Sandbox(["python3", "-S", "-c", SPIN.format(600)], limits=limits) as modest,
    ):
        assert wait_until(lambda: min(greedy.measure_computing(), modest.measure_computing()) > 0.5)
        before = greedy.measure_computing(), modest.measure_computing()
        assert wait_until(lambda: greedy.measure_computing() - before[0] > 3.0)
        hers = greedy.measure_computing() - before[0]
        its = modest.measure_computing() - before[1]
    # Of two processors, each gets one; 32 processes against one would leave it a sixteenth.
    assert its > 0.35 * hers


@needs_sandbox
@pytest.mark.parametrize("use_cgroups", [True, False])
def test_it_is_measured_with_and_without_control_groups(use_cgroups: bool) -> None:
    limits = replace(Limits(), memory_bytes=512 * MIB, use_cgroups=use_cgroups)
    with Sandbox(["python3", "-S", "-c", SPIN.format(600)], limits=limits) as one:
        assert wait_until(lambda: one.measure_computing() >= 1.0)
