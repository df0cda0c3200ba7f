"""`make check`: what a change can reach is run, and nothing that it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from change_reach import Node, Tree, is_test
from changed_only import ROOT, chapters_of, loaded_later
from code_uses import BODY, differing_parts
from course_files import COURSE
from what_changed import changed_files, changed_parts, find_base, repository_files

FILES = {
    "helpers/__init__.py": "",
    "helpers/numbers.py": "LIMIT = 3\n\ndef small(x):\n    return x < LIMIT\n\ndef big(x):\n"
    "    return x > 9\n",
    "helpers/words.py": "from helpers import numbers\n\ndef short(word):\n"
    "    return numbers.small(len(word))\n\ndef loud(word):\n    return word.upper()\n",
    "helpers/child.py": "print('in a process of its own')\n",
    "helpers/pages/style.css": "p {}\n",
    "helpers/pages/read.py": "FOLDER = 'pages'\n",
    "tests/made.py": "import pytest\nfrom helpers import words\n\n@pytest.fixture\n"
    "def short_word():\n    return words.short('a')\n",
    "tests/test_words.py": "from helpers.words import loud, short\n\ndef test_short():\n"
    "    assert short('a')\n\ndef test_loud():\n    assert loud('a')\n",
    "tests/test_fixture.py": "def test_it(short_word):\n    assert short_word\n",
    "tests/test_child.py": "import subprocess\nCODE = 'import helpers.child'\n\n"
    "def test_child():\n    subprocess.run(['python', '-c', CODE])\n",
    "tests/test_file.py": "def test_it():\n    assert open('helpers/child.py')\n",
    "tests/test_page.py": "from helpers.pages import read\n\ndef test_page():\n"
    "    assert read.FOLDER\n",
    "tests/test_nothing.py": "def test_nothing():\n    pass\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def reached(root: Path, *changed: Node) -> list[str]:
    found = Tree(root, FILES).tests_reached(changed)
    return sorted(f"{file.removeprefix('tests/test_')[:-3]}.{name}" for file, name in found)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (("helpers/numbers.py", "small"), ["fixture.test_it", "words.test_short"]),
        (("helpers/numbers.py", "LIMIT"), ["fixture.test_it", "words.test_short"]),
        (("helpers/numbers.py", "big"), []),
        (("helpers/words.py", "loud"), ["words.test_loud"]),
        (("tests/made.py", "short_word"), ["fixture.test_it"]),
        (("helpers/child.py", BODY), ["child.test_child", "file.test_it"]),
        (("helpers/pages/style.css", BODY), ["page.test_page"]),
        (("tests/test_nothing.py", "test_nothing"), ["nothing.test_nothing"]),
    ],
)
def test_what_uses_a_changed_part_is_reached(
    root: Path, changed: Node, expected: list[str]
) -> None:
    assert reached(root, changed) == expected


def test_what_everything_hangs_on_reaches_everything(root: Path) -> None:
    everything = [node for node in Tree(root, FILES).parts if is_test(node)]
    assert len(reached(root, ("pyproject.toml", BODY))) == len(everything) == 7


def test_nearer_tests_are_known_to_be_nearer(root: Path) -> None:
    steps = Tree(root, FILES).tests_reached([("helpers/words.py", "short")])
    assert steps["tests/test_words.py", "test_short"] < steps["tests/test_fixture.py", "test_it"]


def test_a_part_differs_by_what_it_does() -> None:
    code = FILES["helpers/numbers.py"]
    assert differing_parts(code, code + "\n# a remark\n") == set()
    assert differing_parts(code, code.replace("x > 9", "x  >  9")) == set()
    assert differing_parts(code, code.replace("x > 9", "x > 8")) == {"big"}
    assert differing_parts(code, code.replace("LIMIT = 3", "LIMIT = 4")) == {"LIMIT"}
    assert differing_parts(code, code + "\nprint(LIMIT)\n") == {BODY}
    assert differing_parts(code, code.replace("def big", "def large")) == {"big", "large"}


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def test_a_change_is_seen_from_where_the_branch_began(root: Path) -> None:
    git(root, "init", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    git(root, "checkout", "-b", "branch")
    words = root / "helpers" / "words.py"
    words.write_text(words.read_text().replace("upper", "title"))
    git(root, "commit", "-am", "second")
    (root / "helpers" / "new.py").write_text("ONE = 1\n")
    (root / "helpers" / "child.py").unlink()
    solutions = root / "tests" / "exercises" / "00_warm_up" / "one.py"
    solutions.parent.mkdir(parents=True)
    solutions.write_text("# a remark alone: all of such a file is data\n")
    base = find_base(root)
    files = changed_files(root, base)
    data = "tests/exercises/00_warm_up/one.py"
    assert files == ["helpers/child.py", "helpers/new.py", "helpers/words.py", data]
    assert set(changed_parts(root, base, files)) == {
        ("helpers/child.py", BODY),
        ("helpers/new.py", "ONE"),
        ("helpers/words.py", "loud"),
        (data, BODY),
    }
    git(root, "add", ".")
    git(root, "commit", "-m", "third")
    git(root, "checkout", "main")
    git(root, "merge", "branch")
    assert changed_files(root, find_base(root)) == ["helpers/child.py", "helpers/new.py", data]


# --- The repository's own


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(ROOT, repository_files(ROOT), loaded_later())


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        # Seen by an import, by a probe's name in a chapter, in a child process and in a sandbox.
        (("helpers/grading/judge/judge.py", "judge_submission"), "judge judged_chapters demo"),
        (("helpers/probes/scaling.py", "scaler_steps"), "exercises honest_notebooks chapter_04"),
        (("helpers/grading/inside/warm_process.py", BODY), "warm attack_corpus judge"),
        (("helpers/guard.py", "WALL_FACTOR"), "clock exercises judged_chapters"),
        (("helpers/authoring/book.py", "build"), "book links every_page accessibility"),
        (("helpers/grading/review/review.py", BODY), "review demo"),
        (("helpers/grading/report/pages/style.css", BODY), "class_report"),
        (("tests/attacks/kills.py", BODY), "attack_corpus"),
        (("bootstrap.py", "main"), "bootstrap"),
    ],
)
def test_the_tests_that_look_at_it_are_among_those_reached(
    tree: Tree, changed: Node, tests: str
) -> None:
    files = {file for file, _ in tree.tests_reached([changed])}
    assert files >= {f"tests/test_{name}.py" for name in tests.split()}


def test_every_file_that_tests_look_at_reaches_one(tree: Tree) -> None:
    folders = ("helpers/", "course/", "tests/exercises/", "tests/attacks/", "tests/honest/")
    for file in repository_files(ROOT):
        if file.startswith(folders) and not file.endswith("__init__.py"):
            parts = [node for node in tree.parts if node[0] == file] or [(file, BODY)]
            assert tree.tests_reached(parts), file


def test_who_changes_a_report_waits_for_no_book(tree: Tree) -> None:
    files = {file for file, _ in tree.tests_reached([("helpers/grading/report/kinds.py", BODY)])}
    assert not files & {"tests/test_book.py", "tests/test_exercises.py", "tests/test_judge.py"}


LITTLE_TIME = """
import changed_only
from pathlib import Path

