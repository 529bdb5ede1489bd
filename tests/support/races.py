"""Two sessions at a time that want what only one can have, beside all others.

A race is about rows of its own, which are gone afterwards.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle

import psycopg

from tests.support import hot_load
from tests.support.hot_clients import (
    LOCK_TIMEOUT,
    Connection,
    Door,
    Findings,
    connected,
    is_lost,
    pause,
)
from tests.support.related_rows import RACED, STEADY_TEAMS
from tests.support.servers import Address

REST_S = 0.05

COLD_S = 1.5
"""After which rows may be cold."""

UNIQUE, REFERENCE = "23505", "23503"

TEAM = STEADY_TEAMS[0]


@dataclass(frozen=True)
class Race:
    """Two statements at the same time, each a transaction of its own.

    ``{one}`` and ``{other}`` are numbers that no other race has.
    """

    name: str
    before: str
    """What makes the rows that it is about; nothing if empty."""
    statements: tuple[str, str]
    left: str
    """Counts the rows that are left."""
    endings: Mapping[tuple[str, str], int]
    """How many these are, by the SQLSTATEs of both statements, "" of what succeeds."""


_SEATED = "SELECT count(*) FROM members WHERE seat = {one}"
_OPEN = "INSERT INTO teams VALUES ({one}, {one}, 0)"
_JOIN = f"INSERT INTO members VALUES ({{one}}, {TEAM}, {{one}}, 0)"
_JOIN_TOO = f"INSERT INTO members VALUES ({{other}}, {TEAM}, {{one}}, 0)"
_INVITE = "INSERT INTO guests VALUES ({one}, {one}, NULL, 0)"
_ONE_OF_TWO = {("", UNIQUE): 1, (UNIQUE, ""): 1}

RACES = (
    Race("one seat inserted twice", "", (_JOIN, _JOIN_TOO), _SEATED, _ONE_OF_TWO),
    Race(
        "one badge inserted twice",
        "",
        (_OPEN, "INSERT INTO teams VALUES ({other}, {one}, 0)"),
        "SELECT count(*) FROM teams WHERE badge = {one}",
        _ONE_OF_TWO,
    ),
    Race(
        "one key inserted twice",
        "",
        (_JOIN, f"INSERT INTO members VALUES ({{one}}, {TEAM}, {{other}}, 0)"),
        "SELECT count(*) FROM members WHERE id = {one}",
        _ONE_OF_TWO,
    ),
    Race(
        "one seat taken twice",
        f"INSERT INTO members VALUES ({{one}}, {TEAM}, NULL, 0), ({{other}}, {TEAM}, NULL, 0)",
        (
            "UPDATE members SET seat = {one} WHERE id = {one}",
            "UPDATE members SET seat = {one} WHERE id = {other}",
        ),
        _SEATED,
        _ONE_OF_TWO,
    ),
    Race(
        "a seat left and taken",
        _JOIN,
        ("DELETE FROM members WHERE id = {one}", _JOIN_TOO),
        _SEATED,
        {("", ""): 1, ("", UNIQUE): 0},
    ),
    Race(
        "a seat freed and taken",
        _JOIN,
        ("UPDATE members SET seat = {other} WHERE id = {one}", _JOIN_TOO),
        _SEATED,
        {("", ""): 1, ("", UNIQUE): 0},
    ),
    Race(
        "a team closed and joined",
        _OPEN,
        (
            "DELETE FROM teams WHERE id = {one}",
            "INSERT INTO members VALUES ({one}, {one}, NULL, 0)",
        ),
        "SELECT count(*) FROM members WHERE team = {one}",
        {("", REFERENCE): 0, (REFERENCE, ""): 1},
    ),
    Race(
        "a team closed and visited",
        _OPEN,
        ("DELETE FROM teams WHERE id = {one}", _INVITE),
        "SELECT count(*) FROM guests WHERE team = {one}",
        {("", ""): 0, ("", REFERENCE): 0},
    ),
    Race(
        "a team moved and visited",
        _OPEN,
        ("UPDATE teams SET id = {other} WHERE id = {one}", _INVITE),
        "SELECT count(*) FROM guests WHERE team = {other}",
        {("", ""): 1, ("", REFERENCE): 0},
    ),
    Race(
        "a host who leaves",
        _JOIN,
        (
            "DELETE FROM members WHERE id = {one}",
            f"INSERT INTO guests VALUES ({{one}}, {TEAM}, {{one}}, 0)",
        ),
        "SELECT count(*) FROM guests WHERE id = {one} AND host IS NOT NULL",
        {("", ""): 0, ("", REFERENCE): 0},
    ),
)

_AFTERWARDS = tuple(
    f"DELETE FROM {table} WHERE id IN ({{one}}, {{other}})"
    for table in ("guests", "members", "teams")
)


class Racing:
    """Has two sessions fight, in all kinds of races."""

    def __init__(self, findings: Findings, door: Door) -> None:
        """Note what is wrong there, and how races ended."""
        self.address = Address("127.0.0.1", 0)
        self._findings = findings
        self._door = door
        self._chance = random.Random(findings.seed)  # noqa: S311 - not for secrets
        self._number = RACED
        self._races = cycle(self._chance.sample(RACES, len(RACES)))

    def run(self, stopped: Callable[[], bool]) -> None:
        """Hold races until told to stop, or until a connection breaks."""
        try:
            with ExitStack() as stack:
                pool = stack.enter_context(ThreadPoolExecutor(2))
                sessions = [stack.enter_context(connected(self.address)) for _ in range(2)]
                for session in sessions:
                    session.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")  # type: ignore[call-overload]
                while not stopped():
                    self._hold(pool, sessions, next(self._races))
                    pause(REST_S, stopped)
        except psycopg.Error as error:
            if error.sqlstate not in hot_load.PASSING:
                self._findings.note_end("racing", error)

    def _hold(self, pool: ThreadPoolExecutor, sessions: list[Connection], race: Race) -> None:
        numbers = {"one": self._number, "other": self._number + 1}
        self._number += 2
        if race.before:
            with self._door.passed():
                sessions[0].execute(race.before.format(**numbers))  # type: ignore[call-overload]
            pause(self._chance.choice((0.0, 0.0, 0.0, COLD_S)), lambda: False)
        barrier = threading.Barrier(2)

        def run(session: Connection, statement: str) -> str:
            barrier.wait()
            try:
                session.execute(statement.format(**numbers))  # type: ignore[call-overload]
            except psycopg.Error as error:
                if session.broken or is_lost(error):
                    raise
                return error.sqlstate or ""
            return ""

        with self._door.passed():
            ending = tuple(pool.map(run, sessions, race.statements))
        self._findings.races[race.name, *ending] += 1
        if not hot_load.PASSING & {*ending}:
            found = sessions[0].execute(race.left.format(**numbers)).fetchone()  # type: ignore[call-overload]
            expected = race.endings.get((ending[0], ending[1]))
            if expected is None or found != (expected,):
                self._findings.wrong.append((time.time(), race.name, numbers, ending, found))
        for statement in _AFTERWARDS:
            sessions[0].execute(statement.format(**numbers))  # type: ignore[call-overload]
