"""Prepared reads of tiered tables, executed again when something they depend on has changed.

They are asked for in one round trip, which has to notice all that could have changed. Each dialogue
is had with PostgreSQL, too, and with statements that are sent as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.sampling import crossed
from tests.support.servers import Address

pytestmark = pytest.mark.server

SCHEMA, OTHER, READER, GROUP = "prepared_reads", "prepared_others", "prepared_reader", "prepared_gr"

ROWS = (
    f"INSERT INTO t SELECT g, CASE WHEN g % 2 = 0 THEN '{READER}' ELSE 'nobody' END,"
    " g / 7.0::float8, '\\x00ff', timestamptz '2024-03-01 12:00+00' + g * interval '1 hour'"
    " FROM generate_series(1, 20) g"
)

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE SCHEMA {OTHER}",
    f"CREATE ROLE {READER} LOGIN",
    f"CREATE ROLE {GROUP}",
    f"GRANT USAGE ON SCHEMA {SCHEMA}, {OTHER} TO {READER}, {GROUP}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE t (id int PRIMARY KEY, owner name, x float8, b bytea, at timestamptz)",
    ROWS,
    "CREATE TABLE u (id integer PRIMARY KEY, note text)",
    "INSERT INTO u SELECT g, 'note ' || g FROM generate_series(1, 20) g",
    "CREATE VIEW v AS SELECT id, owner FROM t",
    f"CREATE TABLE {OTHER}.t (LIKE t INCLUDING ALL)",
    f"INSERT INTO {OTHER}.t SELECT id, 'other', x, b, at FROM t WHERE id < 5",
    f"GRANT SELECT ON t, u, {OTHER}.t TO {READER}",
    f"GRANT SELECT ON v TO {GROUP}",
    f"GRANT {GROUP} TO {READER}",
)

CLEANING = (
    f"DROP SCHEMA {SCHEMA}, {OTHER} CASCADE",
    f"DROP ROLE {READER}, {GROUP}",
)

READS = (
    "SELECT * FROM t WHERE id = %s",
    "SELECT id, x, b, at FROM t WHERE id = %s",
    "SELECT owner, count(*), current_user FROM t WHERE id >= %s GROUP BY owner ORDER BY owner",
    "SELECT owner, note FROM t JOIN u USING (id) WHERE id = %s",
    "SELECT * FROM v WHERE id = %s",
    "SELECT note, id * 2 FROM u WHERE id = %s",
)

KEYS = (2, 3)

Outcome = list[object]


@dataclass(frozen=True)
class Change:
    """What happens between two executions."""

    name: str
    others: tuple[str, ...] = ()
    """What the owner of the tables does meanwhile."""
    own: tuple[str, ...] = ()
    """What the session does itself."""
    reads: tuple[str, ...] = READS

    def __str__(self) -> str:
        return self.name


CHANGES = (
    Change("table revoked", (f"REVOKE SELECT ON t FROM {READER}",)),
    Change(
        "columns granted",
        (f"REVOKE SELECT ON t FROM {READER}", f"GRANT SELECT (id, owner) ON t TO {READER}"),
    ),
    Change("membership revoked", (f"REVOKE {GROUP} FROM {READER}",)),
    Change("schema revoked", (f"REVOKE USAGE ON SCHEMA {SCHEMA} FROM {READER}",)),
    Change("column added", ("ALTER TABLE t ADD COLUMN more integer DEFAULT 5",)),
    Change("column renamed", ("ALTER TABLE t RENAME COLUMN x TO y",)),
    Change("column dropped", ("ALTER TABLE t DROP COLUMN b",)),
    Change("table renamed", ("ALTER TABLE u RENAME TO w",)),
    Change(
        "table replaced",
        (
            "ALTER TABLE u RENAME TO w",
            "CREATE TABLE u (id integer PRIMARY KEY, note text)",
            "INSERT INTO u VALUES (2, 'new')",
            f"GRANT SELECT ON u TO {READER}",
        ),
    ),
    Change("view replaced", ("CREATE OR REPLACE VIEW v AS SELECT id, owner FROM t WHERE id > 2",)),
    Change("rows", ("UPDATE t SET x = -1.5 WHERE id = 2", "DELETE FROM u WHERE id = 3")),
    Change("search path", own=(f"SET search_path = {OTHER}, {SCHEMA}",)),
    Change("role", own=(f"SET ROLE {GROUP}",)),
    Change(
        "temporary table",
        own=("CREATE TEMP TABLE u AS SELECT 2 AS id, 'temporary' AS note",),
    ),
    Change("styles", own=("SET bytea_output = escape", "SET extra_float_digits = -5")),
    Change("time zone", own=("SET TimeZone = 'Asia/Kolkata'", "SET DateStyle = 'German'")),
)


@pytest.fixture
def served(shared_pair: Pair) -> Iterator[Pair]:
    """The same tables on both servers; the gateway's are tiered."""
    servers = (shared_pair.plain, shared_pair.gateway)
    for server in servers:
        server.execute(*SETUP, database=shared_pair.database)
    yield shared_pair
    for server in servers:
        server.execute(*CLEANING, database=shared_pair.database)