changed_only.ROOT = Path(__file__).parent
TESTS = ("test_first.py::test_quick", "test_first.py::test_slow", "test_other.py::test_it")


def pytest_configure(config):
    selection = changed_only.Selection(dict.fromkeys(TESTS, 0), [], [], {TESTS[1]: 99.0})
    config.pluginmanager.register(changed_only.ChangedOnly(selection, 50.0))


def pytest_collection_finish(session):
    session.items.sort(key=lambda item: TESTS.index(item.nodeid))
"""


def test_a_test_for_which_there_is_no_time_leaves_the_others_sound(tmp_path: Path) -> None:
    for name, tests in (("first", ("quick", "slow")), ("other", ("it",))):
        code = "\n".join(f"def test_{test}():\n    pass\n" for test in tests)
        (tmp_path / f"test_{name}.py").write_text(code)
    (tmp_path / "conftest.py").write_text(LITTLE_TIME)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    environment = kept | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "No time for 1 tests: test_first.py" in ran.stdout
    assert "2 passed, 1 not tried" in ran.stdout


def test_a_change_in_one_chapter_alone_is_known_as_such() -> None:
    (text,) = (path for path in COURSE.chapters if path.name.startswith("03_"))
    chapter = text.stem.replace("_", "-")
    built = f"course/source/{chapter}/notebook.ipynb"
    solutions = f"tests/exercises/{text.stem}/one.py"
    assert chapters_of([f"course/chapters/{text.name}", built, solutions]) == {chapter}
    assert chapters_of([built, "helpers/checks.py"]) == set()
    assert chapters_of(["helpers/catalogue/__init__.py"]) == set()
