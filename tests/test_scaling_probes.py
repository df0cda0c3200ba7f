"""Probes around gradient scalers: they hand over what they say, and return what was really done."""

from __future__ import annotations

import math

import pytest
import torch

from helpers import probes


def make_scaler(**settings: float) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", **settings)


def test_a_scaler_is_taken_through_steps() -> None:
    weights = [[torch.tensor([1.0, 2.0]), torch.tensor([3.0])], [torch.tensor([5.0])]]
    steps = [
        ("scale", torch.tensor(3.0)),
        ("backward", 0, [torch.tensor([1.0, -1.0]), None]),
        ("backward", 1, [torch.tensor([math.inf])]),
        ("unscale", 0),
        ("unscale", 0),
        ("step", 0),
        ("step", 1),
        ("update",),
        ("clear",),
        ("backward", 0, [None, torch.tensor([2.0])]),
    ]
    scaled, gradients, _, unscaled, again, step, skipped, scale, cleared, last = (
        probes.scaler_steps(make_scaler, weights, steps, learning_rate=0.5, init_scale=8.0)
    )
    assert scaled == {"scaled": torch.tensor(24.0), "loss": torch.tensor(3.0)}
    assert torch.equal(gradients[0], torch.tensor([8.0, -8.0]))
    assert gradients[1] is None
    assert torch.equal(unscaled[0], torch.tensor([1.0, -1.0]))
    assert again == "RuntimeError"
    assert torch.equal(step["weights"][0], torch.tensor([0.5, 2.5]))
    assert torch.equal(step["weights"][1], torch.tensor([3.0]))
    assert torch.equal(skipped["weights"][0], torch.tensor([5.0]))
    assert scale == 4.0
    assert cleared is None
    assert last[0] is None
    assert torch.equal(last[1], torch.tensor([8.0]))
    assert torch.equal(weights[0][0], torch.tensor([1.0, 2.0]))


def test_a_stubs_answer_and_an_unknown_step_go_on() -> None:
    class Stub:
        def update(self) -> None:
            raise NotImplementedError

    with pytest.raises(NotImplementedError):
        probes.scaler_steps(Stub, [], [("update",)], learning_rate=1.0)
    with pytest.raises(ValueError, match='no step "fly"'):
        probes.scaler_steps(make_scaler, [], [("fly",)], learning_rate=1.0)


def test_an_error_that_is_derived_from_a_runtime_error_is_one() -> None:
    class TwiceError(RuntimeError):
        pass

    class Strict:
        def unscale_(self, optimizer: object) -> None:
            raise TwiceError

        def update(self) -> None:
            raise TwiceError

    weights = [[torch.tensor([1.0])]]
    steps = [("unscale", 0)]
    assert probes.scaler_steps(Strict, weights, steps, learning_rate=1.0) == ["RuntimeError"]
    with pytest.raises(TwiceError):  # asked for of unscale_ only
        probes.scaler_steps(Strict, [], [("update",)], learning_rate=1.0)


def test_an_optimizers_parameters_come_two_to_a_group() -> None:
    sizes: list[list[int]] = []

    def look(scaler: object, optimizer: torch.optim.SGD, *_: object) -> None:
        sizes.append([len(group["params"]) for group in optimizer.param_groups])

    def look_at_all(scaler: object, optimizers: list[torch.optim.SGD], _: list) -> None:
        for optimizer in optimizers:
            look(scaler, optimizer)

    weights = [torch.zeros(1)] * 3
    for counted in (False, True):
        options = {"max_norm": 1.0, "learning_rate": 1.0, "counted": counted}
        probes.scaled_steps(look, weights, [weights], **options)
    options = {"learning_rate": 1.0, "decay": 0.5}
    probes.scheduled_steps(look_at_all, [weights], [[weights]], **options)
    assert sizes == [[2, 1]] * 3


