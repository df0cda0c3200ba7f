"""The README says what is true of the course."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from course_files import CHAPTERS, COURSE, EXERCISES

from helpers.authoring.badges import with_badges
from helpers.authoring.launches import LaunchError, find_launches

README = (COURSE.root / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d\d) \| .*?\((.+?)\).*?\| (\d+) \| (.*) \|$", README, re.MULTILINE)


def test_every_chapter_has_its_row_with_the_number_of_its_exercises() -> None:
    assert [number for number, *_ in ROWS] == [chapter[:2] for chapter in CHAPTERS]
    for chapter, (_, notebook, count, _) in zip(CHAPTERS, ROWS, strict=True):
        assert COURSE.root / notebook == COURSE.release(chapter)
        assert int(count) == sum(exercise.chapter == chapter for exercise in EXERCISES)
    assert f"its {len(EXERCISES)} exercises" in README


def test_every_chapter_opens_in_colab_and_binder() -> None:
    for _, notebook, _, badges in ROWS:
        colab, binder = re.findall(r"\]\((https://(?:colab|mybinder)[^)]+)\)(?= |$)", badges)
        assert colab.endswith(f"/blob/main/{notebook}")
        assert binder.endswith(f"?labpath={notebook.replace('/', '%2F')}")


def test_badges_follow_the_address_in_the_books_settings(tmp_path: Path) -> None:
    address = "https://github.com/an-owner/a-course"
    (tmp_path / "book.toml").write_text(f'[output.html]\ngit-repository-url = "{address}"\n')
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    text = with_badges(tmp_path)
    assert text.count("github/an-owner/a-course/blob/main/") == len(CHAPTERS)
    assert text.count("mybinder.org/v2/gh/an-owner/a-course/HEAD") == len(CHAPTERS)
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert with_badges(tmp_path) == text


@pytest.mark.parametrize("address", ["", "https://example.org/a/b", "https://github.com/alone"])
def test_an_address_that_cannot_be_launched_is_named(address: str) -> None:
    with pytest.raises(LaunchError, match=rf"git-repository-url in book\.toml is '{address}'"):
        find_launches(address, "a.ipynb")
