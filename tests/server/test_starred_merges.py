"""MERGE with UPDATE SET * and INSERT *, beside PostgreSQL with the columns written out."""

import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

COLUMNS = (
    'id bigint PRIMARY KEY, "V w" integer, d date, g integer GENERATED ALWAYS AS (id * 2) STORED'
)

SOURCES = {"small": (8, 14), "large": (1501, 4500)}
"""The first and the last key of a source; PostgreSQL merges few rows, Spark many."""

SET = '"V w" = s."V w", d = s.d'


@pytest.fixture
def clients(pair: Pair) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """PostgreSQL and the gateway, each with a target and a source whose columns differ in order."""
    with (
        psycopg.connect(pair.plain.conninfo(pair.database), autocommit=True) as plain,
        psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True) as gateway,
    ):
        for client in (plain, gateway):
            client.execute(f"CREATE TABLE t ({COLUMNS})")  # type: ignore[call-overload]
            client.execute(
                'INSERT INTO t (id, "V w", d)'
                " SELECT g, g % 10, date '2024-01-01' + g % 28 FROM generate_series(1, 3000) g"
            )
        yield plain, gateway


def fill(client: psycopg.Connection, first: int, last: int, kind: str = "") -> None:
    client.execute(f'CREATE {kind} TABLE s (d date, more text, "V w" integer, id bigint)')  # type: ignore[call-overload]
    client.execute(
        "INSERT INTO s SELECT date '2025-01-01' + (g & 15), 'x', -g, g"
        " FROM generate_series(%s::int, %s::int) g",
        [first, last],
    )


def rows(client: psycopg.Connection) -> list[tuple[object, ...]]:
    return client.execute("SELECT * FROM t ORDER BY id").fetchall()


@pytest.mark.parametrize("kind", ["", "TEMPORARY"])
@pytest.mark.parametrize("size", SOURCES)
def test_stars_are_the_columns_by_name(
    clients: tuple[psycopg.Connection, psycopg.Connection], size: str, kind: str
) -> None:
    plain, gateway = clients
    for client in clients:
        fill(client, *SOURCES[size], kind)
    merge = (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.id %% 3 = 0 THEN DELETE"
        " WHEN MATCHED AND s.id < %s THEN UPDATE SET {} WHEN NOT MATCHED THEN INSERT {}"
        ' RETURNING merge_action(), t.id, t."V w"'
    )
    listed = '(id, "V w", d) VALUES (s.id, s."V w", s.d)'
    expected = plain.execute(merge.format(f"id = s.id, {SET}", listed), [100_000])  # type: ignore[arg-type]
    found = gateway.execute(merge.format("*", "*"), [100_000])  # type: ignore[arg-type]
    assert found.statusmessage == expected.statusmessage
    assert sorted(found.fetchall()) == sorted(expected.fetchall())
    assert rows(gateway) == rows(plain)


