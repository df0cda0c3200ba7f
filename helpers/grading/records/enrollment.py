"""The class list in nbgrader's gradebook: who is in the class, whether they hand in or not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nbgrader.api import Student

from helpers.grading.intake.roster import Person
from helpers.grading.records.registration import open_course
from helpers.grading.records.transactions import TransactionalGradebook

_MOST_CHARACTERS = 128  # of a name in nbgrader's tables


def enroll(course: Path, people: Iterable[Person]) -> int:
    """Make the gradebook know these people, and return how many it did not know.

    What it knows of somebody already is kept; only what is empty there is filled in.

    Args:
        course: the folder with ``nbgrader_config.py``; a gradebook is made if there is none.
        people: with the ids that their submissions have.

    Raises:
        RegistrationError: the course's configuration cannot be read.
        GradebookError: something else has been writing to the gradebook for too long.
    """
    directory = open_course(course)
    gradebook = TransactionalGradebook(directory.db_url, directory.course_id)
    new = 0
    try:
        with gradebook.transaction():
            known = {student.id: student for student in gradebook.db.query(Student)}
            for person in people:
                new += person.student not in known
                student = known.get(person.student) or gradebook.update_or_create_student(
                    person.student
                )
                for column in ("first_name", "last_name", "email"):
                    text = getattr(person, column)
                    if text and not getattr(student, column):
                        setattr(student, column, text[:_MOST_CHARACTERS])
    finally:
        gradebook.close()
    return new