def connected(server: Address, database: str, user: str = READER) -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c TimeZone=UTC"
    conninfo = server.conninfo(database, user=user, options=options)
    connection = psycopg.connect(conninfo, autocommit=True)
    # As text, the way they are written.
    for oid in (17, 701, 1184):
        connection.adapters.register_loader(oid, psycopg.adapters.get_loader(25, 0))  # type: ignore[arg-type]
    return connection


def run(connection: psycopg.Connection, statements: tuple[str, ...]) -> None:
    for statement in statements:
        connection.execute(statement)  # type: ignore[call-overload]


def outcome(connection: psycopg.Connection, read: str, key: int, *, prepare: bool) -> object:
    """Return the rows of a read, or the SQLSTATE and the message of its failure."""
    query = read if prepare else read % key
    try:
        found = connection.execute(query, [key] if prepare else None, prepare=prepare)  # type: ignore[call-overload]
        return found.fetchall()
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary


def dialogue(
    pair: Pair, server: Address, change: Change, *, in_block: bool, prepare: bool
) -> Outcome:
    """Execute all reads before, after and again; return what came of each."""
    told: Outcome = []
    with (
        connected(server, pair.database) as reader,
        connected(server, pair.database, "postgres") as owner,
    ):

        def read_all() -> None:
            for read in change.reads:
                for key in KEYS:
                    if in_block:
                        reader.execute("SAVEPOINT s")
                    told.append((read, outcome(reader, read, key, prepare=prepare)))
                    if in_block:
                        reader.execute("ROLLBACK TO s")

        def changed(statements: tuple[str, ...], own: tuple[str, ...] = ()) -> None:
            # Outside of blocks: the reader has the tables locked inside.
            run(owner, statements)
            if in_block:
                reader.execute("BEGIN")
            run(reader, own)
            read_all()
            read_all()
            if in_block:
                reader.execute("COMMIT")

        changed(())
        changed(change.others, change.own)
    return told


@pytest.mark.parametrize(("change", "in_block"), crossed(CHANGES, [False, True]))
def test_what_has_changed_is_seen(served: Pair, change: Change, in_block: bool) -> None:
    for prepare in (True, False):
        # Again, from what the first has left.
        answers = [
            dialogue(served, server, change, in_block=in_block, prepare=prepare)
            for server in (served.plain, served.gateway)
        ]
        assert answers[1] == answers[0]
        if change.others:
            break


def test_a_block_that_keeps_its_snapshot_reads_the_same_again(served: Pair) -> None:
    for server in (served.plain, served.gateway):
        with (
            connected(server, served.database) as reader,
            connected(server, served.database, "postgres") as owner,
        ):
            before = outcome(reader, READS[0], 2, prepare=True)
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert outcome(reader, READS[0], 2, prepare=True) == before
            owner.execute("UPDATE t SET x = 0 WHERE id = 2")
            owner.execute("INSERT INTO u VALUES (100, 'later')")
            assert outcome(reader, READS[0], 2, prepare=True) == before
            assert outcome(reader, READS[5], 100, prepare=True) == []
            reader.execute("COMMIT")
            assert outcome(reader, READS[0], 2, prepare=True) != before
            assert outcome(reader, READS[5], 100, prepare=True) == [("later", 200)]


