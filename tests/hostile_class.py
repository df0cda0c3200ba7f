"""A class half of which is hostile: what was once seen to cost others time, memory or their work.

Each row of ``ROWS`` is one such thing in two forms. All of it is handed in as a folder of students'
folders, as `bits collect` takes it. Nothing of this may run outside of a sandbox.
"""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from attack_corpus import FOLDER, attacks_in, with_code
from classroom import exercises_of, full_points, release, solved, to_bytes, without_demos
from course_files import COURSE, find_cell, variants
from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from PIL import Image

from helpers.calling import SECONDS_PER_CALL
from helpers.grading.settings import Settings
from helpers.guard import WALL_FACTOR

CHAPTER = "08-numerical-stability"
FILE = COURSE.release(CHAPTER).name
LIMITS = Settings()
_TRIES = 2  # what is stopped by the wall's clock is tried again alone


@dataclass(frozen=True)
class Member:
    """One student's folder, and what it deserves.

    Attributes:
        student: the id, which is the folder's name.
        files: what lies in the folder.
        about: what is hostile about it; "" for honest work.
        deserved: the points of each exercise, with those that wait for a person.
        waits: the seconds that the limits which it runs into let it take.
    """

    student: str
    files: dict[str, bytes]
    about: str = ""
    deserved: dict[str, float] = field(default_factory=dict)
    waits: float = 0.0

    @property
    def is_honest(self) -> bool:
        return not self.about


def make_class(honest: int, hostile: int) -> list[Member]:
    """Return a class in which hostile students stand between the honest ones."""
    rows = [forms[number] for number in range(2) for forms in ROWS.values()]
    names = [(about, number) for number in range(2) for about in ROWS]
    guests = [
        make(f"hostile-{place:02}", f"{about}, form {number + 1}")
        for place, (make, (about, number)) in enumerate(zip(rows, names, strict=True), 1)
    ]
    own = [_honest(number) for number in range(1, honest + 1)]
    mixed = itertools.chain(*itertools.zip_longest(own, guests[:hostile]))
    return [member for member in mixed if member is not None]


def write_folder(members: list[Member], folder: Path) -> Path:
    """Write the class as somebody may have downloaded it."""
    for member in members:
        for name, content in member.files.items():
            file = folder / member.student / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return folder


# --- Honest work -----------------------------------------------------------------------------


def _honest(number: int) -> Member:
    """Return right work; no two of a class are the same."""
    codes = {}
    for place, exercise in enumerate(exercises_of(CHAPTER)):
        choices = [None, *(v.code for v in variants(exercise) if v.right)]
        code = choices[(number * (place + 1)) % len(choices)]
        if code is not None:
            codes[exercise.name] = code
    student = f"honest-{number:02}"
    notebook = without_demos(solved(CHAPTER, codes))
    notebook.cells[-1:] += [new_markdown_cell(f"Solved by {student}. **Done.** $x^2$")]
    return Member(student, {FILE: to_bytes(notebook)}, deserved=_full())


def _full() -> dict[str, float]:
    return full_points(exercises_of(CHAPTER))


# --- Hostile work ----------------------------------------------------------------------------

Maker = Callable[[str, str], Member]


def _of_corpus(kind: str, meaning: str, waits: float = 0.0) -> Maker:
    """Return how to make a member of an attack that is judged by itself elsewhere."""

    def make(student: str, about: str) -> Member:
        (attack,) = (a for a in _corpus(kind) if a.meaning == meaning)
        deserved = _full() if attack.others_full else {}
        if attack.points is not None:
            deserved[attack.exercise] = attack.points
        return Member(student, {FILE: attack.notebook}, about, deserved, waits)

    return make


@cache
def _corpus(kind: str) -> tuple:
    return tuple(attacks_in(FOLDER / f"{kind}.py"))


def _with_cells(*cells: NotebookNode) -> Maker:
    """Return how to make a member whose work is right, and who has cells of their own."""

    def make(student: str, about: str) -> Member:
        notebook = without_demos(solved(CHAPTER))
        at = notebook.cells.index(find_cell(notebook, "softmax"))
        notebook.cells[at:at] = cells
        return Member(student, {FILE: to_bytes(notebook)}, about, _full())

    return make


