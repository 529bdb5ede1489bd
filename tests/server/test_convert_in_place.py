"""CONVERT … IN PLACE: files of others are rows of a table as they are, and stay what they are."""

import datetime as dt
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.fix_server import SPARK_OPTIONS
from tests.support.servers import GatewayProcess, database_number

pytestmark = [pytest.mark.server, pytest.mark.turns("process")]

UTC = dt.UTC
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "small": pa.array([-32768, None, 32767, 0], pa.int16()),
        "whole": pa.array([-(2**31), None, 2**31 - 1, 0], pa.int32()),
        "single": pa.array([1.5, None, -0.25, math.inf], pa.float32()),
        "double": pa.array([1e300, None, -5e-324, -math.inf], pa.float64()),
        "flag": pa.array([True, None, False, True]),
        "bytes": pa.array([b"\0\xff", None, b"", b"x"]),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(2024, 2, 29)]),
        "moment": pa.array(
            [
                dt.datetime(1900, 1, 1, 0, 0, 0, 1, UTC),
                None,
                dt.datetime(2024, 7, 1, tzinfo=UTC),
                0,
            ],
            pa.timestamp("us", tz="UTC"),
        ),
        "local": pa.array([-12_219_638_400_000_000, None, 1, -1], pa.timestamp("us")),
        "price": pa.array(
            [Decimal("1.10"), None, Decimal("-99999999.99"), 0], pa.decimal128(10, 2)
        ),
        "exact": pa.array([Decimal("1e37"), None, -1, 0], pa.decimal128(38, 0)),
        'Text; "é"': pa.array(['a,b\n"c"', None, "", "é\\N"]),
        "Coded": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        "long": pa.array(["x", None, "", "é"], pa.large_string()),
    }
)


@dataclass
class Place:
    """A gateway, a database of it, and the directory it may use."""

    process: GatewayProcess
    connection: psycopg.Connection
    files: Path
    number: int
    """The database's, which others of the gateway do not write to."""

    def execute(self, sql, parameters=None):
        return self.connection.execute(sql, parameters)

    def rows(self, sql):
        return self.execute(sql).fetchall()

    def refusal(self, sql, parameters=None):
        with pytest.raises(psycopg.Error) as raised:
            self.execute(sql, parameters)
        return raised.value

    def keep_tiered(self, name):
        """Have a table be tiered, and stay so."""
        self.execute(f"ALTER TABLE {name} SET (gateway.residency = never)")
        query = f"SELECT residency FROM gateway.tables WHERE table_name = '{name}'"
        deadline = time.monotonic() + 60
        while self.rows(query) != [("tiered",)] and time.monotonic() < deadline:
            time.sleep(0.2)
        assert self.rows(query) == [("tiered",)]

    def write(self, table, name="part.parquet", **options):
        pq.write_table(table, self.files / name, **options)

    def state(self):
        """Return what the directory holds, with the times of changes."""
        return {
            path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.files.iterdir()
        }

    def segments(self):
        return sorted((self.process.data_dir / "warehouse").glob(f"{self.number}/*"))


@pytest.fixture(scope="module", params=["small tables are resident", "all tables are tiered"])
def process(request) -> GatewayProcess:
    kind = "resident_process" if "resident" in request.param else "gateway_process"
    return request.getfixturevalue(kind)


@pytest.fixture
def place(process, allowed_directory) -> Iterator[Place]:
    files = allowed_directory / f"test_{time.monotonic_ns()}"
    files.mkdir()
    process.address.execute(f"CREATE DATABASE {files.name}")
    with psycopg.connect(process.address.conninfo(files.name), autocommit=True) as connection:
        connection.execute("SET TimeZone TO UTC")
        yield Place(process, connection, files, database_number(connection))
    process.address.execute(f"DROP DATABASE {files.name} WITH (FORCE)")


