"""The students' copy of the course: what it has, what it must not have, and that it works."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from course_files import CHAPTERS, COURSE, EXERCISES, ROOT, find_cell, source
from lab_server import TOKEN, free_port, stop, wait_until_up
from secret_lines import find_secrets, secret_lines

import bootstrap
from helpers.authoring.kept_tree import write_tree
from helpers.authoring.markdown import link_targets
from helpers.authoring.publish import PublishError, publish, student_files, summarize
from helpers.authoring.settings import repository_address
from helpers.authoring.student_readme import ReadmeError, make_student_readme
from helpers.cli import _SIDES

CHAPTER = "08-numerical-stability"
Put = Callable[[Path, str], None]
STAFF = [name for side in _SIDES if side.package != "helpers" for name in side.names]


@pytest.fixture(scope="module")
def published() -> dict[str, bytes]:
    return student_files(ROOT)


@pytest.fixture(scope="module")
def tree(published: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "students"
    write_tree(published, folder)
    return folder


def files_of(tree: Path) -> list[str]:
    hidden = (".venv", "work", "bits_and_gradients.egg-info")
    found = (file.relative_to(tree) for file in tree.rglob("*") if file.is_file())
    return sorted(f.as_posix() for f in found if f.parts[0] not in hidden)


# --- What is in it -----------------------------------------------------------------------------


def test_what_students_need_is_there_and_nothing_else(tree: Path) -> None:
    files = files_of(tree)
    assert {file.split("/")[0] for file in files} == {
        *(".gitignore", ".published.json", "LICENSE", "LICENSE-CODE", "Makefile", "README.md"),
        *("bootstrap.py", "constraints.txt", "course", "environment.yml", "helpers"),
        "pyproject.toml",
    }
    in_course = [file for file in files if file.startswith("course/")]
    assert in_course == [f"course/release/{c}/{COURSE.release(c).name}" for c in CHAPTERS]
    packages = {file.split("/")[1] for file in files if re.match(r"helpers/.*/", file)}
    assert packages == {
        *("catalogue", "drawings", "explorables", "figures", "lab_settings", "probes", "reading"),
        "report",
    }
    assert not [file for file in files if "__pycache__" in file or "staff" in file]
    for file in ROOT.glob("helpers/*"):
        assert file.is_dir() or f"helpers/{file.name}" in files


def test_no_settings_of_the_staffs_are_left(tree: Path) -> None:
    project = (tree / "pyproject.toml").read_text("utf-8")
    for word in ("nbgrader", "grading", "pytest", "ruff", "instructor", "maintainer"):
        assert word not in project
    assert 'lab = ["anywidget' in project
    assert not (tree / "staff.mk").exists()


def test_every_exercise_and_its_tests_and_other_solutions_have_secret_lines() -> None:
    known = {of for places in secret_lines().values() for of in places}
    for exercise in EXERCISES:
        for what in ("solution", "hidden test", "other solutions"):
            assert f"{what} of {exercise.name}" in known


def test_no_secret_line_is_anywhere_in_the_tree(tree: Path) -> None:
    assert find_secrets(tree) == []
    for file in files_of(tree):
        text = (tree / file).read_bytes()
        assert b"### BEGIN SOLUTION" not in text, file
        assert b"### BEGIN HIDDEN TESTS" not in text, file


def secret_of(what: str) -> str:
    """Return two lines of one secret that follow each other.

    A solution's, of any exercise of the chapter, stand in none of the other solutions, which would
    be named in its place.
    """
    notebook, others = source(CHAPTER), ""
    folder = ROOT / "tests" / "exercises" / CHAPTER.replace("-", "_")
    if what == "solution":
        names = [exercise.name for exercise in EXERCISES if exercise.chapter == CHAPTER]
        text = "\n".join(find_cell(notebook, name).source for name in names)
        others = "".join(file.read_text("utf-8") for file in folder.glob("*.py"))
    elif what == "hidden test":
        text = find_cell(notebook, "test-softmax").source.split("### BEGIN HIDDEN TESTS")[1]
    else:
        text = (folder / "softmax.py").read_text("utf-8")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    secret = [line for line in secret_lines() if line not in others]
    pairs = itertools.pairwise(lines)
    return "\n".join(next(p for p in pairs if p[0] in secret and p[1] in secret))


def put_into_cell(kind: str) -> Put:
    def put(tree: Path, secret: str) -> None:
        file = tree / "course" / "release" / CHAPTER / "numerical-stability.ipynb"
        notebook = nbformat.read(file, as_version=4)
        cell = next(cell for cell in notebook.cells[5:] if cell.cell_type == kind)
        cell.source += "\n    " + secret.replace("\n", "\n    ")
        nbformat.write(notebook, file)

    return put


def put_into_output(tree: Path, secret: str) -> None:
    file = tree / "course" / "release" / CHAPTER / "numerical-stability.ipynb"
    notebook = nbformat.read(file, as_version=4)
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=secret)]
    nbformat.write(notebook, file)


def put_into_hint(tree: Path, secret: str) -> None:
    file = tree / "helpers" / "catalogue" / f"{CHAPTER}.json"
    content = json.loads(file.read_text("utf-8"))
    content["exercises"][0]["hints"][2] = secret
    file.write_text(json.dumps(content))


def put_into_file(name: str) -> Put:
    def put(tree: Path, secret: str) -> None:
        with (tree / name).open("a", encoding="utf-8") as stream:
            stream.write("\n    # " + secret.replace("\n", "\n    # ") + "\n")

    return put


@pytest.mark.parametrize("what", ["solution", "hidden test", "other solutions"])
@pytest.mark.parametrize(
    "put",
    [
        pytest.param(put_into_cell("code"), id="code cell"),
        pytest.param(put_into_cell("markdown"), id="text cell"),
        pytest.param(put_into_output, id="output"),
        pytest.param(put_into_hint, id="hint"),
        pytest.param(put_into_file("helpers/data.py"), id="module"),
        pytest.param(put_into_file("README.md"), id="readme"),
        pytest.param(put_into_file("course/release/answers.txt"), id="other file"),
    ],
)
def test_a_secret_that_is_put_there_is_found(
    tree: Path, tmp_path: Path, what: str, put: Put
) -> None:
    copy = tmp_path / "copy"
    for part in (f"course/release/{CHAPTER}", "helpers/catalogue"):
        shutil.copytree(tree / part, copy / part)
    for name in ("helpers/data.py", "README.md"):
        shutil.copy(tree / name, copy / name)
    assert find_secrets(copy) == []
    put(copy, secret_of(what))
    assert what in {finding.of.split(" of ")[0] for finding in find_secrets(copy)}


# --- The README --------------------------------------------------------------------------------


def test_every_link_of_the_readme_leads_somewhere(tree: Path) -> None:
    text = (tree / "README.md").read_text("utf-8")
    targets = [t for t in link_targets(text) if not re.match(r"https?://", t)]
    assert len([t for t in targets if t.endswith(".ipynb")]) == len(CHAPTERS)
    for target in targets:
        assert target.startswith("#") or (tree / target.partition("#")[0]).exists(), target
    known = re.findall(r"^([a-z-]+):", (tree / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)) == {"lab"}
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= set(known)


README = """\
# The course

