"""psycopg 3: queries, parameters and results in text and binary, prepared and not."""

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Json, Jsonb

from tests.support.fix_server import Pair

VALUES = {
    "boolean": True,
    "smallint": -32768,
    "integer": 2147483647,
    "bigint": -9223372036854775808,
    "real": 0.25,
    "double precision": 0.1,
    "numeric(12,4)": Decimal("-12345.6700"),
    "numeric": Decimal("1E-10"),
    "text": "äöü € 𝄞 \\ ' \" \n\t",
    "varchar(10)": "ten",
    "char(6)": "six   ",
    "bytea": bytes(range(256)),
    "date": dt.date(2024, 2, 29),
    "time": dt.time(23, 59, 59, 999999),
    "timestamp": dt.datetime(1969, 12, 31, 23, 59, 59, 1),  # noqa: DTZ001
    "timestamptz": dt.datetime(2024, 7, 1, 12, 0, 0, 5, tzinfo=dt.UTC),
    "interval": dt.timedelta(days=-3, hours=4, microseconds=7),
    "uuid": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "json": {"a": [1, 2.5, None, "x"]},
    "jsonb": {"a": [1, 2.5, None, "x"]},
    "integer[]": [1, None, -3],
    "text[]": ["a", None, 'b"c', "{}", ""],
    "numeric(6,2)[]": [Decimal("1.50"), None],
    "timestamptz[]": [dt.datetime(2024, 7, 1, 12, 0, tzinfo=dt.UTC)],
}
WRAPPED = {"json": Json, "jsonb": Jsonb}


@pytest.fixture
def connection(gateway, database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.mark.parametrize("binary_result", [False, True], ids=["text_out", "binary_out"])
@pytest.mark.parametrize("placeholder", ["%t", "%b"], ids=["text_in", "binary_in"])
def test_values_of_every_type_come_back(connection, placeholder, binary_result):
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES))
    connection.execute(f"CREATE TABLE every (id integer PRIMARY KEY, {columns})")
    values = [WRAPPED.get(kind, lambda value: value)(value) for kind, value in VALUES.items()]
    places = ", ".join([placeholder] * len(values))
    connection.execute(f"INSERT INTO every VALUES (1, {places})", values)
    connection.execute(f"INSERT INTO every VALUES (2, {places})", [None] * len(values))
    cursor = connection.execute("SELECT * FROM every ORDER BY id", binary=binary_result)
    first, second = cursor.fetchall()
    assert dict(zip(VALUES, first[1:], strict=True)) == VALUES
    assert second[1:] == (None,) * len(VALUES)


@pytest.mark.parametrize("kind", ["integer", "bigint", "numeric(12,4)", "text", "date", "uuid"])
def test_parameter_finds_the_row_by_its_key(connection, kind):
    connection.execute(f"CREATE TABLE keyed (k {kind} PRIMARY KEY, note text)")
    connection.execute("INSERT INTO keyed VALUES (%s, 'here')", [VALUES[kind]])
    for placeholder in ("%t", "%b"):
        for prepare in (False, True):
            found = connection.execute(
                f"SELECT note FROM keyed WHERE k = {placeholder}", [VALUES[kind]], prepare=prepare
            )
            assert found.fetchall() == [("here",)]


@pytest.mark.parametrize("executor", ["auto", "spark"])
@pytest.mark.parametrize("placeholder", ["%t", "%b"], ids=["text_in", "binary_in"])
def test_documents_are_read_as_postgresql_prints_them(connection, placeholder, executor):
    spelled = Jsonb({"bb": 1, "a": [-0.0, 1e2]}, dumps=lambda _: '{ "bb":1,"a":[-0,1e2],"bb":2 }')
    printed = '{"a": [0, 100], "bb": 2}'
    connection.execute("CREATE TABLE documents (id integer PRIMARY KEY, doc jsonb)")
    connection.execute("INSERT INTO documents SELECT g, '[]' FROM generate_series(1, 1500) g")
    connection.execute("SELECT set_config('gateway.executor', %s, false)", [executor])
    connection.execute(f"UPDATE documents SET doc = {placeholder} WHERE id > 3", [spelled])
    for query in (
        f"SELECT doc::text, ({placeholder})->>'a' FROM documents WHERE id = 7",
        f"SELECT doc::text, doc->>'a' FROM documents WHERE id = 7 AND doc @> {placeholder}",
        f"SELECT doc::text, doc->>'a' FROM documents WHERE id = 7 AND doc = {placeholder}",
    ):
        assert connection.execute(query, [spelled]).fetchall() == [(printed, "[0, 100]")]
    among = f"SELECT count(*) FROM documents WHERE doc @> {placeholder} AND doc ?| {placeholder}"
    assert connection.execute(among, [spelled, ["bb", "c"]]).fetchone() == (1497,)


def test_description_has_the_types_postgresql_announces(pair: Pair):
    described = []
    for server in (pair.plain, pair.gateway):
        with psycopg.connect(server.conninfo(pair.database), autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE t (id integer PRIMARY KEY, v varchar(7), n numeric(9,2))"
            )
            cursor = connection.execute(
                "SELECT id AS key, v, n, n * 2 AS twice, count(*) OVER () FROM t"
            )
            described.append(
                [
                    (c.name, c.type_code, c.display_size, c.precision, c.scale)
                    for c in cursor.description
                ]
            )
    assert described[0] == described[1]


