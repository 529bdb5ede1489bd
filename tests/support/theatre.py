"""Databases in which the same scenario of sessions is played: PostgreSQL's, and the gateway's."""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg
import pytest

from tests.support.scenarios import Stage
from tests.support.servers import Address

PLAIN = "plain"
"""The database of PostgreSQL itself."""


@dataclass(frozen=True)
class Played:
    """What is to be seen of a scenario."""

    dialogue: list[str]
    rows: list[tuple]
    differences: list[tuple]
    """Between the table and its journal, of each table that has one."""


@dataclass(frozen=True)
class Theatre:
    """The databases, and what is in each before a scenario is played."""

    databases: Mapping[str, tuple[Address, str]]
    setup: Callable[[str, str], Sequence[str]]
    """The statements before a scenario, by the name of its database and its text."""
    journaled: Sequence[str] = ("t",)
    """The tables that have journals."""

    def played(
        self, number: int, scenario: str, names: Collection[str]
    ) -> Mapping[str, Future[Played]]:
        """Play a scenario in some of the databases at once."""
        with ThreadPoolExecutor(len(names)) as pool:
            return {name: pool.submit(self._play, name, number, scenario) for name in names}

    def _play(self, name: str, number: int, scenario: str) -> Played:
        server, database = self.databases[name]
        schema = f"scene_{number}"
        options = f"-c search_path={schema} -c lock_timeout=20s"
        conninfo = server.conninfo(database)

        def connect() -> psycopg.Connection:
            return psycopg.connect(
                conninfo, autocommit=True, prepare_threshold=None, options=options
            )

        with connect() as owner:
            for statement in (f"CREATE SCHEMA {schema}", *self.setup(name, scenario)):
                owner.execute(statement)
            with ExitStack() as stack:
                dialogue = Stage(connect, stack).play(scenario)
            rows = owner.execute("SELECT * FROM t ORDER BY id").fetchall()
            differences = []
            if name != PLAIN:
                for table in self.journaled:
                    differences += owner.execute(f"SELECT gateway.check('{table}')").fetchall()
        return Played(dialogue, rows, differences)


@contextmanager
def opened(
    prefix: str,
    servers: Mapping[str, Address],
    setup: Callable[[str, str], Sequence[str]],
    journaled: Sequence[str] = ("t",),
) -> Iterator[Theatre]:
    """Make a database for each name: definitions of one must not disturb others."""
    databases = {name: (server, f"{prefix}_{name}") for name, server in servers.items()}
    with ExitStack() as stack:
        for server, database in databases.values():
            server.execute(f"CREATE DATABASE {database}")
            stack.callback(server.execute, f"DROP DATABASE {database} WITH (FORCE)")
        yield Theatre(databases, setup, journaled)


def once(
    theatre: Theatre, scenarios: Mapping[str, str], session: pytest.Session
) -> Callable[[str], Mapping[str, Future[Played]]]:
    """Return what plays a scenario by its name, each once, wherever a test of the session asks."""
    numbers = {name: number for number, name in enumerate(scenarios)}
    asked = [item.callspec.params for item in session.items if hasattr(item, "callspec")]
    places = {name: {PLAIN} for name in scenarios}
    for params in asked:
        if params.get("backend") in theatre.databases:
            places.get(params.get("name"), set()).add(params["backend"])

    @functools.cache
    def play(name: str) -> Mapping[str, Future[Played]]:
        return theatre.played(numbers[name], scenarios[name], places[name])

    return play
