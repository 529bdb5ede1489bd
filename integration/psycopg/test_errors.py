"""psycopg 3: errors have PostgreSQL's classes and fields, and leave the session usable."""

import psycopg
import pytest

from tests.support.fix_server import Pair

SCHEMA = """
CREATE TABLE t (id integer PRIMARY KEY, v varchar(3) NOT NULL, n integer CHECK (n > 0));
INSERT INTO t VALUES (1, 'a', 1)
"""

MISTAKES = {
    "unique": ("INSERT INTO t VALUES (%s, 'b', 1)", [1]),
    "not_null": ("INSERT INTO t VALUES (%s, NULL, 1)", [2]),
    "check": ("UPDATE t SET n = %s", [-1]),
    "length": ("UPDATE t SET v = %s", ["long"]),
    "division": ("SELECT 1 / (n - %s) FROM t", [1]),
    "range": ("SELECT n + %s FROM t", [2147483647]),
    "column": ("SELECT nothing FROM t WHERE id = %s", [1]),
    "table": ("SELECT * FROM nothing WHERE id = %s", [1]),
    "function": ("SELECT nothing(v) FROM t WHERE id = %s", [1]),
    "syntax": ("SELECT FROM WHERE %s", [1]),
    "parameter": ("SELECT * FROM t WHERE id = %s::text::integer", ["x"]),
}


@pytest.fixture
def connections(pair: Pair):
    with (
        psycopg.connect(pair.plain.conninfo(pair.database), autocommit=True) as plain,
        psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True) as gateway,
    ):
        for connection in (plain, gateway):
            connection.execute(SCHEMA)
        yield plain, gateway


def fields(error: psycopg.Error) -> dict[str, object]:
    names = [name for name in dir(error.diag) if not name.startswith(("_", "source"))]
    shown = {name: getattr(error.diag, name) for name in names}
    return {name: value for name, value in shown.items() if value is None or isinstance(value, str)}


def test_errors_have_the_same_class_and_fields(connections):
    for statement, parameters in MISTAKES.values():
        errors = []
        for connection in connections:
            with pytest.raises(psycopg.Error) as raised:
                connection.execute(statement, parameters)
            errors.append(raised.value)
        assert type(errors[1]) is type(errors[0])
        assert fields(errors[1]) == fields(errors[0]), statement
        for connection in connections:
            assert connection.execute("SELECT v FROM t").fetchall() == [("a",)]


def test_error_of_a_stream_comes_after_its_rows(connections):
    for connection in connections:
        connection.execute("INSERT INTO t SELECT g, 'x', g FROM generate_series(2, 3000) g")
        with connection.cursor() as cursor, pytest.raises(psycopg.errors.DivisionByZero):
            list(cursor.stream("SELECT 1 / (n - 2999) FROM t ORDER BY n"))
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3000,)


def test_idle_session_that_is_terminated_says_so(pair: Pair):
    with psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True) as connection:
        victim = psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True)
        process = victim.execute("SELECT pg_backend_pid()").fetchone()
        connection.execute("SELECT pg_terminate_backend(%s)", process)
        with pytest.raises(psycopg.OperationalError):
            victim.execute("SELECT 1")
        assert victim.closed


@pytest.mark.parametrize(
    ("options", "sqlstate", "message"),
    [
        ({"dbname": "no_such_database"}, "3D000", 'database "no_such_database" does not exist'),
        ({"user": "no_such_role"}, "28000", 'role "no_such_role" does not exist'),
    ],
)
def test_login_is_refused_with_a_reason(gateway, options, sqlstate, message):
    with pytest.raises(psycopg.OperationalError, match=message):
        psycopg.connect(gateway.conninfo(), **options)
    assert sqlstate