def _that_are_run(codes: list[str], waits: float) -> Maker:
    """Return how to make a member whose first exercise uses cells with these codes."""

    def make(student: str, about: str) -> Member:
        notebook = without_demos(solved(CHAPTER))
        cell = find_cell(notebook, "softmax")
        uses = ", ".join(f"part{number}" for number in range(len(codes)))
        cell.source += f"\n\nall_parts = [{uses}]\n"
        at = notebook.cells.index(cell)
        notebook.cells[at:at] = [
            new_code_cell(f"part{number} = {number}\n{code}") for number, code in enumerate(codes)
        ]
        return Member(student, {FILE: to_bytes(notebook)}, about, _full(), waits)

    return make


def _with_files(name: str) -> Maker:
    """Return how to make a member in whose folder lies what looks like others' blank work."""

    def make(student: str, about: str) -> Member:
        blank = to_bytes(release(CHAPTER))
        files = {name.format(number=number): blank + b" " * number for number in range(1, 21)}
        right = to_bytes(without_demos(solved(CHAPTER)))
        return Member(student, {**files, FILE: right}, about, {})

    return make


def _telling(says: str) -> Maker:
    """Return how to make a member whose softmax tells of the inputs of hidden calls."""
    code = f"""
def softmax(logits, dim):
    if logits.dtype == torch.float64 and logits.dim() == 3:
        {says}
    powers = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return powers / powers.sum(dim=dim, keepdim=True)
"""

    def make(student: str, about: str) -> Member:
        deserved = {name: points for name, points in _full().items() if name != "softmax"}
        return Member(student, {FILE: to_bytes(with_code("softmax", code))}, about, deserved)

    return make


@cache
def _noise(size: int) -> str:
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


def _pasted() -> Iterator[NotebookNode]:
    for _ in range(8):
        cell = new_markdown_cell("![a](attachment:a.png)" * 20)
        cell.attachments = {"a.png": {"image/png": _noise(700)}}
        yield cell


# What a page holds that tells of a hidden input; in the code itself it stands in two parts.
LEAK = "LEAKED"
_SAYS = "'LEAK' 'ED'"
_PICTURE = (
    "import numpy\nfrom IPython.display import Image, display\n"
    "display(Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + numpy.random.bytes(1_500_000), format='png'))"
)
_CHAIN = "[" + "0," * 20_000 + "]" + ".a" * 20_000

ROWS: dict[str, tuple[Maker, Maker]] = {
    "busy children": (
        _of_corpus(
            "resource_hogs",
            "110 busy children in sessions of their own, when it is called",
            _TRIES * WALL_FACTOR * SECONDS_PER_CALL,
        ),
        _of_corpus(
            "resource_hogs",
            "110 busy children in sessions of their own, left behind when it is defined",
            _TRIES * LIMITS.exercise_seconds,
        ),
    ),
    "texts that are slow to parse": (
        _with_cells(new_markdown_cell("](" + " " * 200_000)),
        _with_cells(new_markdown_cell("![" * 100_000 + "x" + "](y)" * 100_000)),
    ),
    "code that is slow to read": (
        _with_cells(new_code_cell(_CHAIN)),
        _with_cells(new_code_cell("%time" + " " * 80_000 + "x?")),
    ),
    "folders named like others'": (
        _with_files("honest-{number:02}_{number}_9{number}_" + FILE),
        _with_files("honest-{number:02}_{number}_assignsubmission_file_/" + FILE),
    ),
    "words of hidden inputs": (
        _telling(f"raise ValueError({_SAYS} + str(logits.tolist()))"),
        _telling(f"print({_SAYS}, logits.tolist()); return logits"),
    ),
    "links and pictures": (
        _with_cells(new_markdown_cell(r"[a](javascript\:alert(1)) ![a](attachment:gone.png)")),
        _with_cells(
            new_markdown_cell(
                "[![a][1]][2]\n\n[1]: attachment:gone.png\n[2]: &#106;avascript:alert(1)"
            )
        ),
    ),
    "integers with one hash": (
        _of_corpus("resource_hogs", "returns a dict of integers with one and the same hash"),
        _of_corpus("resource_hogs", "returns many dicts of integers with one and the same hash"),
    ),
    "more dimensions than there are": (
        _of_corpus("resource_hogs", "returns a tensor of 60,000 dimensions"),
        _of_corpus("resource_hogs", "returns a list of tensors of 65 dimensions each"),
    ),
    "pictures": (
        _that_are_run([_PICTURE] * 200, LIMITS.total_seconds),
        _with_cells(*_pasted()),
    ),
    "memory that nobody counts": (
        _of_corpus("walls", "looks for memory that is a file without a folder"),
        _of_corpus("walls", "mounts a disk of 64 gigabytes in a user namespace"),
    ),
}
