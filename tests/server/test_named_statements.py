"""Statements that SQL has prepared and the protocol executes, and the other way round."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.pq import ExecStatus

from tests.support.servers import Address

pytestmark = pytest.mark.server

INT4 = 23

READ = b"SELECT id, v FROM t WHERE id = $1"

CHANGE = b"UPDATE t SET v = v || '!' WHERE id = $1 RETURNING v"


@pytest.fixture(params=["postgresql", "gateway"])
def connection(
    request: pytest.FixtureRequest, plain_postgres: Address, gateway: Address, database: str
) -> Iterator[psycopg.Connection]:
    """A connection to a table of three rows, of PostgreSQL's and of the gateway's."""
    is_plain = request.param == "postgresql"
    conninfo = plain_postgres.conninfo() if is_plain else gateway.conninfo(database)
    with psycopg.connect(conninfo, autocommit=True) as opened:
        opened.execute(
            f"CREATE {'TEMPORARY' if is_plain else ''} TABLE t (id int PRIMARY KEY, v text)"
        )
        opened.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        yield opened


def bound(
    connection: psycopg.Connection, name: bytes, *values: bytes
) -> list[tuple[bytes | None, ...]]:
    """Return the rows of a prepared statement in text, as it is executed by the protocol."""
    result = connection.pgconn.exec_prepared(name, values)
    assert result.status in {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK}, result.error_message
    return [
        tuple(result.get_value(row, column) for column in range(result.nfields))
        for row in range(result.ntuples)
    ]


def sqlstate_of(run: Callable[..., object], *arguments: object) -> str:
    """Return the SQLSTATE of something that fails."""
    result = run(*arguments)
    assert isinstance(result, psycopg.pq.PGresult)
    assert result.status == ExecStatus.FATAL_ERROR
    return result.error_field(psycopg.pq.DiagnosticField.SQLSTATE).decode()


def test_the_protocol_binds_what_sql_has_prepared(connection: psycopg.Connection) -> None:
    connection.execute(b"PREPARE reading (integer) AS " + READ)
    connection.execute(b"PREPARE changing (integer) AS " + CHANGE)
    assert bound(connection, b"reading", b"2") == [(b"2", b"b")]
    assert bound(connection, b"changing", b"2") == [(b"b!",)]
    assert bound(connection, b"reading", b"2") == [(b"2", b"b!")]


def test_the_protocol_describes_it(connection: psycopg.Connection) -> None:
    connection.execute(b"PREPARE reading (integer) AS " + READ)
    told = connection.pgconn.describe_prepared(b"reading")
    assert [told.param_type(number) for number in range(told.nparams)] == [INT4]
    assert [told.fname(number) for number in range(told.nfields)] == [b"id", b"v"]


def test_the_protocol_drops_it(connection: psycopg.Connection) -> None:
    connection.execute(b"PREPARE reading (integer) AS " + READ)
    assert connection.pgconn.close_prepared(b"reading").status == ExecStatus.COMMAND_OK
    assert sqlstate_of(connection.pgconn.exec_prepared, b"reading", [b"1"]) == "26000"
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        connection.execute("EXECUTE reading (1)")


def test_it_is_gone_for_the_protocol_where_sql_has_dropped_it(
    connection: psycopg.Connection,
) -> None:
    connection.execute(b"PREPARE reading (integer) AS " + READ)
    assert bound(connection, b"reading", b"1") == [(b"1", b"a")]
    connection.execute("DEALLOCATE reading")
    assert sqlstate_of(connection.pgconn.exec_prepared, b"reading", [b"1"]) == "26000"
    connection.execute("PREPARE reading (text) AS SELECT id FROM t WHERE v = $1")
    assert bound(connection, b"reading", b"c") == [(b"3",)]


def test_columns_that_have_changed_are_refused(connection: psycopg.Connection) -> None:
    connection.execute("PREPARE whole AS SELECT * FROM t")
    connection.execute("ALTER TABLE t ADD COLUMN w integer")
    assert sqlstate_of(connection.pgconn.exec_prepared, b"whole", []) == "0A000"
    connection.execute("ALTER TABLE t DROP COLUMN w")
    assert len(bound(connection, b"whole")) == len("abc")


def test_a_failed_block_binds_nothing(connection: psycopg.Connection) -> None:
    connection.execute(b"PREPARE reading (integer) AS " + READ)
    connection.execute("BEGIN")
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    assert sqlstate_of(connection.pgconn.exec_prepared, b"reading", [b"1"]) == "25P02"
    connection.execute("ROLLBACK")
    assert bound(connection, b"reading", b"1") == [(b"1", b"a")]


def test_names_of_the_gateways_own_are_nobodys(gateway: Address, database: str) -> None:
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as client:
        with pytest.raises(psycopg.errors.ReservedName):
            client.execute("PREPARE pgwire_locked AS SELECT 1")
        client.execute("CREATE TABLE t (id int PRIMARY KEY)")
        client.execute("EXPLAIN SELECT * FROM t")
        for statement in ("EXECUTE pgwire_explained", "EXPLAIN EXECUTE pgwire_explained"):
            with pytest.raises(psycopg.errors.InvalidSqlStatementName):
                client.execute(statement)
        assert client.execute("SELECT * FROM pg_prepared_statements").fetchall() == []


def test_sql_executes_what_the_protocol_has_prepared(connection: psycopg.Connection) -> None:
    connection.pgconn.prepare(b"reading", READ, [INT4])
    connection.pgconn.prepare(b"changing", CHANGE, [INT4])
    assert connection.execute("EXECUTE reading (3)").fetchall() == [(3, "c")]
    assert connection.execute("EXECUTE changing (3)").fetchall() == [("c!",)]
    assert bound(connection, b"reading", b"3") == [(b"3", b"c!")]
    connection.execute("DEALLOCATE changing")
    assert sqlstate_of(connection.pgconn.exec_prepared, b"changing", [b"3"]) == "26000"
    listed = "SELECT name, statement, from_sql FROM pg_prepared_statements"
    assert connection.execute(listed).fetchall() == [("reading", READ.decode(), False)]


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_rows_come_in_the_format_asked_for(
    connection: psycopg.Connection, prepare: bool, binary: bool
) -> None:
    connection.execute(
        "PREPARE whole (integer) AS SELECT *, id / 8.0, now() - now() FROM t WHERE id <= $1"
    )
    cursor = connection.cursor(binary=binary)
    for last in (1, 2):
        cursor.execute(f"EXECUTE whole ({last})", prepare=prepare)
        assert cursor.statusmessage == f"SELECT {last}"
        assert [row[:2] for row in cursor.fetchall()] == [(1, "a"), (2, "b")][:last]