What it is: [guide](guide.md), [home](https://example.org), [below](#chapters), [no](#staff).
<a href="other.html">x</a>

[![badge](badge.svg)](ci.yml) ![kept](kept.png)

## Start

```sh
make lab    # for you
make test   # not for you
```

```sh
make test
```

Learn it. Type `make test`
to test. See chapter 1.5 for more.

Type `make test` to test.

- One: `make lab`.
- Two: `make staff`.

![A picture
of two lines.](gone.png)

## Staff

Not for students.

```sh
## Chapters
```

## Chapters

[One](course/release/01/)

## License

See [LICENSE](LICENSE "the license").
"""
MADE = """\
# The course

What it is: guide, [home](https://example.org), [below](#chapters), no.

 ![kept](kept.png)

## Start

```sh
make lab    # for you
```

Learn it. See chapter 1.5 for more.

- One: `make lab`.

## Chapters

[One](course/release/01/)

## License

See [LICENSE](LICENSE "the license").
"""
THERE = ("README.md", "LICENSE", "kept.png", "course/release/01/one.ipynb")


def test_the_readme_keeps_what_concerns_students_and_leads_nowhere_else() -> None:
    made = make_student_readme(README.replace('<a href="other.html">x</a>\n', ""), THERE, ["lab"])
    assert made == MADE


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("## Start", "## Begin", 'has no headings "## Start"'),
        ("## Staff", "## Start", 'has 2 headings "## Start"'),
        ("## Staff", "## Also for the staff", "other.html is not in the students' copy"),
    ],
)
def test_a_readme_that_cannot_be_made_is_told(before: str, after: str, told: str) -> None:
    with pytest.raises(ReadmeError, match=re.escape(told)):
        make_student_readme(README.replace(before, after), THERE, ["lab"])


# --- What is refused ---------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A repository with one chapter."""
    root = tmp_path / "repository"
    for part in ("source", "release"):
        shutil.copytree(ROOT / "course" / part / CHAPTER, root / "course" / part / CHAPTER)
    shutil.copy(ROOT / "course" / "nbgrader_config.py", root / "course")
    shutil.copytree(ROOT / "helpers" / "lab_settings", root / "helpers" / "lab_settings")
    shutil.copy(ROOT / "helpers" / "__init__.py", root / "helpers")
    for name in (".gitignore", "LICENSE", "LICENSE-CODE", "Makefile", "README.md", "book.toml"):
        shutil.copy(ROOT / name, root)
    for name in ("bootstrap.py", "constraints.txt", "environment.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    return root


def test_a_notebook_with_more_than_students_may_see_is_refused(small: Path, tmp_path: Path) -> None:
    released = small / "course" / "release" / CHAPTER / "numerical-stability.ipynb"
    sound = released.read_bytes()
    shutil.copy(small / "course" / "source" / CHAPTER / "numerical-stability.ipynb", released)
    with pytest.raises(PublishError, match="is not what its source gives"):
        publish(small, tmp_path / "students")
    released.write_bytes(sound)
    shutil.copy(released, released.with_name("answers.ipynb"))
    with pytest.raises(PublishError, match=r"answers\.ipynb has no source"):
        publish(small, tmp_path / "students")
    released.with_name("answers.ipynb").unlink()
    released.write_bytes(b"{")
    with pytest.raises(PublishError, match="is damaged"):
        publish(small, tmp_path / "students")
    assert not (tmp_path / "students").exists()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda root: (root / "LICENSE").unlink(), "LICENSE cannot be read"),
        (lambda root: shutil.rmtree(root / "course" / "release"), "there are no notebooks"),
        (lambda root: (root / "README.md").write_text("# x\n"), 'no headings "## Start"'),
    ],
)
def test_a_repository_that_lacks_something_is_told(small: Path, tmp_path, spoil, told) -> None:
    spoil(small)
    with pytest.raises((PublishError, ReadmeError), match=told):
        publish(small, tmp_path / "students")
    assert not (tmp_path / "students").exists()