def numbered(start, count, **columns):
    ids = range(start, start + count)
    names = pa.array([f"name {n}" for n in ids], pa.string())
    given = {"id": pa.array(ids, pa.int64()), "name": names}
    return pa.table(given | columns)


@pytest.mark.parametrize("executor", ["auto", "spark", "files"])
def test_every_type_reads_as_it_was_written(place, executor):
    place.write(ROWS)
    done = place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    assert done.statusmessage == "CONVERT 4"
    place.execute(f"SET gateway.executor = '{executor}'")
    assert place.rows("SELECT * FROM t") == [tuple(row.values()) for row in ROWS.to_pylist()]
    place.execute("RESET gateway.executor")
    assert place.rows("SELECT * FROM t WHERE id = 3") == [tuple(ROWS.to_pylist()[2].values())]
    assert place.rows('SELECT id FROM t WHERE "double" < 0 AND \'x\' <> "Coded"') == [(3,)]
    assert place.rows("SELECT id FROM t WHERE day = '2024-02-29' OR price = 1.1 ORDER BY id") == [
        (1,),
        (4,),
    ]


def test_files_stay_as_they_are(place):
    """Whatever is done to the table; and the table is its own once it was compacted."""
    for number in range(3):
        place.write(numbered(number * 10, 10), f"{number}.parquet")
    before = place.state()
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) USING parquet IN PLACE")
    place.execute("UPDATE t SET name = 'new' WHERE id = 11")
    place.execute("DELETE FROM t WHERE id IN (0, 29)")
    place.execute("INSERT INTO t VALUES (100, 'more')")
    assert place.refusal("INSERT INTO t VALUES (5, 'again')").sqlstate == "23505"
    place.execute("INSERT INTO t VALUES (5, 'five') ON CONFLICT (id) DO UPDATE SET name = 'five'")
    expected = [(n, f"name {n}") for n in range(1, 29)]
    expected[4], expected[10] = (5, "five"), (11, "new")
    expected.append((100, "more"))
    assert place.rows("SELECT * FROM t ORDER BY id") == expected
    assert place.rows("SELECT count(*) FROM t_journal") == [(35,)]
    assert place.rows("SELECT gateway.check('t')") == [(0,)]
    place.execute("VACUUM t")
    assert place.rows("SELECT * FROM t ORDER BY id") == expected
    assert place.state() == before
    for file in place.files.iterdir():
        file.unlink()
    assert place.rows("SELECT * FROM t ORDER BY id") == expected
    assert place.rows("SELECT count(*) FROM t_journal") == [(35,)]


@pytest.mark.parametrize("end", ["DROP TABLE t", "TRUNCATE t", "ROLLBACK"])
def test_the_end_of_a_table_is_not_that_of_its_files(place, end):
    place.write(numbered(0, 5))
    before = place.state()
    segments = place.segments()
    place.execute("BEGIN")
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    assert place.rows("SELECT count(*) FROM t") == [(5,)]
    if end != "ROLLBACK":
        place.execute("COMMIT")
        place.keep_tiered("t")
    place.execute(end)
    place.execute("VACUUM")
    assert place.state() == before
    if end == "TRUNCATE t":
        assert place.rows("SELECT count(*) FROM t") == [(0,)]
        assert place.rows("SELECT count(DISTINCT id) FROM t_journal") == [(5,)]
    if end == "ROLLBACK":
        assert place.segments() == segments
        assert place.refusal("SELECT * FROM t").sqlstate == "42P01"


def test_rows_without_key_keep_apart(place):
    """Each row has an identity by its file and its place there."""
    for number in range(3):
        part = pa.table({"n": pa.array([number, 7, 7] * 5, pa.int32())})
        place.write(part, f"a {number} é%20.parquet", row_group_size=4)
    assert (
        place.execute(f"CONVERT TO t FROM '{place.files}' IN PLACE").statusmessage == "CONVERT 45"
    )
    assert place.rows("SELECT count(*) FROM t WHERE n = 7") == [(30,)]
    place.execute("INSERT INTO t VALUES (7)")
    assert place.execute("UPDATE t SET n = 8 WHERE n = 1").rowcount == 5
    assert place.rows("SELECT gateway.check('t')") == [(0,)]
    assert place.execute("DELETE FROM t WHERE n = 7").rowcount == 31
    place.execute("VACUUM t")
    assert place.rows("SELECT n, count(*) FROM t GROUP BY n ORDER BY n") == [(0, 5), (2, 5), (8, 5)]