def test_a_subquery_with_an_alias(
    clients: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    plain, gateway = clients
    rows_of_it = "SELECT 5::bigint, 50, NULL::date UNION ALL SELECT 7000, 70, '2024-05-05'"
    source = f'({rows_of_it}) q (id, "V w", d)'
    begin = f"MERGE INTO t AS x USING {source} ON x.id = q.id WHEN NOT MATCHED THEN INSERT "
    plain.execute(begin + '(id, "V w", d) VALUES (q.id, q."V w", q.d)')  # type: ignore[arg-type]
    assert gateway.execute(begin + "*").statusmessage == "MERGE 1"  # type: ignore[arg-type]
    assert rows(gateway) == rows(plain)


def test_errors_are_postgresqls_at_the_star(
    clients: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    _, gateway = clients
    gateway.execute("CREATE TEMPORARY TABLE s AS SELECT 1::bigint AS id, 'x' AS d")
    statement = "SELECT 1; MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    with pytest.raises(errors.UndefinedColumn, match=r"column s\.V w does not exist") as caught:
        gateway.execute(statement)
    assert caught.value.diag.statement_position == str(statement.index("*") + 1)
    gateway.execute('ALTER TABLE s ADD "V w" integer')
    with pytest.raises(errors.DatatypeMismatch, match="is of type date but expression") as caught:
        gateway.execute(statement)
    assert caught.value.diag.statement_position == str(statement.index("*") + 1)
    with pytest.raises(errors.UndefinedTable, match="nowhere") as caught:
        gateway.execute("MERGE INTO nowhere USING s ON true WHEN MATCHED THEN UPDATE SET *")
    assert caught.value.diag.statement_position == "12"
    with pytest.raises(errors.SyntaxError, match=r'at or near "\*"'):
        gateway.execute("MERGE INTO t USING s ON true WHEN MATCHED THEN UPDATE SET *, d = s.d")


def test_a_prepared_statement_follows_the_columns(
    clients: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    _, gateway = clients
    fill(gateway, 5, 5)
    merge = "MERGE INTO t USING s ON t.id = s.id AND s.id = %s WHEN MATCHED THEN UPDATE SET *"
    gateway.execute(merge, [5], prepare=True)
    gateway.execute("ALTER TABLE t ADD more text")
    gateway.execute(merge, [5], prepare=True)
    query = 'SELECT "V w", more FROM t WHERE id = 5'
    assert gateway.execute(query).fetchall() == [(-5, "x")]


MERGE = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN {} WHEN NOT MATCHED THEN {}"

LISTED = (f"UPDATE SET id = s.id, {SET}", '(id, "V w", d) VALUES (s.id, s."V w", s.d)')


@pytest.mark.parametrize("size", SOURCES)
@pytest.mark.parametrize(
    "explain", ["EXPLAIN", "EXPLAIN (COSTS off, VERBOSE)", "EXPLAIN WITH x AS (SELECT 1)"]
)
def test_explain_shows_the_plan_of_the_columns(
    clients: tuple[psycopg.Connection, psycopg.Connection], explain: str, size: str
) -> None:
    _, gateway = clients
    fill(gateway, *SOURCES[size])
    listed, starred = (
        gateway.execute(f"{explain} {MERGE.format(update, f'INSERT {insert}')}").fetchall()  # type: ignore[arg-type]
        for update, insert in (LISTED, ("UPDATE SET *", "*"))
    )
    assert without_numbers(starred) == without_numbers(listed)


def without_numbers(plan: list[tuple[str]]) -> str:
    """Return a plan without the numbers that Spark gives columns anew each time."""
    return re.sub(r"#\d+L?|\s+", " ", " ".join(line for (line,) in plan))


def test_explain_analyze_merges(
    clients: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    plain, gateway = clients
    for client in clients:
        fill(client, *SOURCES["small"])
    plain.execute(MERGE.format(LISTED[0], f"INSERT {LISTED[1]}"))  # type: ignore[arg-type]
    gateway.execute("EXPLAIN ANALYZE " + MERGE.format("UPDATE SET *", "INSERT *"))  # type: ignore[arg-type]
    assert rows(gateway) == rows(plain)


def test_prepare_names_the_columns(
    clients: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    _, gateway = clients
    gateway.execute('CREATE TEMPORARY TABLE u (id bigint, "V w" integer)')
    gateway.execute("INSERT INTO u SELECT g, 0 FROM generate_series(1, 9) g")
    fill(gateway, 5, 6, "TEMPORARY")
    merge = "MERGE INTO u USING s ON u.id = s.id AND s.id = $1 WHEN MATCHED THEN UPDATE SET *"
    for name in ("p", "merge", '"using"'):
        gateway.execute(f"PREPARE {name} (bigint) AS {merge}")  # type: ignore[arg-type]
        assert gateway.execute(f"EXECUTE {name} (5)").statusmessage == "MERGE 1"  # type: ignore[arg-type]
    assert gateway.execute('SELECT * FROM u WHERE "V w" <> 0').fetchall() == [(5, -5)]


def test_it_is_a_part_of_with(
    clients: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    plain, gateway = clients
    for client in clients:
        fill(client, *SOURCES["small"], "TEMPORARY")
        client.execute("CREATE TEMPORARY TABLE told (id bigint PRIMARY KEY, what text)")
        client.execute("CREATE TEMPORARY TABLE u AS SELECT * FROM t WHERE id < 12")
        client.execute("ALTER TABLE u DROP COLUMN g")
    statement = (
        "WITH m AS (MERGE INTO u AS t USING s ON t.id = s.id WHEN MATCHED THEN {} WHEN NOT MATCHED"
        " THEN INSERT {} RETURNING merge_action() AS what, t.id)"
        " MERGE INTO told USING m ON told.id = m.id WHEN NOT MATCHED THEN INSERT {}"
    )
    listed = (*LISTED, "(id, what) VALUES (m.id, m.what)")
    expected = plain.execute(statement.format(*listed))  # type: ignore[arg-type]
    found = gateway.execute(statement.format("UPDATE SET *", "*", "*"))  # type: ignore[arg-type]
    assert found.statusmessage == expected.statusmessage
    for query in ("SELECT * FROM u ORDER BY id", "SELECT * FROM told ORDER BY id"):
        assert gateway.execute(query).fetchall() == plain.execute(query).fetchall()
    merge = MERGE.format("UPDATE SET *", "INSERT *")
    assert gateway.execute(
        f"WITH m AS ({merge} RETURNING t.id) SELECT count(*) FROM m"  # type: ignore[arg-type]
    ).fetchall() == [(7,)]
    broken = "WITH m AS (MERGE INTO told USING s ON true WHEN MATCHED THEN UPDATE SET *) SELECT 1"
    with pytest.raises(errors.UndefinedColumn, match=r"column s\.what does not exist") as caught:
        gateway.execute(broken)  # type: ignore[arg-type]
    assert caught.value.diag.statement_position == str(broken.index("*") + 1)