def test_gradients_are_left_over_before_the_first_step_if_asked_for() -> None:
    def look(scaler: object, optimizer: torch.optim.SGD, *_: object) -> float | None:
        gradient = optimizer.param_groups[0]["params"][0].grad
        return None if gradient is None else gradient.item()

    for left_over, expected in ((True, 2.0**24), (False, None)):
        options = {"max_norm": 1.0, "learning_rate": 1.0, "left_over": left_over}
        (state,) = probes.scaled_steps(look, [torch.zeros(1)], [[torch.ones(1)]], **options)
        assert state["returned"] == expected


def test_hooks_are_counted_and_the_lists_are_the_same_each_time() -> None:
    seen = set()

    def hang_one_more(scaler: object, optimizers: list, schedulers: list) -> None:
        optimizers[0].register_step_post_hook(lambda *_: None)
        seen.add((id(optimizers), id(schedulers)))

    slopes = [[[torch.ones(1)], [torch.ones(1)]]] * 3
    weights = [[torch.zeros(1)], [torch.zeros(1)]]
    states = probes.scheduled_steps(hang_one_more, weights, slopes, learning_rate=1.0, decay=0.5)
    assert [state["hooks"] for state in states] == [[1, 0], [2, 0], [3, 0]]
    assert len(seen) == 1


def test_scaled_steps_keep_what_a_step_returns_and_leaves() -> None:
    def step(scaler: object, optimizer: object, loss: torch.Tensor, factor: float) -> float:
        optimizer.zero_grad()
        scaler.scale(factor * loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    weights = [torch.tensor([1.0]), torch.tensor([2.0, 4.0])]
    slopes = [
        [torch.tensor([1.0]), torch.tensor([0.0, 1.0])],
        [torch.tensor([1.0]), torch.tensor([math.nan, 0.0])],
    ]
    first, second = probes.scaled_steps(
        step, weights, slopes, max_norm=2.0, learning_rate=0.25, counted=True, init_scale=16.0
    )
    assert first["returned"] == 5.0
    assert torch.equal(first["weights"][0], torch.tensor([0.5]))
    assert torch.equal(first["weights"][1], torch.tensor([2.0, 3.5]))
    assert (first["scale"], first["count"]) == (16.0, 1)
    assert torch.equal(second["weights"][1], first["weights"][1])
    assert (second["scale"], second["count"]) == (8.0, 1)


def test_without_a_wrapper_nothing_is_counted_and_gradients_stay() -> None:
    def step(scaler: object, optimizer: torch.optim.SGD, loss: torch.Tensor, _: float) -> None:
        assert isinstance(optimizer, torch.optim.SGD)
        scaler.scale(loss).backward()
        scaler.step(optimizer)

    slopes = [[torch.tensor([1.0])], [torch.tensor([1.0])]]
    states = probes.scaled_steps(
        step, [torch.tensor([0.0])], slopes, max_norm=1.0, learning_rate=1.0, enabled=False
    )
    assert [state["count"] for state in states] == [None, None]
    # 2**24 was there before; then 1 in each step, and half of the way before.
    assert [state["weights"][0].item() for state in states] == [-(2.0**24), -2.5 * 2.0**24]
    assert states[0]["scale"] == 1.0


def test_scheduled_steps_tell_rates_weights_and_scale() -> None:
    def follow(scaler: object, optimizers: list, schedulers: list) -> None:
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        schedulers[0].step()

    slopes = [[[torch.tensor([1.0]), torch.tensor([2.0])], [torch.tensor([math.inf])]]] * 2
    weights = [[torch.tensor([0.0]), torch.tensor([5.0])], [torch.tensor([7.0])]]
    first, second = probes.scheduled_steps(
        follow, weights, slopes, learning_rate=1.0, decay=0.5, init_scale=4.0
    )
    assert first["rates"] == [0.5, 1.0]
    assert [[weight.item() for weight in own] for own in first["weights"]] == [[-1.0, 3.0], [7.0]]
    assert [[weight.item() for weight in own] for own in second["weights"]] == [[-1.5, 2.0], [7.0]]
    assert (first["scale"], second["scale"]) == (2.0, 1.0)
