"""The house's own rules: what may import what, and what is said in one place only."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from course_files import CHAPTERS, COURSE, ROOT, source

HELPERS = ROOT / "helpers"
# The command line calls every side, each when its command is given.
CALLS_EVERY_SIDE = HELPERS / "cli.py"
FOR_STUDENTS = sorted([*HELPERS.glob("*.py"), *(HELPERS / "probes").glob("*.py")])


def imported_modules(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


@pytest.mark.parametrize("file", FOR_STUDENTS, ids=lambda file: file.name)
def test_what_students_use_imports_neither_authoring_nor_grading(file: Path) -> None:
    if file != CALLS_EVERY_SIDE:
        sides = ("helpers.authoring", "helpers.grading")
        assert not [m for m in imported_modules(file) if m.startswith(sides)]


# In the order in which work goes through them.
STAGES = ("intake", "sandbox", "judge", "records", "engine", "report", "review", "own", "demo")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_of_grading_knows_what_stands_before_it_and_not_what_comes_after(
    stage: str,
) -> None:
    files = list((HELPERS / "grading" / stage).rglob("*.py"))
    assert files
    later = tuple(f"helpers.grading.{name}" for name in STAGES[STAGES.index(stage) + 1 :])
    for file in files:
        assert not [m for m in imported_modules(file) if later and m.startswith(later)], file


def test_what_the_stages_share_knows_none_of_them() -> None:
    stages = tuple(f"helpers.grading.{name}" for name in STAGES)
    for file in (HELPERS / "grading").glob("*.py"):
        assert not [m for m in imported_modules(file) if m.startswith(stages)], file


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_notebook_imports_from_helpers_alone(chapter: str) -> None:
    for cell in source(chapter).cells:
        if cell.cell_type == "code":
            assert not re.search(r"^\s*(from|import) helpers\.", cell.source, re.MULTILINE)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_notebook_is_in_the_books_summary(chapter: str) -> None:
    assert f"({chapter}.md)" in (ROOT / "course" / "book" / "SUMMARY.md").read_text("utf-8")
    assert f"course/release/{chapter}/" in (ROOT / "README.md").read_text("utf-8")


def written_by_people() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]
    generated = (COURSE.root / "course" / "source", COURSE.root / "course" / "release")
    return [file for file in files if not any(folder in file.parents for folder in generated)]


def test_the_repositorys_address_stands_once() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    settings = tomllib.loads((ROOT / "book.toml").read_text(encoding="utf-8"))
    address = settings["output"]["html"]["git-repository-url"].encode()
    holders = [file.name for file in written_by_people() if address in file.read_bytes()]
    assert holders == ["book.toml"]


def test_conda_asks_for_what_pip_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["lab"]]
    other_names = {"torch": "pytorch-cpu", "matplotlib": "matplotlib-base"}
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    given = set(re.findall(r"^  - ([\w-]+>=[\d.]+)$", text, re.MULTILINE))
    for requirement in wanted:
        name, bound = requirement.split(">=")
        assert f"{other_names.get(name, name)}>={bound}" in given
    # Binder reads an exact version alone; a bound leaves it with a Python of its own choice.
    (python,) = re.findall(r"^  - python=(\d+\.\d+)$", text, re.MULTILINE)
    assert f'"{python}"' in (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")


@pytest.mark.parametrize(
    "name", ["apt.txt", "postBuild", "start", "requirements.txt", "Dockerfile", "binder", ".binder"]
)
def test_binder_finds_the_environment_and_nothing_else(name: str) -> None:
    """A student's Binder needs no browser; and one package that Ubuntu lacks stops its build."""
    assert not (ROOT / name).exists()


def test_every_picture_that_a_page_names_is_there_and_described() -> None:
    for page in (ROOT / "README.md", *(ROOT / "course" / "book").glob("*.md")):
        for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text("utf-8")):
            if target.startswith("https://"):
                continue  # a badge, which its host draws
            assert (page.parent / target).is_file(), f"{page.name}: {target}"
            assert len(text.split()) >= 5, f"{page.name}: {target}"
