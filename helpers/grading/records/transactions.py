"""nbgrader's gradebook, in which many of its methods make one transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import nbgrader.api
from alembic.script import ScriptDirectory
from nbgrader.api import Gradebook
from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from helpers.grading.errors import GradingError

_SECONDS_TO_WAIT = 30


class GradebookError(GradingError):
    """The gradebook as a whole cannot be written."""


class TransactionalGradebook(Gradebook):
    """A gradebook that can be used inside ``transaction`` only.

    nbgrader's own methods commit whenever they have changed something: a kill between two of them
    leaves half a submission. Inside ``transaction`` their commits are held back.
    """

    def __init__(self, db_url: str, course_id: str) -> None:
        """Open the gradebook at ``db_url``; it is made if it is not there."""
        self._shown = make_url(db_url).database or db_url
        with self._told(), schema_version_without_program():
            super().__init__(db_url, course_id)
        self.db.remove()
        if self.engine.dialect.name == "sqlite":
            self.engine.dispose()
            event.listen(self.engine, "connect", _take_over_beginning)
            event.listen(self.engine, "begin", _begin_as_writer)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all that happens to the gradebook in here happen at the end, or not at all.

        Raises:
            GradebookError: somebody else has been writing to it for too long.
        """
        with self._told(), self.engine.begin() as connection:
            # SQLAlchemy's own way to let a session that commits take part in a transaction
            # that it cannot end.
            self.db.configure(bind=connection, join_transaction_mode="rollback_only")
            try:
                yield
                self.db.flush()
            finally:
                self.db.remove()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:
            raise GradebookError(
                f"The gradebook {self._shown} cannot be written ({error.orig}): make sure that "
                f"nothing else is writing to it and that the disk has room, and run the same "
                f"command again; what has been judged is kept."
            ) from error


def _take_over_beginning(connection: sqlite3.Connection, _: object) -> None:
    """Let nobody but us begin a transaction: sqlite3 would, but only at the first change."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_SECONDS_TO_WAIT * 1000}")


def _begin_as_writer(connection: Connection) -> None:
    """Begin as the one who writes: what is read then stays true until it is changed."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def is_there(db_url: str) -> bool:
    """Return whether there is a gradebook: nbgrader would make one when it is opened."""
    url = make_url(db_url)
    if url.get_backend_name() != "sqlite":
        return True
    return url.database is not None and Path(url.database).is_file()


@contextlib.contextmanager
def schema_version_without_program() -> Iterator[None]:
    """Let nbgrader, which writes its schema's version into a new gradebook, ask alembic here.

    It would start a program for that, which need not be on the path and takes seconds.
    """
    before = nbgrader.api.get_alembic_version
    nbgrader.api.get_alembic_version = _schema_version
    try:
        yield
    finally:
        nbgrader.api.get_alembic_version = before


def _schema_version() -> str:
    scripts = Path(nbgrader.__file__).with_name("alembic")
    return ScriptDirectory(str(scripts)).get_current_head()