def test_many_files_without_key_are_refused(place):
    for number in range(65):
        place.write(numbered(number, 1), f"{number}.parquet")
    error = place.refusal(f"CONVERT TO t FROM '{place.files}' IN PLACE")
    assert error.sqlstate == "0A000"
    assert "KEY" in error.diag.message_hint
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    assert place.rows("SELECT count(*), sum(id) FROM t") == [(65, 2080)]


def test_a_key_that_comes_later(place):
    place.write(numbered(0, 10))
    place.execute(f"CONVERT TO t FROM '{place.files}' IN PLACE")
    place.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    place.execute("UPDATE t SET name = 'x' WHERE id = 3")
    assert place.rows("SELECT name FROM t WHERE id = 3") == [("x",)]
    assert place.refusal("INSERT INTO t VALUES (9)").sqlstate == "23505"


def test_keys_in_any_order(place):
    """Files need not be sorted; where they are not, all keys of a row group are looked at."""
    order = [5, 1, 9, 3, 7, 0, 2, 8, 4, 6]
    table = numbered(0, 10)
    place.write(table.take(order[:5]), "a.parquet", row_group_size=3)
    place.write(table.take(order[5:]), "b.parquet", row_group_size=3, write_statistics=False)
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    assert [place.rows(f"SELECT name FROM t WHERE id = {n}") for n in range(11)] == [
        *([(f"name {n}",)] for n in range(10)),
        [],
    ]
    place.execute("UPDATE t SET name = name || '!' WHERE id IN (0, 9)")
    expected = [(n, f"name {n}{'!' if n in {0, 9} else ''}") for n in range(10)]
    assert place.rows("SELECT * FROM t ORDER BY id") == expected


def test_keys_of_text_and_of_several_columns(place):
    place.write(numbered(0, 10), use_dictionary=True)
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (name) IN PLACE")
    place.execute(f"CONVERT TO u FROM '{place.files}' KEY (name, id) IN PLACE")
    for table in "tu":
        assert place.rows(f"SELECT id FROM {table} WHERE name = 'name 7'") == [(7,)]
        assert place.refusal(f"INSERT INTO {table} VALUES (7, 'name 7')").sqlstate == "23505"
        place.execute(f"DELETE FROM {table} WHERE name = 'name 7' AND id = 7")
        assert place.rows(f"SELECT count(*) FROM {table}") == [(9,)]


def test_nan_is_found_though_statistics_leave_it_out(place):
    place.write(pa.table({"id": [1, 2, 3], "x": [1.0, math.nan, 2.0]}))
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    for executor in ("auto", "spark"):
        place.execute(f"SET gateway.executor = '{executor}'")
        assert place.rows("SELECT id FROM t WHERE x > 5") == [(2,)]
        assert place.rows("SELECT id FROM t WHERE x = 'NaN'") == [(2,)]


