"""What a solution remembers beside what it returns is of no use where a check goes on in a new
process; a student's own kernel has only the one.
"""

from __future__ import annotations

import pytest
from classroom import exercises_of, solved, to_bytes, without_demos
from course_files import EXERCISES, run_exercise
from registered_chapters import Register

from helpers.catalogue import Exercise
from helpers.grading.judge.judge import judge_submission
from helpers.grading.settings import Settings

pytestmark = pytest.mark.needs_system("bubblewrap")

NOISE_KEPT = """
KEPT = {}


def add_noise(image, seed, epoch, index):
    name = seed, epoch, index
    if name not in KEPT:
        KEPT[name] = torch.from_numpy(np.random.default_rng().standard_normal(10_000))
    noise = KEPT[name][: image.numel()].reshape(image.shape)
    return image + 0.1 * noise.to(image.dtype)
"""

PLACES_KEPT = """
class ResumableLoader:
    PLACES = []

    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        self.PLACES.append((self.epoch, self.done))
        return {"ticket": len(self.PLACES) - 1}

    def load_state_dict(self, state):
        self.epoch, self.done = self.PLACES[state["ticket"]]
"""

# What a solution keeps in its process, and the share of the points that are left without it.
CASES = {
    "bug-hunt-same-noise": (NOISE_KEPT, 6.5 / 7.5),
    "resumable-loader": (PLACES_KEPT, 3 / 13),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_solution_remembers_by_itself_is_gone(registered: Register, name: str) -> None:
    code, share = CASES[name]
    exercise = next(exercise for exercise in EXERCISES if exercise.name == name)
    assert run_exercise(exercise, code).points == exercise.points
    assert judged_points(exercise, code, registered) == pytest.approx(
        share * exercise.points, abs=0.01
    )


def judged_points(exercise: Exercise, code: str, registered: Register) -> float:
    stubs = {other.name: "" for other in exercises_of(exercise.chapter)}
    notebook = without_demos(solved(exercise.chapter, stubs | {exercise.name: code}))
    judged = judge_submission(to_bytes(notebook), registered(exercise.chapter), Settings())
    return next(result.points for result in judged.exercises if result.name == exercise.name)
