"""The embedded catalog: one server for the whole run, a fresh database for each test."""

import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from catalog.api import Catalog, CatalogConfig
from catalog.errors import GatewayError
from catalog.model import Segment
from catalog.results import CaptureReceipt, LocalResult, SnapshotRequest, SnapshotResult
from catalog.session.connections import CatalogSession

_numbers = itertools.count(1)

PATIENCE_S = 60.0
"""How long something may take that is sure to happen."""


@pytest.fixture(scope="session")
def catalog() -> Iterator[Catalog]:
    # Not below pytest's directory: each run of pytest as root shuts it to the server's account.
    with tempfile.TemporaryDirectory(prefix="catalog-", ignore_cleanup_errors=True) as directory:
        opened = Catalog.open(CatalogConfig(data_dir=Path(directory)))
        yield opened
        opened.close()


@dataclass
class Client:
    """A session as tests use it: rows as text, small inserts committed."""

    session: CatalogSession
    notices: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session.on_notice = lambda fields: self.notices.append(dict(fields))

    def run(self, sql: str) -> list[tuple[str | None, ...]]:
        """Run one statement on PostgreSQL itself and return its rows."""
        result = self.session.execute(sql)
        return [tuple(None if v is None else v.decode() for v in row) for row in result.rows]

    def value(self, sql: str) -> str | None:
        ((value,),) = self.run(sql)
        return value

    def relid(self, name: str) -> int:
        return int(self.value(f"SELECT '{name}'::regclass::oid::int8") or 0)

    def segment_path(self, table: str, kind: str, number: int) -> str:
        """Return a path that a segment of a table may have."""
        (location,) = [
            snapshot.table.location for snapshot in self.snapshot(table).snapshots.values()
        ]
        return f"{location}/{kind}-{number:032x}"

    def insert(
        self,
        table: str,
        sql: str,
        *,
        inline_rows: int = 1000,
        inline_bytes: int = 1 << 40,
        commit: bool = True,
    ) -> tuple[LocalResult, CaptureReceipt]:
        """Run an INSERT as the gateway does."""
        answer = self.session.writes.insert_small(
            self.relid(table), sql, inline_rows=inline_rows, inline_bytes=inline_bytes
        )
        if commit:
            self.session.transaction.commit()
        return answer

    def truncate(self, table: str, *ended: Segment) -> None:
        """End all rows of a table, whose tail and tombstones are in these segments."""
        relid = self.relid(table)
        began = self.session.transaction_status == "I"
        versions, _ = self.session.writes.begin_write([relid], command="TRUNCATE TABLE")
        self.run(f"TRUNCATE {table}")
        read = self.snapshot(table).snapshots[relid].tail_rows
        self.session.journals.truncate(relid, versions[relid], ended, tail_read=read)
        if began:
            self.session.transaction.commit()

    def snapshot(self, table: str, known_state: str | None = None) -> SnapshotResult:
        return self.session.observations.snapshot(
            [SnapshotRequest(self.relid(table), known_state=known_state)]
        )

    def tail(self, table: str) -> list[list[object]]:
        """Return the row versions in a table's tail, without version numbers."""
        result = self.snapshot(table)
        (tail,) = result.tails.values()
        return [row[:-3] for piece in tail.pieces() for row in piece]

    def state(self, table: str) -> str:
        (snapshot,) = self.snapshot(table).snapshots.values()
        return snapshot.state

    def sqlstate(self, sql: str) -> str:
        """Run a statement that must fail, and return its SQLSTATE."""
        with pytest.raises(GatewayError) as caught:
            self.run(sql)
        return caught.value.sqlstate


def wait_until_waiting(client: Client, observer: Client, event_type: str) -> None:
    """Wait until PostgreSQL says that a client's statement waits for an event of a type.

    The observer may be in a transaction: what that has seen of others would be all it sees.
    """
    pid = client.session.backend_pid
    query = f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'"
    deadline = time.monotonic() + PATIENCE_S
    observer.run("SELECT pg_stat_clear_snapshot()")
    while observer.run(query) != [(event_type,)]:
        assert time.monotonic() < deadline, f"the statement does not wait for {event_type}"
        time.sleep(0.01)
        observer.run("SELECT pg_stat_clear_snapshot()")