def test_the_repository_itself_is_no_destination(small: Path) -> None:
    for folder in (small, small / "build" / "students"):
        with pytest.raises(PublishError, match="is in the repository"):
            publish(small, folder)


def test_the_address_is_remembered(small: Path, tmp_path: Path) -> None:
    publish(small, tmp_path / "students", "https://example.org/a/course")
    assert publish(small, tmp_path / "students").renewed == ()
    name = f"course/release/{CHAPTER}/numerical-stability.ipynb"
    update = publish(small, tmp_path / "students", "https://example.org/b/course")
    assert update.renewed == (name,)
    assert b"git+https://example.org/b/course" in (tmp_path / "students" / name).read_bytes()


def set_address(root: Path, address: str) -> None:
    """Set the repository's address, and do to the notebooks what a build would."""
    ours = repository_address(root)
    for file in (root / "book.toml", *root.glob("course/*/*/*.ipynb")):
        file.write_text(file.read_text("utf-8").replace(ours, address), "utf-8")


def test_an_address_that_was_never_set_is_told(small: Path, tmp_path: Path) -> None:
    students, others = tmp_path / "students", tmp_path / "others"
    theirs = "https://example.org/a-class/of_ours"
    set_address(small, "https://example.org/YOUR_ORG/course")
    untold = publish(small, students)
    assert "address is not set" in summarize(untold, small, students)[-1]
    told = publish(small, students, theirs)
    assert not any("is not set" in line for line in summarize(told, small, students))
    set_address(small, theirs)
    update = publish(small, others)
    assert not any("is not set" in line for line in summarize(update, small, others))


