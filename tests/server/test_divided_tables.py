"""Tables with PARTITIONED BY: directories by themselves, and the rows PostgreSQL would have."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from tests.support.servers import Address

pytestmark = pytest.mark.server

EVENTS = (
    "CREATE TABLE {name} (id bigint PRIMARY KEY, country string, created_at timestamp, v int)"
    " USING parquet PARTITIONED BY (country, months(created_at), bucket(2, id))"
)
FILL = (
    "INSERT INTO {name} SELECT g, (ARRAY['DE','FR','it''s', '', NULL])[g % 5 + 1],"
    " timestamp '2024-01-15' + g * interval '1 day', 0 FROM generate_series(1, {rows}) g"
)


@pytest.fixture(params=["resident_gateway", "gateway"])
def either(request) -> Iterator[psycopg.Connection]:
    yield from _database(request)


@pytest.fixture
def tiered(request) -> Iterator[psycopg.Connection]:
    request.param = "gateway"
    yield from _database(request)


def _database(request) -> Iterator[psycopg.Connection]:
    address: Address = request.getfixturevalue(request.param)
    name = f"divided_{abs(hash(request.node.name)) % 10**9}"
    address.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(address.conninfo(name), autocommit=True) as connection:
        yield connection
    address.execute(f"DROP DATABASE {name} WITH (FORCE)")


def refusal(connection, sql):
    with pytest.raises(psycopg.Error) as raised:
        connection.execute(sql)
    return raised.value


def partitions(connection, table="e"):
    rows = connection.execute(
        "SELECT partition, row_count FROM gateway.partitions WHERE table_name = %s ORDER BY 1",
        [table],
    )
    return rows.fetchall()


def paths(connection, table="e"):
    rows = connection.execute(
        "SELECT path FROM gateway.commit_files WHERE table_name = %s AND kind = 'base'"
        " AND NOT is_retired",
        [table],
    )
    return {path for (path,) in rows}


def test_where_postgresql_users_look_it_is_a_plain_table(either):
    connection = either
    done = connection.execute(EVENTS.format(name="e"))
    assert done.statusmessage == "CREATE TABLE"
    connection.execute('ALTER TABLE e RENAME COLUMN country TO "Land"')
    kind = "SELECT relkind FROM pg_class WHERE oid = 'e'::regclass"
    assert connection.execute(kind).fetchone() == ("r",)
    listed = "SELECT table_name, partitioned_by, partitions FROM gateway.partitioned_tables"
    assert connection.execute(listed).fetchall() == [
        ("e", '"Land", month(created_at), bucket(2, id)', 0)
    ]
    connection.execute(FILL.format(name="e", rows=20))
    connection.execute("UPDATE e SET v = 1 WHERE id = 3")
    connection.execute("DELETE FROM e WHERE id = 4")
    found = connection.execute("SELECT count(*), sum(v) FROM e").fetchone()
    assert found == (19, 1)


def test_loads_and_vacuum_write_partitions_that_changed(tiered):
    tiered.execute(EVENTS.format(name="e"))
    tiered.execute(FILL.format(name="e", rows=3000))
    tiered.execute("VACUUM e")
    expected = tiered.execute(
        "SELECT country, to_char(created_at, 'YYYY-MM'), count(*) FROM e"
        " GROUP BY 1, 2 ORDER BY 1 NULLS LAST, 2"
    ).fetchall()
    found = partitions(tiered)
    assert sum(rows for _, rows in found) == 3000
    of_month = sum(rows for name, rows in found if "country=DE/created_at_month=2025-03" in name)
    assert (
        of_month == {(country, month): rows for country, month, rows in expected}["DE", "2025-03"]
    )
    assert any(name.startswith("country=it%27s/") for name, _ in found)
    assert all(name.split("/")[2] in {"id_bucket=0", "id_bucket=1"} for name, _ in found)
    before = paths(tiered)
    tiered.execute("UPDATE e SET v = v + 1 WHERE id = 7")
    tiered.execute("UPDATE e SET country = 'FR' WHERE id = 5")
    tiered.execute("VACUUM e")
    after = paths(tiered)
    assert len(before - after) == len(after - before) == 3
    assert tiered.execute("SELECT country, v FROM e WHERE id IN (5, 7) ORDER BY id").fetchall() == [
        ("FR", 0),
        ("it's", 1),
    ]
    assert tiered.execute("SELECT count(*) FROM e").fetchone() == (3000,)


def test_statements_read_the_partitions_they_ask_for(tiered, gateway_process):
    """Files of all others are out of the way, so whoever came to one would fail."""
    for name in ("e", "plain"):
        tiered.execute(EVENTS.format(name=name))
        if name == "plain":
            tiered.execute("ALTER TABLE plain SET (gateway.residency = always)")
        tiered.execute(FILL.format(name=name, rows=2000))
    location = _location(tiered, gateway_process.data_dir)
    away = location.with_name(f"{location.name}_away")
    away.mkdir()
    for directory in location.glob("country=*"):
        if directory.name != "country=DE":
            directory.rename(away / directory.name)
    where = "country = 'DE' AND created_at >= '2024-03-01' AND created_at < '2025-01-01'"
    changed = f"UPDATE {{}} SET v = v + 1, country = 'FR' WHERE {where} AND id > 90"
    counts = {tiered.execute(changed.format(name)).rowcount for name in ("e", "plain")}
    assert len(counts) == 1
    assert counts != {0}
    for query in (
        "SELECT count(*), sum(v), min(id), max(id) FROM {} WHERE " + where,
        "SELECT id, v FROM {} WHERE country = 'DE' AND id < 50 ORDER BY id",
        (
            "SELECT x.id, y.v FROM {0} x JOIN {0} y USING (id) WHERE x.country = 'DE'"
            " AND y.country IN ('DE', 'none') ORDER BY 1"
        ),
        "SELECT count(*) FROM {} WHERE country = 'nowhere'",
    ):
        expected = tiered.execute(query.format("plain")).fetchall()
        assert tiered.execute(query.format("e")).fetchall() == expected
    assert refusal(tiered, "SELECT sum(v) FROM e").sqlstate[:2] == "58"
    for directory in away.iterdir():
        directory.rename(location / directory.name)
    both = [tiered.execute(f"SELECT * FROM {n} ORDER BY id").fetchall() for n in ("e", "plain")]
    assert both[0] == both[1]


def _location(connection, data_directory, table="e"):
    (path, *_) = paths(connection, table)
    return Path(data_directory, "warehouse", *path.split("/")[:2])


def test_the_rows_of_a_query_are_divided_at_once(tiered):
    tiered.execute("CREATE TABLE s (id int PRIMARY KEY, day date)")
    tiered.execute("INSERT INTO s SELECT g, date '2024-01-01' + g % 3 FROM generate_series(1, 9) g")
    done = tiered.execute(
        "CREATE TABLE e USING hudi OPTIONS (primaryKey = 'id') PARTITIONED BY (days(day))"
        " AS SELECT * FROM s"
    )
    assert done.statusmessage == "SELECT 9"
    assert partitions(tiered) == [(f"day_day=2024-01-0{n}", 3) for n in (1, 2, 3)]


def test_a_table_with_rows_can_be_divided_later_and_otherwise(tiered):
    tiered.execute("CREATE TABLE e (id int PRIMARY KEY, v int, w text)")
    tiered.execute("INSERT INTO e SELECT g, g % 3, 'w' || g FROM generate_series(1, 12) g")
    tiered.execute("CALL gateway.partition_by('e', 'v')")
    assert partitions(tiered) == [("v=0", 4), ("v=1", 4), ("v=2", 4)]
    tiered.execute("CALL gateway.partition_by('e', 'truncate(10, id)')")
    assert partitions(tiered) == [("id_trunc=0", 9), ("id_trunc=10", 3)]
    tiered.execute("ALTER TABLE e DROP COLUMN v")
    assert tiered.execute("SELECT count(*) FROM e WHERE w < 'w3'").fetchone() == (5,)
    tiered.execute("BEGIN")
    tiered.execute("CALL gateway.partition_by('e', 'w')")
    tiered.execute("ROLLBACK")
    assert partitions(tiered) == [("id_trunc=0", 9), ("id_trunc=10", 3)]
    tiered.execute("CALL gateway.partition_by('e', '')")
    tiered.execute("UPDATE e SET w = 'x' WHERE id < 5")
    tiered.execute("VACUUM e")
    assert partitions(tiered) == []
    found = tiered.execute("SELECT count(*), count(*) FILTER (WHERE w = 'x') FROM e").fetchone()
    assert found == (12, 4)


def test_a_column_that_partitions_rest_on_may_go(tiered):
    tiered.execute("CREATE TABLE e (id int PRIMARY KEY, v int, w int) USING orc PARTITIONED BY (v)")
    tiered.execute("INSERT INTO e SELECT g, g % 3, 0 FROM generate_series(1, 12) g")
    tiered.execute("VACUUM e")
    assert len(partitions(tiered)) == 3
    tiered.execute("ALTER TABLE e DROP COLUMN v")
    assert tiered.execute("TABLE gateway.partitioned_tables").fetchall() == []
    tiered.execute("UPDATE e SET w = id WHERE id = 2")
    tiered.execute("VACUUM e")
    assert tiered.execute("SELECT count(*), sum(w) FROM e").fetchone() == (12, 2)


def test_rows_without_key_and_keys_that_come_later(tiered):
    tiered.execute("CREATE TABLE e (id int NOT NULL, v int) USING parquet PARTITIONED BY (v)")
    tiered.execute("INSERT INTO e SELECT g, g % 3 FROM generate_series(1, 12) g")
    tiered.execute("UPDATE e SET v = 5 WHERE id IN (1, 2)")
    tiered.execute("DELETE FROM e WHERE id = 3")
    tiered.execute("VACUUM e")
    assert partitions(tiered) == [("v=0", 3), ("v=1", 3), ("v=2", 3), ("v=5", 2)]
    tiered.execute("ALTER TABLE e ADD PRIMARY KEY (id)")
    assert partitions(tiered) == [("v=0", 3), ("v=1", 3), ("v=2", 3), ("v=5", 2)]
    assert refusal(tiered, "INSERT INTO e VALUES (12, 9)").sqlstate == "23505"
    tiered.execute("INSERT INTO e VALUES (3, NULL) ON CONFLICT (id) DO NOTHING")
    tiered.execute(
        "MERGE INTO e USING (VALUES (4, 0), (99, 0)) s (id, v) ON e.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v)"
    )
    tiered.execute("VACUUM e")
    assert partitions(tiered) == [
        ("v=0", 5),
        ("v=1", 2),
        ("v=2", 3),
        ("v=5", 2),
        ("v=__HIVE_DEFAULT_PARTITION__", 1),
    ]
    found = tiered.execute("SELECT count(*) FROM e_journal WHERE id IN (1, 3, 4)").fetchone()
    assert found == (7,)
    tiered.execute("TRUNCATE e")
    assert tiered.execute("SELECT count(*) FROM e WHERE v = 0").fetchone() == (0,)
    assert partitions(tiered) == []


def test_copies_and_conversions_are_divided(tiered):
    tiered.execute("CREATE TABLE e (id int PRIMARY KEY, v text) USING parquet PARTITIONED BY (v)")
    with tiered.cursor() as cursor:
        for first in (0, 3000):
            with cursor.copy("COPY e FROM STDIN") as copy:
                for n in range(first, first + 3000):
                    copy.write_row((n, "ab"[n % 2]))
        cursor.execute("INSERT INTO e SELECT id + 6000, 'c' FROM e WHERE v = 'a' RETURNING v")
        assert set(cursor.fetchall()) == {("c",)}
    assert partitions(tiered) == [("v=a", 3000), ("v=b", 3000), ("v=c", 3000)]
    tiered.execute("VACUUM e")
    counted = tiered.execute("SELECT partition, segments FROM gateway.partitions ORDER BY 1")
    assert counted.fetchall() == [("v=a", 1), ("v=b", 1), ("v=c", 1)]


def test_tables_are_divided_as_they_are_converted(tiered):
    tiered.execute("CREATE TABLE s (id int PRIMARY KEY, v int)")
    tiered.execute("INSERT INTO s SELECT g, g % 2 FROM generate_series(1, 4000) g")
    done = tiered.execute("CONVERT TO e FROM s KEY (id) PARTITIONED BY (v, truncate(2000, id))")
    assert done.statusmessage == "CONVERT 4000"
    assert partitions(tiered) == [
        ("v=0/id_trunc=0", 999),
        ("v=0/id_trunc=2000", 1000),
        ("v=0/id_trunc=4000", 1),
        ("v=1/id_trunc=0", 1000),
        ("v=1/id_trunc=2000", 1000),
    ]
    error = refusal(tiered, "CONVERT TO '/srv/x' FROM s PARTITIONED BY (v)")
    assert error.sqlstate == "0A000"
    assert refusal(tiered, "CONVERT TO e2 FROM s PARTITIONED BY (w)").sqlstate == "42703"


def test_rows_of_other_tables_that_come_to_a_statement_are_not_divided(tiered):
    tiered.execute(
        "CREATE TABLE e (a int, b int, c int, id int PRIMARY KEY, v int)"
        " USING parquet PARTITIONED BY (v)"
    )
    tiered.execute("INSERT INTO e SELECT 0, 0, 0, g, g % 3 FROM generate_series(1, 6000) g")
    tiered.execute("CREATE TEMP TABLE s AS SELECT id, 7 AS w FROM e WHERE id <= 3000")
    assert tiered.execute("UPDATE e SET v = w FROM s WHERE s.id = e.id").rowcount == 3000
    tiered.execute("CREATE TABLE m (id int PRIMARY KEY, w int)")
    tiered.execute("INSERT INTO m SELECT g, 8 FROM generate_series(2001, 9000) g")
    merge = (
        "MERGE INTO e USING m ON m.id = e.id WHEN MATCHED THEN UPDATE SET v = w"
        " WHEN NOT MATCHED THEN INSERT VALUES (0, 0, 0, m.id, w)"
    )
    assert tiered.execute(merge).rowcount == 7000
    tiered.execute("VACUUM e")
    assert partitions(tiered) == [("v=7", 2000), ("v=8", 7000)]


def test_what_cannot_be_divided_is_refused_by_name(tiered):
    connection = tiered
    create = "CREATE TABLE t (a int, b numeric, c float8, d jsonb, e timestamp) USING parquet"
    for clause, sqlstate, words in (
        ("PARTITIONED BY (b)", "0A000", 'column "b" of type numeric'),
        ("PARTITIONED BY (e)", "0A000", 'column "e" of type timestamp'),
        ("PARTITIONED BY (month(a))", "0A000", "month"),
        ("PARTITIONED BY (bucket(4, d))", "0A000", "bucket"),
        ("PARTITIONED BY (x)", "42703", '"x"'),
        ("PARTITIONED BY (a, a)", "42701", '"a"'),
        ("PARTITIONED BY (bucket(0, a))", "22023", "0"),
        ("PARTITIONED BY (zorder(a))", "0A000", "zorder"),
        ("PARTITIONED BY (dt string)", "0A000", "defined"),
        ("PARTITIONED BY ()", "42601", ")"),
        ("CLUSTERED BY (a, e) INTO 4 BUCKETS", "0A000", "CLUSTERED BY"),
        ("CLUSTERED BY (d) INTO 4 BUCKETS", "0A000", 'CLUSTERED BY bucket of column "d"'),
        ("CLUSTERED BY (x) INTO 4 BUCKETS", "42703", '"x" named in CLUSTERED BY'),
        ("CLUSTERED BY (a) SORTED BY (a) INTO 4 BUCKETS", "0A000", "SORTED BY (a) of"),
    ):
        error = refusal(connection, f"{create} {clause}")
        assert (error.sqlstate, clause) == (sqlstate, clause)
        assert words in (error.diag.message_primary or "")
    temporary = "CREATE TEMP TABLE t (a int) USING parquet PARTITIONED BY (a)"
    assert refusal(connection, temporary).sqlstate == "0A000"
    connection.execute("CREATE TABLE p (a int) PARTITION BY LIST (a)")
    connection.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    for name in ("p", "p1"):
        assert refusal(connection, f"CALL gateway.partition_by('{name}', 'a')").sqlstate == "0A000"
    assert refusal(connection, "CALL gateway.partition_by('t', 'a')").sqlstate == "42P01"


def test_buckets_are_partitions(tiered, gateway_process):
    tiered.execute(
        "CREATE TABLE e (id bigint, at date, country string, PRIMARY KEY (id, at)) USING parquet"
        " CLUSTERED BY (id) SORTED BY (id, at ASC) INTO 3 BUCKETS PARTITIONED BY (country)"
    )
    tiered.execute(
        "INSERT INTO e SELECT g, '2024-01-01', (ARRAY['DE','FR'])[g % 2 + 1]"
        " FROM generate_series(3000, 1, -1) g"
    )
    tiered.execute("VACUUM e")
    told = tiered.execute("SELECT partitioned_by FROM gateway.partitioned_tables").fetchall()
    assert told == [("country, bucket(3, id)",)]
    found = partitions(tiered)
    assert [name for name, _ in found] == [
        f"country={country}/id_bucket={bucket}" for country in ("DE", "FR") for bucket in range(3)
    ]
    assert sum(rows for _, rows in found) == 3000
    files = list(_location(tiered, gateway_process.data_dir).rglob("*.parquet"))
    assert len(files) >= 6
    for file in files:
        keys = pq.read_table(file, columns=["id"]).column("id").to_pylist()
        assert keys == sorted(keys)
    tiered.execute(
        "CREATE TABLE f USING hudi OPTIONS (primaryKey = 'at, id')"
        " CLUSTERED BY (id) SORTED BY (at) INTO 2 BUCKETS AS SELECT * FROM e"
    )
    assert [name for name, _ in partitions(tiered, "f")] == ["id_bucket=0", "id_bucket=1"]


def test_an_order_that_files_do_not_have_is_refused(either):
    clause = "CLUSTERED BY (b) SORTED BY ({}) INTO 2 BUCKETS"
    for elements, order in (
        ("a int, b int", "a"),
        ("a int PRIMARY KEY, b int", "b"),
        ("a int PRIMARY KEY, b int", "a, b"),
        ("a int, b int, PRIMARY KEY (a, b)", "b, a"),
    ):
        text = f"CREATE TABLE e ({elements}) USING parquet {clause.format(order)}"
        error = refusal(either, text)
        assert error.sqlstate == "0A000"
        assert f"SORTED BY ({order})" in (error.diag.message_primary or "")
        assert error.diag.statement_position == str(text.index("SORTED") + 1)
    assert either.execute("SELECT to_regclass('e')").fetchone() == (None,)


def test_dividing_is_the_owners(tiered):
    tiered.execute("CREATE TABLE e (a int)")
    tiered.execute("GRANT ALL ON e TO PUBLIC")
    tiered.execute("CREATE ROLE somebody_else LOGIN")
    try:
        with psycopg.connect(tiered.info.dsn, user="somebody_else", autocommit=True) as other:
            assert refusal(other, "CALL gateway.partition_by('e', 'a')").sqlstate == "42501"
            other.execute("SELECT count(*) FROM e")
            assert other.execute("TABLE gateway.partitioned_tables").fetchall() == []
    finally:
        tiered.execute("DROP ROLE somebody_else")