def cancel_when_waiting(client: Client, observer: Client, event_type: str) -> None:
    """Cancel, from another thread, a statement of a client that is to come, when it waits."""

    def cancel() -> None:
        wait_until_waiting(client, observer, event_type)
        client.session.cancel()

    threading.Thread(target=cancel, daemon=True).start()


def _administer(catalog: Catalog, sql: str) -> None:
    administrator = catalog.admin("postgres")
    list(administrator.execute(sql).rows)
    administrator.close()


@pytest.fixture(scope="session")
def pristine_database(catalog: Catalog) -> str:
    """A database with bookkeeping and nothing else, to make others from."""
    _administer(catalog, "CREATE DATABASE pristine OWNER postgres")
    catalog.admin("pristine").close()
    return "pristine"


@pytest.fixture
def database(catalog: Catalog, pristine_database: str) -> Iterator[str]:
    """A new database, owned by the role clients find."""
    name = f"test_{next(_numbers)}"
    _administer(catalog, f"CREATE DATABASE {name} TEMPLATE {pristine_database} OWNER postgres")
    yield name
    _administer(catalog, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def connect(catalog: Catalog, database: str) -> Iterator[Callable[..., Client]]:
    """Opens clients on the test's database."""
    opened: list[Client] = []

    def open_client(user: str = "postgres", **settings: str) -> Client:
        client = Client(catalog.connect(user, database, settings))
        opened.append(client)
        return client

    yield open_client
    for client in opened:
        client.session.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    """A client logged in as the owner of the test's database."""
    return connect()


@pytest.fixture
def other(connect: Callable[..., Client]) -> Client:
    """A second client beside `client`."""
    return connect()


@dataclass
class Inspector:
    """An administrator's session that compares resident tables with their journals."""

    session: CatalogSession

    def run(self, sql: str) -> list[tuple[str | None, ...]]:
        result = self.session.execute(sql)
        return [tuple(None if v is None else v.decode() for v in row) for row in result.rows]

    def differences(self) -> dict[str, int]:
        """Return, for each table that differs from its tail, how many rows do."""
        rows = self.run(
            "SELECT j.relid::regclass, pg_journal.check_tail(j.relid) FROM pg_journal.journals j"
            " WHERE j.residency = 'resident'"
        )
        return {str(name): int(count or 0) for name, count in rows if count != "0"}

    def versions(self, table: str) -> list[tuple[str | None, ...]]:
        """Return the tail of a table, oldest first: its columns, and whether it is a tombstone."""
        ((relid,),) = self.run(f"SELECT '{table}'::regclass::oid::int8")
        columns = self.run(
            "SELECT string_agg('c' || attnum || ', ', '' ORDER BY attnum) FROM pg_journal.columns"
            f" WHERE relid = {relid} AND name <> ''"
        )[0][0]
        return self.run(
            f"SELECT {columns or ''} subsequent_version_number IS NOT NULL"
            f" FROM pg_journal.tail_{relid} ORDER BY version_number"
        )


@pytest.fixture
def inspector(catalog: Catalog, database: str) -> Iterator[Inspector]:
    """Makes new tables of the test's database resident, and looks into their tails."""
    session = catalog.admin(database)
    opened = Inspector(session)
    opened.run("SELECT pg_journal.configure(100000, 67108864, 1000000)")
    opened.run("SET search_path = public")
    yield opened
    session.close()


@pytest.fixture
def reader(client: Client, connect: Callable[..., Client]) -> Client:
    """A client whose role owns nothing."""
    name = f"reader_{next(_numbers)}"
    client.run(f"CREATE ROLE {name} LOGIN")
    return connect(name)