def test_an_address_that_the_notebooks_do_not_have_yet_is_refused(small: Path, tmp_path) -> None:
    settings = small / "book.toml"
    settings.write_text(settings.read_text().replace(repository_address(small), "https://a.b/c/d"))
    for address in (None, "https://example.org/a-class/of-ours"):
        with pytest.raises(PublishError, match="run make build"):
            publish(small, tmp_path / "students", address)
    assert not (tmp_path / "students").exists()


def test_notebooks_install_from_the_address_that_is_given(small: Path) -> None:
    name = f"course/release/{CHAPTER}/numerical-stability.ipynb"
    ours = f"git+{repository_address(small)}".encode()
    assert ours in student_files(small)[name]
    notebook = student_files(small, "https://example.org/course/")[name]
    assert ours not in notebook
    assert b'git+https://example.org/course\\"' in notebook
    readme = small / "README.md"
    page = f"{urlsplit(repository_address(small)).path}/blob/main/one.ipynb"
    badge = f"[![Colab](https://example.org/badge.svg)](https://colab.example.org/github{page})"
    readme.write_text(f"# x\n\nHere: {badge}\n\n## Start\n\n## Chapters\n\n## License\n")
    assert badge.encode() in student_files(small)["README.md"]
    near = student_files(small, "https://github.com/a-class/of-ours")["README.md"].decode()
    assert "(https://colab.example.org/github/a-class/of-ours/blob/main/one.ipynb)" in near
    far = student_files(small, "https://example.org/course")["README.md"].decode()
    assert far.startswith("# x\n\nHere:\n\n## Start")
    with pytest.raises(PublishError, match="is not an address"):
        student_files(small, 'https://example.org/"; rm')


# --- That it works -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree with an empty environment of its own, in which pip finds everything but our package.

    It is what bootstrap.py makes first, except that the packages are those of the running
    environment: ``make lab`` then has the course itself left to install.
    """
    packages = tmp_path_factory.mktemp("packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.match(r"bits_and_gradients|__editable__|.*\.pth$|__pycache__", entry.name):
            (packages / entry.name).symlink_to(entry)
    venv = tree / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    # Before the environment's own folder: so pip is found there, too.
    (site / "packages.pth").write_text(f"import sys; sys.path.insert(1, {str(packages)!r})\n")
    for name in ("share", "etc"):
        (venv / name).symlink_to(Path(sys.prefix) / name)
    python = ".".join(map(str, sys.version_info[:2]))
    bootstrap.write_record(venv, {"state": "empty", "location": str(venv), "python": python})
    return tree


def environment(home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_", "MAKE"))}
    # Bytecode beside the modules would look like something that was published.
    kept |= {"PYTHONDONTWRITEBYTECODE": "1", "PIP_CONFIG_FILE": os.devnull}
    return {**kept, "HOME": str(home), "COLUMNS": "100"}


def in_tree(tree: Path, home: Path, *command: str) -> subprocess.CompletedProcess:
    path = f"{tree / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=tree,
        env={**environment(home), "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


FIRST_EXERCISE = """
import json, sys
from pathlib import Path
import helpers, importlib.util
assert Path(helpers.__file__).is_relative_to(sys.argv[1]), helpers.__file__
assert importlib.util.find_spec("helpers.grading") is None
(file,) = Path.cwd().glob("*.ipynb")
names = {"__name__": "__main__"}
for cell in json.loads(file.read_text("utf-8"))["cells"]:
    name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
    if name.startswith("needed-") or name in ("softmax", "test-softmax"):
        exec("".join(cell["source"]), names)
    if name == "test-softmax":
        break
