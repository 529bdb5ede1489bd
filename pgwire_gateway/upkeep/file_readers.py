"""Who may be reading data files that the catalog's list no longer has.

A statement reads files by a list that it was given at its beginning; in READ COMMITTED no snapshot
of PostgreSQL tells that it still does. Its session does: between two statements, with no rows of a
result left to be sent, it reads nothing. So files that are in no list any more can go as soon as
every session that was reading then has been at rest once, however long that takes.
"""

import itertools
import threading
from collections.abc import Iterable
from typing import Final

_NOBODY: Final = float("inf")


class FileReaders:
    """The sessions and upkeep of this process that may be reading files, and since when."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments = itertools.count(1)
        self._reading: dict[object, tuple[str, int]] = {}
        self._unlisted: dict[tuple[str, str], int] = {}
        """Since when it is known that new statements do not read these files."""

    def begin(self, reader: object, database: str) -> None:
        """Note that somebody may read files of a database from now on, if that is not known."""
        if reader not in self._reading:
            with self._lock:
                self._reading[reader] = database, next(self._moments)

    def end(self, reader: object) -> None:
        """Note that this reader needs none of the files that it has been told of."""
        self._reading.pop(reader, None)

    def unread(
        self, database: str, paths: Iterable[str], besides: object | None = None
    ) -> frozenset[str]:
        """Return those of some paths that nobody reads any more.

        Args:
            database: Whose files they are.
            paths: Files that whoever begins now will not be told of, as all of the database know.
            besides: A reader that is known to need none of them.
        """
        with self._lock:
            now = next(self._moments)
            since = {path: self._unlisted.setdefault((database, path), now) for path in paths}
            begun = min(
                (
                    moment
                    for reader, (name, moment) in self._reading.copy().items()
                    if name == database and reader is not besides
                ),
                default=_NOBODY,
            )
        return frozenset(path for path, moment in since.items() if moment < begun)

    def forget(self, database: str, paths: Iterable[str]) -> None:
        """Forget files that are gone."""
        with self._lock:
            for path in paths:
                self._unlisted.pop((database, path), None)