BAD = {
    "null": (pa.table({"id": pa.array([1, None], pa.int64())}), "23502"),
    "twice": (pa.table({"id": pa.array([1, 2, 1], pa.int64())}), "23505"),
    "zero byte": (pa.table({"id": [1, 2], "x": ["a", "b\0c"]}), "22021"),
    "no UTF-8": (
        pa.table({"id": [1], "x": pa.array([b"\xff"]).view(pa.string())}),
        "22021",
    ),
    "late day": (
        pa.table({"id": [1], "x": pa.array([2**31 - 5], pa.int32()).view(pa.date32())}),
        "22008",
    ),
    "early moment": (
        pa.table({"id": [1], "x": pa.array([-(2**62)], pa.int64()).view(pa.timestamp("us"))}),
        "22008",
    ),
    "tiny": (pa.table({"id": [1], "x": pa.array([1], pa.int8())}), "0A000"),
    "unsigned": (pa.table({"id": [1], "x": pa.array([1], pa.uint32())}), "0A000"),
    "nanoseconds": (pa.table({"id": [1], "x": pa.array([1], pa.timestamp("ns"))}), "0A000"),
    "time": (pa.table({"id": [1], "x": pa.array([1], pa.time64("us"))}), "0A000"),
    "array": (pa.table({"id": [1], "x": [[1]]}), "0A000"),
    "structure": (pa.table({"id": [1], "x": [{"id": 1}]}), "0A000"),
    "nothing": (pa.table({"id": [1], "x": pa.nulls(1)}), "0A000"),
    "names by letter case": (pa.table({"id": [1], "Id": [1]}), "0A000"),
    "our own name": (pa.table({"id": [1], "version_number": [1]}), "0A000"),
}