"""


def test_make_lab_installs_delivers_and_opens_and_a_check_answers(
    installed: Path, tmp_path: Path
) -> None:
    port = free_port()
    command = ["make", "lab", f"PYTHON={sys.executable}", f"PORT={port}"]
    command += ["PIP_ARGS=--no-deps --no-build-isolation --no-index"]
    command += [f"ARGS=--no-browser --IdentityProvider.token={TOKEN}"]
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=installed,
            env=environment(tmp_path / "home"),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until_up(f"http://127.0.0.1:{port}", process, log)
    finally:
        stop(process)
    said = log.read_text("utf-8")
    assert "New in your copy: 00-warm-up, 01-normalization" in said
    assert "Opening JupyterLab on" in said
    assert sorted(p.name for p in (installed / "work").glob("[0-9]*")) == CHAPTERS

    home = tmp_path / "home"
    script = tmp_path / "first_exercise.py"
    script.write_text(f"import os; os.chdir('work/{CHAPTER}')\n{FIRST_EXERCISE}")
    ran = in_tree(installed, home, "python", str(script), str(installed))
    assert ran.returncode == 0, ran.stderr
    assert "nothing is written here yet" in ran.stdout
    assert "0 of" in in_tree(installed, home, "bits", "progress", "08").stdout
    assert "Hint 1 of 3" in in_tree(installed, home, "bits", "hint", "softmax").stdout

    shown = in_tree(installed, home, "bits", "--help").stdout
    assert "As a student" in shown
    assert "instructor" not in shown
    assert not [name for name in STAFF if f"  {name} " in shown]
    for name in ("grade", "build"):
        told = in_tree(installed, home, "bits", name, CHAPTER)
        assert told.returncode == 1
        assert told.stderr == (
            f"Error: bits {name} is not in the students' copy of the course: use the repository "
            f"from "
            f"which this copy was published\n"
        )


def test_what_colab_installs_has_all_of_the_helpers(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(".venv", "work", "*.egg-info"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path]
    subprocess.run([*command, copy], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert names == {file for file in files_of(tree) if file.startswith("helpers/")}


def test_a_setup_for_the_staff_is_refused_in_one_sentence(tree: Path) -> None:
    for arguments in (["instructor"], ["maintainer", "--system-packages"]):
        command = [sys.executable, "bootstrap.py", *arguments]
        told = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        assert told.returncode == 1
        assert "the students' copy of the course" in told.stderr
        assert told.stderr.count("\n") == 1


def test_make_shows_what_students_can_type(tree: Path) -> None:
    shown = subprocess.run(["make"], cwd=tree, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^  make ([a-z-]+) ", shown, re.MULTILINE) == ["help", "lab", "clean"]


def test_publishing_again_changes_nothing_and_leaves_what_a_student_would_have(
    installed: Path, published: dict[str, bytes]
) -> None:
    before = {file: (installed / file).stat().st_mtime_ns for file in files_of(installed)}
    update = write_tree(published, installed)
    assert (update.new, update.renewed, update.removed) == ((), (), ())
    assert {file: (installed / file).stat().st_mtime_ns for file in before} == before
    assert (installed / ".venv").is_dir()