@pytest.mark.parametrize("prepare", [False, True], ids=["sent again", "prepared"])
def test_the_name_of_a_journal_stands_for_what_it_would_now(served: Pair, prepare: bool) -> None:
    read = "SELECT count(*) FROM made_journal WHERE %s > 0"
    with (
        connected(served.gateway, served.database, "postgres") as reader,
        connected(served.gateway, served.database, "postgres") as owner,
    ):

        def found() -> object:
            return outcome(reader, read, 1, prepare=prepare)

        make = ("CREATE TABLE made (id integer PRIMARY KEY)", "INSERT INTO made VALUES (1), (2)")
        run(owner, make)
        missing = ("42P01", 'relation "made_journal" does not exist')
        assert [found() for _ in range(3)] == [[(2,)]] * 3
        run(owner, ("DROP TABLE made",))
        assert [found() for _ in range(2)] == [missing] * 2
        run(owner, make)
        assert [found() for _ in range(2)] == [[(2,)]] * 2
        run(owner, ("DROP TABLE made", make[0]))
        assert [found() for _ in range(2)] == [[(0,)]] * 2
        # A relation of that name hides the journal.
        run(owner, ("CREATE TABLE made_journal AS SELECT generate_series(1, 3) AS x",))
        assert [found() for _ in range(2)] == [[(3,)]] * 2
        run(owner, ("DROP TABLE made_journal",))
        assert [found() for _ in range(2)] == [[(0,)]] * 2
        # So does one of the session's own, which changes no definition.
        run(reader, ("CREATE TEMP TABLE first (x integer)",))
        assert [found() for _ in range(2)] == [[(0,)]] * 2
        run(reader, ("CREATE TEMP TABLE made_journal (x integer)",))
        run(reader, ("INSERT INTO made_journal VALUES (1), (2), (3), (4)",))
        assert [found() for _ in range(2)] == [[(4,)]] * 2
        run(reader, ("DROP TABLE made_journal",))
        assert [found() for _ in range(2)] == [[(0,)]] * 2


def test_a_block_sees_its_own_rows(served: Pair) -> None:
    for server in (served.plain, served.gateway):
        with connected(server, served.database, "postgres") as owner:
            for note in ("one", "two"):
                owner.execute("BEGIN")
                owner.execute("UPDATE u SET note = %s WHERE id = 2", [note])
                assert outcome(owner, READS[5], 2, prepare=True) == [(note, 4)]
                owner.execute("ROLLBACK")
                assert outcome(owner, READS[5], 2, prepare=True) == [("note 2", 4)]


SLOW = "SELECT max(md5(a.id::text || b.id::text)) FROM slow a, slow b WHERE a.id <= %s"


def test_statement_timeout_is_that_of_the_moment(served: Pair) -> None:
    owner = "postgres"
    with connected(served.gateway, served.database, owner) as client:
        client.execute("CREATE TABLE slow AS SELECT generate_series(1, 3000) id")
        assert len(outcome(client, SLOW, 1, prepare=True)) == 1  # type: ignore[arg-type]
        client.execute("SET statement_timeout = '300ms'")
        state, _ = outcome(client, SLOW, 3000, prepare=True)  # type: ignore[misc]
        assert state == "57014"
        client.execute("SET statement_timeout = 0")
        assert len(outcome(client, SLOW, 1, prepare=True)) == 1  # type: ignore[arg-type]


def test_a_lock_that_is_waited_for_can_be_cancelled(served: Pair) -> None:
    with (
        connected(served.gateway, served.database) as reader,
        connected(served.gateway, served.database, "postgres") as owner,
    ):
        before = outcome(reader, READS[0], 2, prepare=True)
        owner.execute("BEGIN")
        owner.execute("ALTER TABLE t ADD COLUMN more integer")
        for begins in (False, True):
            if begins:
                reader.execute("BEGIN")
            reader.execute(f"SET {'LOCAL' if begins else ''} statement_timeout = '300ms'")
            state, _ = outcome(reader, READS[0], 2, prepare=True)  # type: ignore[misc]
            assert state == "57014"
            if not begins:
                reader.execute("SET statement_timeout = 0")
        state, _ = outcome(reader, READS[0], 2, prepare=True)  # type: ignore[misc]
        assert state == "25P02"
        reader.execute("ROLLBACK")
        owner.execute("ROLLBACK")
        assert outcome(reader, READS[0], 2, prepare=True) == before


def test_a_failure_in_a_block_is_the_blocks(served: Pair) -> None:
    with (
        connected(served.gateway, served.database) as reader,
        connected(served.gateway, served.database, "postgres") as owner,
    ):
        outcome(reader, READS[0], 2, prepare=True)
        reader.execute("BEGIN")
        reader.execute("CREATE TEMP TABLE mine (a integer)")
        owner.execute(f"REVOKE SELECT ON t FROM {READER}")
        state, _ = outcome(reader, READS[0], 2, prepare=True)  # type: ignore[misc]
        assert state == "42501"
        assert reader.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        reader.execute("COMMIT")
        with pytest.raises(psycopg.errors.UndefinedTable):
            reader.execute("TABLE mine")