@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "none"])
@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_kept_is_refused(place, name, statistics):
    table, sqlstate = BAD[name]
    place.write(table, write_statistics=statistics)
    segments = place.segments()
    error = place.refusal(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    assert error.sqlstate == sqlstate
    assert place.rows("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    assert place.segments() == segments


def test_other_files_are_refused(place):
    (place.files / "t.csv").write_text("id\n1\n")
    convert = f"CONVERT TO t FROM '{place.files}"
    assert place.refusal(f"{convert}/t.csv' IN PLACE").sqlstate == "0A000"
    assert place.refusal(f"{convert}/t.csv' USING parquet IN PLACE").sqlstate == "22P04"
    place.write(numbered(0, 1), "a.parquet")
    place.write(numbered(0, 1, more=pa.array([1])), "b.parquet")
    (place.files / "t.csv").unlink()
    assert place.refusal(f"{convert}' IN PLACE").sqlstate == "0A000"
    place.write(numbered(0, 1), "brotli.parquet", compression="brotli")
    assert place.refusal(f"{convert}/brotli.parquet' IN PLACE").sqlstate == "0A000"
    split = numbered(0, 1).append_column("x", pa.array([1.5]))
    place.write(split, "split.parquet", use_byte_stream_split=["x"], use_dictionary=False)
    assert place.refusal(f"{convert}/split.parquet' IN PLACE").sqlstate == "0A000"
    # Spark takes what is before the colon for the scheme of a URI.
    place.write(numbered(0, 1), "a:b.parquet")
    for in_place in ("", " IN PLACE"):
        assert place.refusal(f"{convert}/a:b.parquet'{in_place}").sqlstate == "0A000"
    assert place.refusal("CONVERT TO t FROM u IN PLACE").sqlstate == "42601"
    assert place.refusal(f"CONVERT TO '{place.files}/x' FROM u IN PLACE").sqlstate == "42601"


def test_a_file_that_is_gone_or_changed_is_an_error(place):
    """Never rows of another file; a file that was put back as it was is read again."""
    place.write(numbered(0, 10), "a.parquet")
    place.write(numbered(10, 10), "b.parquet")
    place.execute("SET gateway.executor = 'auto'")
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    place.keep_tiered("t")
    queries = ["SELECT * FROM t", "SELECT sum(id) FROM t", "SELECT * FROM t WHERE id = 12"]
    queries += ["SELECT count(*) FROM t_journal", "VACUUM FULL t"]
    found = [place.rows(query) for query in queries[:-1]]
    file = place.files / "b.parquet"
    status = file.stat()
    file.rename(place.files / "_b.parquet")
    assert {place.refusal(query).sqlstate for query in queries} == {"58P01"}
    place.write(numbered(20, 10), "b.parquet")
    errors = [place.refusal(query) for query in queries]
    assert {error.sqlstate for error in errors} == {"XX001"}
    assert all(str(file) in error.diag.message_primary for error in errors)
    (place.files / "_b.parquet").rename(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [place.rows(query) for query in queries[:-1]] == found
    place.execute("UPDATE t SET name = 'x' WHERE id = 12")
    place.execute("VACUUM FULL t")
    file.unlink()
    assert place.rows("SELECT sum(id) FROM t") == found[1]
    assert place.rows("SELECT * FROM t WHERE id = 12") == [(12, "x")]


def test_columns_that_come_and_go(place):
    place.write(numbered(0, 5))
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    place.execute("ALTER TABLE t ADD COLUMN more int DEFAULT 3")
    place.execute("ALTER TABLE t RENAME COLUMN name TO label")
    assert place.rows("SELECT * FROM t WHERE id > 3") == [(4, "name 4", 3)]
    place.execute("ALTER TABLE t DROP COLUMN label")
    place.execute("UPDATE t SET more = 4 WHERE id = 0")
    assert place.rows("SELECT * FROM t ORDER BY id") == [(0, 4), *((n, 3) for n in range(1, 5))]


def test_names_that_begin_alike(place):
    """To Arrow a dot in a name is that of a path."""
    given = numbered(0, 4).rename_columns(["a.b", "a"])
    place.write(given, write_statistics=False)
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (\"a.b\") IN PLACE")
    place.execute(f"CONVERT TO u FROM '{place.files}' KEY (a) IN PLACE")
    for table in "tu":
        assert place.rows(f'SELECT * FROM {table} WHERE "a.b" = 2') == [(2, "name 2")]
        assert place.rows(f"SELECT a FROM {table} WHERE a = 'name 3'") == [("name 3",)]
    assert len(place.rows("SELECT a FROM t")) == 4


def test_loads_extend_the_base(place):
    """Files of others and files of ours are read as one."""
    place.write(numbered(0, 10))
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    more = "SELECT n, 'name ' || n FROM generate_series(10, 20009) n"
    place.execute(f"INSERT INTO t {more}")
    for executor in ("auto", "spark"):
        place.execute(f"SET gateway.executor = '{executor}'")
        rows = sorted(place.rows("SELECT * FROM t"))
        assert rows == [(n, f"name {n}") for n in range(20_010)]
    place.execute("RESET gateway.executor")
    assert place.refusal(f"INSERT INTO t {more}").sqlstate == "23505"
    assert place.rows("SELECT gateway.check('t')") == [(0,)]
    place.execute("VACUUM FULL t")
    assert place.rows("SELECT count(*), sum(id) FROM t") == [(20_010, sum(range(20_010)))]


def test_files_of_one_name_stay_apart(place):
    """A directory may hold links to files in other directories that are allowed."""
    for number in (1, 2):
        (place.files / f"_{number}").mkdir()
        pq.write_table(numbered(10 * number, 5), place.files / f"_{number}" / "part.parquet")
        (place.files / f"{number}.parquet").symlink_to(place.files / f"_{number}" / "part.parquet")
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    place.keep_tiered("t")
    place.execute("ALTER TABLE t ADD UNIQUE (name)")
    assert place.rows("SELECT sum(id) FROM t") == [(170,)]
    for name in ("name 11", "name 21"):
        assert place.refusal(f"INSERT INTO t VALUES (1, '{name}')").sqlstate == "23505"


def test_files_of_old_writers_are_refused(place):
    for key, value in (
        (b"org.apache.spark.legacyDateTime", b""),
        (b"org.apache.spark.version", b"2.4.8"),
    ):
        place.write(numbered(0, 1).replace_schema_metadata({key: value}))
        assert place.refusal(f"CONVERT TO t FROM '{place.files}' IN PLACE").sqlstate == "0A000"


def test_a_unique_constraint_leaves_no_traces_beside_the_files(place):
    place.write(numbered(0, 50))
    before = place.state()
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    place.execute("ALTER TABLE t ADD UNIQUE (name)")
    error = place.refusal("INSERT INTO t VALUES (50, 'name 7')")
    assert error.sqlstate == "23505"
    place.execute("INSERT INTO t VALUES (50, 'name 50')")
    assert place.rows("SELECT id FROM t WHERE name = 'name 50'") == [(50,)]
    assert place.state() == before


def test_bookkeeping_names_no_path_of_others(place):
    place.write(numbered(0, 5))
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id) IN PLACE")
    ((kind, path, rows),) = place.rows("SELECT kind, path, row_versions FROM gateway.commit_files")
    assert (kind, rows) == ("base", 5)
    assert path.endswith("-borrowed")
    assert not path.startswith("/")
    assert place.rows("SELECT row_versions FROM gateway.commits") == [(5,)]
    shown = "\n".join(row[0] for row in place.rows("EXPLAIN (VERBOSE) SELECT sum(id) FROM t"))
    assert str(place.files) not in shown


def test_roles_and_paths(place):
    """Only members of gateway_import, and only what is below allowed directories."""
    place.write(numbered(0, 1))
    outside = place.process.data_dir.parent / "outside.parquet"
    pq.write_table(numbered(0, 1), outside)
    (place.files / "link.parquet").symlink_to(outside)
    role = place.files.name
    place.execute(f"CREATE ROLE {role}")
    place.execute(f"GRANT {role} TO postgres")
    place.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
    convert = f"CONVERT TO t FROM '{place.files}"
    place.execute(f"SET ROLE {role}")
    assert place.refusal(f"{convert}/part.parquet' IN PLACE").sqlstate == "42501"
    place.execute("RESET ROLE")
    for path in (f"{place.files}", f"{place.files}/link.parquet", str(outside)):
        assert place.refusal(f"CONVERT TO t FROM '{path}' IN PLACE").sqlstate == "42501"
    place.execute(f"{convert}/part.parquet' IN PLACE")
    # What becomes a link later is not what it was.
    file = place.files / "part.parquet"
    file.rename(place.files / "_part.parquet")
    file.symlink_to(place.files / "_part.parquet")
    place.keep_tiered("t")
    assert place.refusal("SELECT sum(id) FROM t").sqlstate == "XX001"
    place.execute(f"DROP OWNED BY {role}")
    place.execute(f"DROP ROLE {role}")


def test_a_procedure_does_the_same(place):
    place.write(numbered(0, 5))
    path = str(place.files)
    call = "CALL gateway.convert(target => 't', source => %s, key => 'id', in_place => true)"
    place.execute(call, [path])
    place.execute("CALL gateway.convert('u', %s, 'parquet', 'id', %s)", [path, "off"])
    call = "CALL gateway.convert('v', %s, in_place => %s)"
    assert place.refusal(call, [path, "x"]).sqlstate == "22P02"
    found = place.rows("SELECT table_name, path LIKE '%-borrowed' FROM gateway.commit_files")
    assert sorted(found) == [("t", True), ("u", False)]


def test_files_without_rows(place):
    place.write(numbered(0, 0))
    assert place.execute(f"CONVERT TO t FROM '{place.files}' IN PLACE").statusmessage == "CONVERT 0"
    place.execute("INSERT INTO t VALUES (1, 'x')")
    assert place.rows("TABLE t") == [(1, "x")]


def test_after_a_restart_paths_are_judged_again(tmp_path):
    (tmp_path / "files").mkdir()
    pq.write_table(numbered(0, 10), tmp_path / "files" / "t.parquet")
    allowed = f"--allow-path={tmp_path / 'files'}"
    process = GatewayProcess(tmp_path / "data", *SPARK_OPTIONS, allowed)
    with process:
        process.address.execute(f"CONVERT TO t FROM '{tmp_path}/files' KEY (id) IN PLACE")
    with process, psycopg.connect(process.address.conninfo(), autocommit=True) as connection:
        assert connection.execute("SELECT sum(id) FROM t").fetchall() == [(45,)]
        assert connection.execute("SELECT name FROM t WHERE id = 4").fetchall() == [("name 4",)]
    with (
        GatewayProcess(tmp_path / "data", *SPARK_OPTIONS) as process,
        psycopg.connect(process.address.conninfo(), autocommit=True) as connection,
    ):
        for query in ("SELECT sum(id) FROM t", "SELECT name FROM t WHERE id = 4", "TABLE t"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(query)


LOCATED = "CREATE TABLE t (name string COMMENT 'of it', id long PRIMARY KEY) USING parquet LOCATION"


def test_create_table_takes_files_at_a_location(place):
    """With columns, in any order, or with those of the files."""
    place.write(numbered(0, 5))
    before = place.state()
    done = place.execute(f"{LOCATED} '{place.files}' COMMENT 'all'")
    assert done.statusmessage == "CREATE TABLE"
    assert place.rows("SELECT id, name FROM t WHERE id > 3") == [(4, "name 4")]
    assert place.rows(
        "SELECT obj_description('t'::regclass), col_description('t'::regclass, 1)"
    ) == [("all", "of it")]
    place.execute(f"CREATE TABLE IF NOT EXISTS u USING parquet LOCATION '{place.files}'")
    place.execute(f"CREATE TABLE IF NOT EXISTS u USING parquet LOCATION '{place.files}'")
    for table in "tu":
        place.execute(f"INSERT INTO {table} (id, name) VALUES (5, 'five')")
        assert place.rows(f"SELECT sum(id) FROM {table}") == [(15,)]
    assert place.refusal("INSERT INTO t VALUES ('x', 5)").sqlstate == "23505"
    place.execute("DROP TABLE t, u")
    assert place.state() == before


@pytest.mark.parametrize(
    ("columns", "sqlstate"),
    [
        ("(id int, name text)", "42804"),
        ("(id bigint, name varchar(10))", "42804"),
        ("(id bigint)", "42804"),
        ("(id bigint, name text, more text)", "42804"),
        ("(id bigint, name text PRIMARY KEY)", "23505"),
        ("(id bigint, name text NOT NULL)", "23502"),
        ("(id bigint, name text CHECK (name > ''))", "0A000"),
        ("(id bigint, name text UNIQUE)", "0A000"),
        ("(id bigint, name text, CHECK (id > 0))", "0A000"),
        ("(id bigint, name text GENERATED ALWAYS AS ('x') STORED)", "0A000"),
        ("(id bigint, name nothing)", "42704"),
    ],
)
def test_a_definition_that_the_files_do_not_fit_is_refused(place, columns, sqlstate):
    name = "b" if sqlstate == "23505" else None
    given = numbered(0, 2)
    place.write(given.set_column(1, "name", pa.array(["b", name], pa.string())))
    segments = place.segments()
    error = place.refusal(f"CREATE TABLE t {columns} USING parquet LOCATION '{place.files}'")
    assert error.sqlstate == sqlstate
    assert place.rows("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    assert place.segments() == segments


def test_a_location_without_files_is_refused(place):
    for path in (place.files, place.files / "missing"):
        error = place.refusal(f"{LOCATED} '{path}'")
        assert error.sqlstate == "58P01"
        assert "Leave LOCATION out" in error.diag.message_hint
    place.write(numbered(0, 1))
    for text in (
        f"CREATE TABLE t (id int) USING hudi LOCATION '{place.files}'",
        f"CREATE TABLE t USING parquet LOCATION '{place.files}' AS SELECT 1",
    ):
        error = place.refusal(text)
        assert error.sqlstate == "0A000"
        assert int(error.diag.statement_position) == text.index("LOCATION") + 1
    assert place.refusal(f"{LOCATED} '/etc'").sqlstate == "42501"
