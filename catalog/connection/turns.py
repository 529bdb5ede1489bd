"""Turns of asking the server: what has to be over, and done, before something else is asked."""

from collections.abc import Callable

from catalog.connection.due_steps import DueSteps
from catalog.connection.link import Link
from catalog.connection.pipelines import Pipelines
from catalog.connection.presence import Presence
from catalog.results import LocalResult


class Turns:
    """The turns on one connection, which whoever holds its lock takes one after the other."""

    def __init__(self, link: Link, pipelines: Pipelines, presence: Presence, due: DueSteps) -> None:
        self._link = link
        self._pipelines = pipelines
        self._presence = presence
        self._due = due
        self._unread: LocalResult | None = None
        """The answer whose rows have not all been fetched."""
        self.uses = 0
        """How often something was asked of the server."""

    def take(self, *, sends: bool = True) -> None:
        """Drop what is left of an earlier result, and have the server for the asking.

        What has to come before is run, if nothing else sends that.
        """
        self.uses += 1
        self._presence.end()
        if self._unread is not None:
            self._unread = None
            self._link.drain()
        if self._due.presses and sends:
            self._pipelines.run(self._due.take())

    def leave_unread(self, answer: LocalResult) -> None:
        """Note that rows of an answer are yet to be fetched."""
        self._unread = answer

    def is_unread(self, answer: LocalResult) -> bool:
        """Return whether rows of an answer may still be fetched: nothing else was asked since."""
        return self._unread is answer

    def stand_in(self, text: str, wanted: Callable[[], bool]) -> bool:
        """Let the server sleep between two turns; see `Backend.stand_in`."""
        with self._link.lock:
            if self._presence.status or self._unread is not None or not wanted():
                return bool(self._presence.status)
            if self._due.presses:
                self._pipelines.run(self._due.take())
            return self._presence.begin(text)
