"""psycopg 3: COPY in both directions."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest

ROWS = [
    (1, "plain", Decimal("1.50"), dt.date(2024, 2, 29)),
    (2, 'tab\t, newline\n, "quotes" and \\', None, None),
    (3, "", Decimal("-0.01"), dt.date(1999, 12, 31)),
    (4, None, Decimal(0), None),
]


@pytest.fixture
def connection(gateway, database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE t (id integer PRIMARY KEY, v text, n numeric(8,2), d date)"
        )
        yield connection


def rows(connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT * FROM t ORDER BY id").fetchall()


def test_rows_are_copied_in_and_out(connection):
    with connection.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            for row in ROWS:
                copy.write_row(row)
        assert cursor.rowcount == len(ROWS)
        with cursor.copy("COPY (SELECT * FROM t ORDER BY id) TO STDOUT") as copy:
            copy.set_types(["int4", "text", "numeric", "date"])
            assert list(copy.rows()) == ROWS
    assert rows(connection) == ROWS


def test_rows_are_copied_out_in_binary(connection):
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s, %s)", ROWS)
        query = "COPY (SELECT * FROM t ORDER BY id) TO STDOUT (FORMAT binary)"
        with cursor.copy(query) as copy:
            copy.set_types(["int4", "text", "numeric", "date"])
            assert list(copy.rows()) == ROWS


def test_csv_round_trip(connection):
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s, %s)", ROWS)
        with cursor.copy("COPY t TO STDOUT (FORMAT csv, HEADER)") as copy:
            data = b"".join(copy)
        cursor.execute("TRUNCATE t")
        with cursor.copy("COPY t FROM STDIN (FORMAT csv, HEADER MATCH)") as copy:
            for position in range(0, len(data), 7):
                copy.write(data[position : position + 7])
    assert rows(connection) == ROWS


def copy_in(connection, data: str, *, give_up: bool = False) -> int:
    with connection.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write(data)
            if give_up:
                raise GivenUpError
        return cursor.rowcount


class GivenUpError(Exception):
    """Raised while copying."""


def lines(first: int, last: int) -> str:
    return "".join(f"{n}\trow {n}\t{n / 4}\t2024-01-01\n" for n in range(first, last + 1))


def test_many_rows_are_all_there_or_none(connection):
    assert copy_in(connection, lines(1, 5000)) == 5000
    with pytest.raises(psycopg.errors.UniqueViolation):
        copy_in(connection, lines(5001, 9000) + lines(17, 17))
    found = connection.execute("SELECT count(*), sum(n) FROM t").fetchone()
    assert found == (5000, Decimal("3125625.00"))


def test_copy_that_is_given_up_leaves_nothing(connection):
    with pytest.raises(GivenUpError):
        copy_in(connection, lines(1, 3), give_up=True)
    assert rows(connection) == []
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_bad_line_leaves_nothing(connection):
    with pytest.raises(psycopg.errors.BadCopyFileFormat):
        copy_in(connection, lines(1, 3) + "4\ttoo few\n")
    assert rows(connection) == []


def test_copy_in_a_transaction_rolls_back(connection):
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write_row(ROWS[0])
        assert rows(connection) == [ROWS[0]]
    assert rows(connection) == []