def test_prepared_statement_sees_new_rows_and_new_definitions(connection):
    connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
    connection.execute("INSERT INTO t VALUES (1, 'a')")
    query = "SELECT v FROM t WHERE id = %s"
    for _ in range(7):
        assert connection.execute(query, [1], prepare=True).fetchall() == [("a",)]
    connection.execute("UPDATE t SET v = 'b'")
    assert connection.execute(query, [1], prepare=True).fetchall() == [("b",)]
    connection.execute("ALTER TABLE t RENAME COLUMN id TO key")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        connection.execute(query, [1], prepare=True)
    connection.execute("ALTER TABLE t RENAME COLUMN key TO id")
    assert connection.execute(query, [1], prepare=True).fetchall() == [("b",)]


def test_many_rows_by_executemany(connection):
    connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(n, f"row {n}") for n in range(30)])
        assert cursor.rowcount == 30
        cursor.executemany(
            "UPDATE t SET v = v || '!' WHERE id = %s RETURNING v", [(1,), (2,)], returning=True
        )
        returned = []
        while True:
            returned += cursor.fetchall()
            if not cursor.nextset():
                break
    assert returned == [("row 1!",), ("row 2!",)]
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (30,)


def test_rows_stream(connection):
    connection.execute(
        "CREATE TABLE t AS SELECT g AS id, 'row ' || g AS v FROM generate_series(1, 20000) g"
    )
    with connection.cursor() as cursor:
        total = sum(row[0] for row in cursor.stream("SELECT id, v FROM t", size=100))
    assert total == 20000 * 20001 // 2


def test_stream_is_left_early(connection):
    connection.execute("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 20000) g")
    with connection.cursor() as cursor:
        stream = cursor.stream("SELECT id FROM t")
        next(stream)
        stream.close()
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (20000,)


def test_transaction_blocks_commit_and_roll_back(connection):
    connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
    with connection.transaction():
        connection.execute("INSERT INTO t VALUES (1, 'kept')")
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():  # noqa: PT012 - the block fails
            connection.execute("INSERT INTO t VALUES (2, 'lost')")
            connection.execute("INSERT INTO t VALUES (1, 'twice')")
        connection.execute("INSERT INTO t VALUES (3, 'kept')")
    with connection.transaction(force_rollback=True):
        connection.execute("DELETE FROM t")
    assert connection.execute("SELECT * FROM t ORDER BY id").fetchall() == [
        (1, "kept"),
        (3, "kept"),
    ]


def test_row_factories_use_the_column_names(connection):
    connection.execute('CREATE TABLE t (id integer PRIMARY KEY, "Mixed Case" text)')
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute('SELECT id, "Mixed Case", id + 1 FROM t').fetchone()
    assert row == {"id": 1, "Mixed Case": "x", "?column?": 2}


def test_server_side_cursor(connection):
    connection.execute("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 100) g")
    with connection.transaction(), connection.cursor(name="c") as cursor:
        cursor.execute("SELECT id FROM t ORDER BY id")
        assert [row[0] for row in cursor.fetchmany(3)] == [1, 2, 3]
        assert len(cursor.fetchall()) == 97


@pytest.mark.parametrize("binary", [False, True])
def test_server_side_cursor_with_parameters(connection, binary):
    connection.execute(
        "CREATE TABLE t AS SELECT g AS id, g / 2.0 AS half FROM generate_series(1, 9) g"
    )
    with connection.transaction(), connection.cursor(name="c", binary=binary) as cursor:
        cursor.execute("SELECT id, half FROM t WHERE id > %s ORDER BY id", [6], binary=binary)
        assert [column.name for column in cursor.description] == ["id", "half"]
        cursor.itersize = 2
        assert list(cursor) == [(7, Decimal("3.5")), (8, Decimal(4)), (9, Decimal("4.5"))]


def test_server_side_cursor_in_another_encoding(connection):
    connection.execute("CREATE TABLE t AS SELECT chr(233) AS c")
    with connection.transaction(), connection.cursor(name="c") as cursor:
        cursor.execute("SELECT c FROM t")
        connection.execute("SAVEPOINT s")
        connection.execute("SET client_encoding TO euc_kr")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            cursor.fetchone()
        connection.execute("ROLLBACK TO s")
        connection.execute("SET client_encoding TO latin1")
        # A cursor of psycopg's reads texts as it was opened.
        assert connection.execute("FETCH FROM c").fetchone() == (chr(233),)


def test_server_side_cursor_that_outlasts_its_transaction(connection):
    connection.execute("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 100) g")
    with connection.cursor(name="c", withhold=True) as cursor:
        with connection.transaction():
            cursor.execute("SELECT id FROM t ORDER BY id")
            assert cursor.fetchone() == (1,)
        connection.execute("DELETE FROM t")
        cursor.scroll(48)
        assert cursor.fetchone() == (50,)
        assert len(cursor.fetchall()) == 50
