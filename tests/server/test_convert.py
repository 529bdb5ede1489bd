"""CONVERT: files become tables and tables become files, all rows of them or none.

Files are made with pyarrow, and what the gateway tells of a table is compared with what was
written.
"""

import datetime as dt
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from tests.support.fix_server import MACHINE_OPTIONS
from tests.support.servers import GatewayProcess, database_number
from tests.support.tiers import make_tiered

pytestmark = [pytest.mark.server, pytest.mark.turns("process")]

UTC = dt.UTC

MOMENTS = (
    dt.datetime(1900, 1, 1, 0, 0, 0, 1, UTC),
    None,
    dt.datetime(2024, 7, 1, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
)

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "tiny": pa.array([-128, None, 127, 0], pa.int8()),
        "small": pa.array([-32768, None, 32767, 0], pa.int16()),
        "whole": pa.array([-(2**31), None, 2**31 - 1, 0], pa.int32()),
        "large": pa.array([-(2**63), None, 2**63 - 1, 0], pa.int64()),
        "single": pa.array([1.5, None, -0.25, 0.0], pa.float32()),
        "double": pa.array([1e300, None, -5e-324, 0.1], pa.float64()),
        "flag": pa.array([True, None, False, True]),
        "bytes": pa.array([b"\0\xff", None, b"", b"x"]),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(2024, 2, 29)]),
        "moment": pa.array([*MOMENTS], pa.timestamp("us", tz="UTC")),
        "local": pa.array([-12_219_638_400_000_000, None, 1, -1], pa.timestamp("us")),
        "price": pa.array(
            [Decimal("1.10"), None, Decimal("-99999999.99"), 0], pa.decimal128(10, 2)
        ),
        "exact": pa.array([Decimal("1e37"), None, -1, 0], pa.decimal128(38, 0)),
        'Text; "é"': pa.array(['a,b\n"c"', None, "", "é\\N"]),
        "numbers": pa.array([[1, None], None, [], [3]], pa.list_(pa.int32())),
        "words": pa.array([["x", None, ""], None, [], ["{}"]], pa.list_(pa.string())),
    }
)
TYPES = {
    "id": "bigint",
    "tiny": "smallint",
    "small": "smallint",
    "whole": "integer",
    "large": "bigint",
    "single": "real",
    "double": "double precision",
    "flag": "boolean",
    "bytes": "bytea",
    "day": "date",
    "moment": "timestamp with time zone",
    "local": "timestamp without time zone",
    "price": "numeric(10,2)",
    "exact": "numeric(38,0)",
    'Text; "é"': "text",
    "numbers": "integer[]",
    "words": "text[]",
}


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

    def tables(self):
        names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return sorted(self.rows(names))

    def segments(self):
        """Return the directories of the database's tables in the warehouse."""
        return sorted((self.process.data_dir / "warehouse").glob(f"{self.number}/*"))


@pytest.fixture(scope="module", params=["small tables are resident", "all tables are tiered"])
def process(request) -> GatewayProcess:
    kind = "resident_process" if "resident" in request.param else "gateway_process"
    return request.getfixturevalue(kind)


@pytest.fixture
def place(process, allowed_directory) -> Iterator[Place]:
    files = allowed_directory / f"test_{time.monotonic_ns()}"
    files.mkdir()
    database = files.name
    process.address.execute(f"CREATE DATABASE {database}")
    with psycopg.connect(process.address.conninfo(database), autocommit=True) as connection:
        yield Place(process, connection, files, database_number(connection))
    process.address.execute(f"DROP DATABASE {database} WITH (FORCE)")
    process.address.execute(f"DROP ROLE IF EXISTS {database}_role")


def expected(table=ROWS):
    return [tuple(row.values()) for row in table.to_pylist()]


def test_every_type_of_parquet_comes_back(place):
    pq.write_table(ROWS, place.files / "t.parquet")
    done = place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    assert done.statusmessage == "CONVERT 4"
    place.execute("SET TimeZone TO UTC")
    assert place.rows("SELECT * FROM t ORDER BY id") == expected()
    assert (
        dict(
            place.rows(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum"
            )
        )
        == TYPES
    )
    assert place.rows(
        "SELECT conname FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'p'"
    ) == [("t_pkey",)]


def test_a_converted_table_is_written_like_any_other(place):
    pq.write_table(ROWS, place.files / "t.parquet")
    place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    place.execute("UPDATE t SET tiny = 5 WHERE id = 2")
    place.execute("DELETE FROM t WHERE id = 3")
    place.execute("INSERT INTO t (id, tiny) VALUES (5, 6)")
    assert place.refusal("INSERT INTO t (id) VALUES (1)").sqlstate == "23505"
    assert place.refusal("INSERT INTO t (tiny) VALUES (1)").sqlstate == "23502"
    place.execute("VACUUM t")
    assert place.rows("SELECT id, tiny FROM t ORDER BY id") == [(1, -128), (2, 5), (4, 0), (5, 6)]


def test_rows_of_files_are_divided_as_they_are_read(place):
    pq.write_table(ROWS, place.files / "rows.parquet")
    place.execute(
        f"CONVERT TO t FROM '{place.files}' KEY (id)"
        """ PARTITIONED BY ("Text; ""é\""", years(moment), whole, day, flag, truncate(9, tiny))"""
    )
    listed = "SELECT partition, row_count FROM gateway.partitions ORDER BY 1"
    none = "__HIVE_DEFAULT_PARTITION__"
    name = "Text%3B%20%22%C3%A9%22"
    parts = [
        (f"{name}=%C3%A9%5CN", "1969", 0, "2024-02-29", "true", 0),
        (f"{name}={none}", "2024", 2**31 - 1, "9999-12-31", "false", 126),
        (f"{name}={none}", none, none, none, none, none),
        (f"{name}=a%2Cb%0A%22c%22", "1900", -(2**31), "0001-01-01", "true", -135),
    ]
    assert sorted(place.rows(listed)) == sorted(
        (f"{one}/moment_year={a}/whole={b}/day={c}/flag={d}/tiny_trunc={e}", 1)
        for one, a, b, c, d, e in parts
    )
    for day in ("0001-01-01", "9999-12-31", "2024-02-29"):
        assert place.rows(f"SELECT count(*) FROM t WHERE day = '{day}'") == [(1,)]
    assert place.rows("SELECT id FROM t WHERE moment >= '2024-01-01+00' AND whole > 5") == [(3,)]
    assert place.rows("SELECT id FROM t WHERE whole IS NULL") == [(2,)]


def test_rows_without_key_have_identities(place):
    """Several files are several tasks of Spark, and equal rows stay apart."""
    for number in range(5):
        part = pa.table({"n": pa.array([number, 7, 7], pa.int32())})
        pq.write_table(part, place.files / f"{number}.parquet")
    notices: list[str | None] = []
    place.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    assert place.execute(f"CONVERT TO t FROM '{place.files}'").statusmessage == "CONVERT 15"
    assert notices == []
    assert place.rows("SELECT count(*) FROM t WHERE n = 7") == [(10,)]
    place.execute("INSERT INTO t VALUES (7)")
    place.execute("UPDATE t SET n = 8 WHERE n = 3")
    assert place.execute("DELETE FROM t WHERE n = 7").rowcount == 11
    place.execute("VACUUM t")
    assert place.rows("SELECT n FROM t ORDER BY n") == [(0,), (1,), (2,), (4,), (8,)]


def test_orc(place):
    given = ROWS.select(["id", "tiny", "whole", "double", "flag", "bytes", "price", "numbers"])
    given = given.append_column(
        "day", pa.array([-141_427, None, 0, 2_932_896]).cast(pa.int32()).view(pa.date32())
    )
    pyarrow.orc.write_table(given, place.files / "t.orc")
    place.execute(f"CONVERT TO t FROM '{place.files}/t.orc' KEY (id)")
    assert place.rows("SELECT * FROM t ORDER BY id") == expected(given)


@pytest.mark.parametrize("name", ["day", "local", "moment"])
def test_dates_and_times_of_orc_that_depend_on_the_writer_are_refused(place, name):
    pyarrow.orc.write_table(ROWS.select([name]), place.files / "t.orc")
    assert place.refusal(f"CONVERT TO t FROM '{place.files}/t.orc'").sqlstate == "0A000"
    assert place.tables() == []


def test_csv_is_read_as_copy_reads_it(place):
    text = 'id,zip,"a note"\n1,007,"two\nlines, ""quoted"""\n2,,""\n3,1.50,\\N\n'
    (place.files / "t.csv").write_text(text, encoding="utf-8")
    place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id)")
    found = place.rows("SELECT * FROM t ORDER BY id")
    assert found == [
        ("1", "007", 'two\nlines, "quoted"'),
        ("2", None, ""),
        ("3", "1.50", "\\N"),
    ]
    place.execute("CREATE TEMPORARY TABLE copied (id text, zip text, note text)")
    with place.connection.cursor().copy("COPY copied FROM STDIN (FORMAT csv, HEADER)") as copy:
        copy.write(text)
    assert place.rows("SELECT * FROM copied ORDER BY id") == found


CSV = {
    "returns and newlines": b"a,b\r\n1,x\r\n2,y\r\n",
    "no last line end": b"a,b\r\n1,x\r\n2,y",
    "returns": b"a,b\r1,x\r2,y\r",
    "newlines in values": b'a,b\n1,"x\ny"\n2,"\r\n"\n3,"\r"\n4,"\n"\n',
    "newlines in values after returns": b'a,b\r\n1,"x\ny"\r\n2,"\r\n\r\n"\r\n3,"\r"\r\n"\n",\r\n',
    "newlines in values between returns": b'a,b\r1,"x\ny"\r2,"\r\n"\r3,"\r"\r',
    "byte order mark": b'\xef\xbb\xbf"a",b\r\n1,x\r\n',
    "NULL and empty text": b'a,b\n"",\n,""\n,\n"",""\n',
    "one column": b'a\n1\n""\n \n2\n',
    "spaces": b'a,b\n 1 ,\tx \n" 2 "," "\n',
    "delimiters and quotes": b'a,b\n"1,2",""""\n"""x""",",\n,"\n',
    "what is special elsewhere": b"a,b\n#1,\\N\n\\.,x\\\nNULL,'x'\n",
    "other line ends": "a,b\n1\u2028,\x85\n2,\x0b\x0c\n".encode(),
    "a long line": b"a,b\n1," + b"x" * 3_000_000 + b"\n2,y\n",
    "a name that is Spark's": b"_corrupt_record,b\n1,x\n",
    "a header alone": b"a,b\r\n",
}
NO_CSV = {
    "blank lines": (b"a,b\n1,x\n\n2,y\n", "22P04"),
    "mixed line ends": (b"a,b\n1,x\r\n2,y\n", "22P04"),
    "a return in a value": (b"a,b\n1,x\ry\n", "22P04"),
    "too few": (b"a,b\n1,x\n2\n", "22P04"),
    "too many": (b"a,b\n1,x\n2,y,z\n", "22P04"),
    "an open quote": (b'a,b\n1,"x\n2,y\n', "22P04"),
    "a quote within": (b'a,b\n1,x"y\n2,z\n', "22P04"),
    "a zero byte": (b"a,b\n\x001,x\n", "22021"),
    "Latin 1": (b"a,b\n1,\xe9\n", "22021"),
}
READ_BY_COPY_ALONE = {
    "text beside quotes": b'a,b\n1,"x" \n',
    "NULL in one column": b"a\n1\n\n2\n",
}


def copied(place, content):
    columns = content.splitlines()[0].count(b",") + 1
    names = ", ".join(f"c{number} text" for number in range(columns))
    place.execute(f"DROP TABLE IF EXISTS copied; CREATE TEMPORARY TABLE copied ({names})")
    with place.connection.cursor().copy("COPY copied FROM STDIN (FORMAT csv, HEADER)") as copy:
        copy.write(content)
    return sorted(place.rows("TABLE copied"), key=repr)


def test_csv_is_read_as_copy_reads_it_or_refused(place):
    file = place.files / "t.csv"
    for name, content in CSV.items():
        file.write_bytes(content)
        place.execute(f"CONVERT TO t FROM '{file}'")
        assert sorted(place.rows("TABLE t"), key=repr) == copied(place, content), name
        place.execute("DROP TABLE t")
    for name, (content, sqlstate) in NO_CSV.items():
        file.write_bytes(content)
        with pytest.raises(psycopg.Error) as raised:
            copied(place, content)
        assert raised.value.sqlstate == sqlstate, name
        refused = place.refusal(f"CONVERT TO t FROM '{file}'")
        ours = "0A000" if "within" in name else sqlstate
        assert (refused.sqlstate, '"t.csv"' in refused.diag.message_detail) == (ours, True), name
    for name, content in READ_BY_COPY_ALONE.items():
        file.write_bytes(content)
        assert copied(place, content), name
        assert place.refusal(f"CONVERT TO t FROM '{file}'").sqlstate == "0A000", name
    assert ("t",) not in place.tables()


def test_csv_files_may_differ_in_what_ends_their_lines(place):
    (place.files / "0.csv").write_bytes(b"")
    (place.files / "1.csv").write_bytes(b'a,b\r\n1,"\r\n"\r\n')
    (place.files / "2.csv").write_bytes(b'a,"b"\n2,"\r\n"\n')
    (place.files / "3.csv").write_bytes(b'a,b\r3,"\r\n"\r')
    assert place.execute(f"CONVERT TO t FROM '{place.files}'").statusmessage == "CONVERT 3"
    assert place.rows("TABLE t ORDER BY a") == [("1", "\r\n"), ("2", "\r\n"), ("3", "\r\n")]
    assert place.execute("DELETE FROM t WHERE a > '1'").rowcount == 2
    assert place.rows("SELECT a FROM t") == [("1",)]


def test_json_is_read_as_it_is_or_refused(place):
    file = place.files / "t.json"
    file.write_bytes(
        b'{"big": 12345678901234567890, "mixed": 1.50, "half": 0.5, "_corrupt_record": "x"}\r\n'
        b'\r\n{"big": 1, "mixed": "\\u00e9\\ud83d\\ude00\\r\\n", "half": 9007199254740992}\n'
        b"{}\n"
        b'{"mixed": {"a": 1e4}, "big": null}'
    )
    place.execute(f"CONVERT TO t FROM '{file}'")
    found = place.rows("SELECT big::text, mixed, half, _corrupt_record FROM t ORDER BY big, mixed")
    assert found == [
        ("1", "é😀\r\n", 9007199254740992.0, None),
        ("12345678901234567890", "1.50", 0.5, "x"),
        (None, '{"a": 1e4}', None, None),
        (None, None, None, None),
    ]
    for content, sqlstate in {
        b'[{"a": 1}, {"a": 2}]': "22P04",
        b'{"a": 1, "a": 2}': "22030",
        b'{"a": 1, "": 2}': "22P04",
        b'{"a": 1e400}': "22003",
        b'{"a": "\\ud800"}': "22P02",
        b'{"a": "\\u0000"}': "22P05",
        b'{"a": 9007199254740993}\n{"a": 0.5}': "0A000",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}": "22P04",
    }.items():
        file.write_bytes(content)
        assert place.refusal(f"CONVERT TO u FROM '{file}'").sqlstate == sqlstate, content[:50]
    assert place.tables() == [("t",)]


def test_uris_with_queries_name_no_other_file(place):
    (place.files / "x").write_text("a\n1\n")
    error = place.refusal(f"CONVERT TO t FROM 'file://{place.files}/x?y' USING csv")
    assert error.sqlstate == "0A000"
    assert "query" in error.diag.message_primary
    assert place.tables() == []


def test_json(place):
    rows = [
        {"id": 1, "name": "é", "x": 0.5, "tags": ["a", None], "empty": None},
        {"id": 2**40, "name": None, "x": 2, "flag": True},
    ]
    text = "\n".join(map(json.dumps, rows))
    (place.files / "rows.jsonl").write_text(text, encoding="utf-8")
    place.execute(f"CONVERT TO t FROM '{place.files}/rows.jsonl'")
    found = place.rows("SELECT id, name, x, tags, flag, empty FROM t ORDER BY id")
    assert found == [
        (1, "é", 0.5, ["a", None], None, None),
        (2**40, None, 2.0, None, True, None),
    ]


def test_columns_that_some_files_lack_are_null(place):
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), place.files / "1.parquet")
    pq.write_table(pa.table({"a": [2], "c": [2.5]}), place.files / "2.parquet")
    place.execute(f"CONVERT TO t FROM '{place.files}'")
    assert place.rows("SELECT a, b, c FROM t ORDER BY a") == [(1, "x", None), (2, None, 2.5)]


def test_files_that_contradict_each_other_are_refused(place):
    pq.write_table(pa.table({"a": [1]}), place.files / "1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), place.files / "2.parquet")
    error = place.refusal(f"CONVERT TO t FROM '{place.files}'")
    assert error.sqlstate == "22P04"
    (place.files / "csv").mkdir()
    (place.files / "csv" / "1.csv").write_text("a,b\n1,2\n")
    (place.files / "csv" / "2.csv").write_text("b,a\n1,2\n")
    assert place.refusal(f"CONVERT TO t FROM '{place.files}/csv'").sqlstate == "22P04"
    assert place.tables() == []


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("ns"),
        pa.time32("ms"),
        pa.time64("us"),
        pa.list_(pa.time64("ns")),
        pa.map_(pa.string(), pa.struct([("x", pa.time64("ns"))])),
    ],
)
def test_a_type_that_spark_does_not_read_is_named(place, kind):
    empty = pa.table({"a": pa.array([1]), "odd": pa.array([None], kind)})
    pq.write_table(empty, place.files / "1.parquet")
    error = place.refusal(f"CONVERT TO t FROM '{place.files}'")
    assert error.sqlstate == "0A000"
    of_items = pa.time64("ns") if pa.types.is_nested(kind) else kind
    assert error.diag.message_primary == f'column "odd" of type {of_items} is not supported'
    assert place.tables() == []


def test_files_without_rows_make_an_empty_table(place):
    pq.write_table(ROWS.slice(0, 0), place.files / "t.parquet")
    (place.files / "h.csv").write_text("a,b\n")
    done = place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    assert done.statusmessage == "CONVERT 0"
    place.execute(f"CONVERT TO h FROM '{place.files}/h.csv'")
    place.execute("INSERT INTO t (id) VALUES (1)")
    place.execute("INSERT INTO h VALUES ('x', 'y')")
    assert place.rows("SELECT id FROM t") == [(1,)]
    assert place.rows("SELECT * FROM h") == [("x", "y")]


ONLY_MEMBERS = (
    'Only roles with privileges of the "gateway_import" role may CONVERT from or to a file.'
)

BAD_KEYS = {
    "NULL": (
        [1, None],
        "23502",
        'column "k" of relation "t" contains null values',
    ),
    "twice": ([3, 3], "23505", 'could not create unique index "t_pkey"'),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_a_key_that_rows_do_not_fit_leaves_nothing(place, name):
    values, sqlstate, message = BAD_KEYS[name]
    pq.write_table(pa.table({"k": pa.array(values, pa.int64())}), place.files / "t.parquet")
    kept = place.segments()
    error = place.refusal(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (k)")
    assert (error.sqlstate, error.diag.message_primary) == (sqlstate, message)
    assert place.tables() == []
    assert place.segments() == kept
    place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet'")
    assert place.rows("SELECT count(*) FROM t") == [(2,)]


def test_a_key_of_several_columns(place):
    rows = pa.table({"a": ["x", "x", "y"], "b": pa.array([1, 2, 1], pa.int32())})
    pq.write_table(rows, place.files / "t.parquet")
    place.execute(f"CONVERT TO t FROM '{place.files}' USING parquet KEY (b, a)")
    assert place.refusal("INSERT INTO t VALUES ('x', 2)").sqlstate == "23505"
    error = place.refusal(f"CONVERT TO u FROM '{place.files}' KEY (B, c)")
    assert (error.sqlstate, error.diag.message_primary) == (
        "42703",
        'column "c" named in key does not exist',
    )
    assert place.refusal(f"CONVERT TO u FROM '{place.files}' KEY (a, a)").sqlstate == "42701"
    assert place.tables() == [("t",)]


UNSUITABLE = {
    "structure": (pa.table({"s": [{"a": 1}]}), "0A000"),
    "map": (pa.table({"s": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))}), "0A000"),
    "array of arrays": (pa.table({"s": [[[1]]]}), "0A000"),
    "zero byte": (pa.table({"s": ["a\0b"]}), "22021"),
    "zero byte in an array": (pa.table({"s": [["a\0b"]]}), "22021"),
    "date before PostgreSQL's": (
        pa.table({"s": pa.array([-2_500_000], pa.int32()).view(pa.date32())}),
        "22008",
    ),
    "moment that stands for infinity": (
        pa.table({"s": pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("us"))}),
        "22008",
    ),
    "moment before PostgreSQL's": (
        pa.table({"s": pa.array([-(2**62)], pa.int64()).view(pa.timestamp("us", tz="UTC"))}),
        "22008",
    ),
}


@pytest.mark.parametrize("name", UNSUITABLE)
def test_what_postgresql_cannot_hold_is_refused(place, name):
    table, sqlstate = UNSUITABLE[name]
    pq.write_table(table, place.files / "t.parquet")
    error = place.refusal(f"CONVERT TO t FROM '{place.files}/t.parquet'")
    assert error.sqlstate == sqlstate
    assert place.tables() == []


def test_formats_are_told_by_names_or_by_using(place):
    pq.write_table(pa.table({"a": [1]}), place.files / "data")
    statement = f"CONVERT TO t FROM '{place.files}/data'"
    assert place.refusal(statement).sqlstate == "22023"
    assert place.refusal(f"{statement} USING orc").sqlstate == "22P04"
    place.execute(f"{statement} USING parquet")
    (place.files / "x.csv").write_text("a\n1\n")
    (place.files / "x.json").write_text('{"a": 1}')
    assert place.refusal(f"CONVERT TO u FROM '{place.files}'").sqlstate == "22023"
    assert place.refusal(f"CONVERT TO u FROM '{place.files}/x.csv' USING json").sqlstate == "22P04"


def test_names_that_are_taken(place):
    pq.write_table(pa.table({"a": [1]}), place.files / "t.parquet")
    place.execute("CREATE TABLE t (x integer)")
    place.execute("CREATE SCHEMA s")
    statement = f"FROM '{place.files}/t.parquet'"
    assert place.refusal(f"CONVERT TO t {statement}").sqlstate == "42P07"
    assert place.refusal(f"CONVERT TO none.t {statement}").sqlstate == "3F000"
    place.execute(f"CONVERT TO s.t {statement}")
    place.execute("SET search_path TO s")
    assert place.rows("SELECT a FROM t") == [(1,)]


def test_a_role_needs_the_privileges_of_gateway_import(place):
    pq.write_table(pa.table({"a": [1]}), place.files / "t.parquet")
    role = f"{place.files.name}_role"
    place.execute(f"CREATE ROLE {role}")
    place.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    place.execute(f"GRANT {role} TO postgres WITH SET TRUE")
    place.execute(f"SET ROLE {role}")
    for statement in (
        f"CONVERT TO t FROM '{place.files}/t.parquet'",
        f"CONVERT TO '{place.files}/out' FROM '{place.files}/t.parquet'",
        "CONVERT TO t FROM '/none'",
        f"CALL gateway.convert('t', '{place.files}/t.parquet')",
    ):
        error = place.refusal(statement)
        assert (error.sqlstate, error.diag.message_primary, error.diag.message_detail) == (
            "42501",
            "permission denied to CONVERT from or to a file",
            ONLY_MEMBERS,
        )
    place.execute("RESET ROLE")
    place.execute(f"GRANT gateway_import TO {role}")
    place.execute(f"SET ROLE {role}")
    place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet'")
    assert place.rows("SELECT tableowner FROM pg_tables WHERE tablename = 't'") == [(role,)]
    place.execute("RESET ROLE")
    place.execute("DROP TABLE t")
    place.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    place.execute(f"SET ROLE {role}")
    assert place.refusal(f"CONVERT TO t FROM '{place.files}/t.parquet'").sqlstate == "42501"


def test_an_operator_of_ones_own_gives_no_privileges(place):
    role = f"{place.files.name}_role"
    place.execute(f"CREATE ROLE {role}")
    place.execute(f"GRANT {role} TO postgres WITH SET TRUE")
    place.execute(f"CREATE SCHEMA evil AUTHORIZATION {role}")
    place.execute(f"SET ROLE {role}")
    try:
        place.execute(
            "CREATE FUNCTION evil.same(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
        place.execute(
            "CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.same)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("no functions where all tables are tiered")
    place.execute("SET search_path = evil, pg_catalog")
    assert place.refusal("CONVERT TO t FROM '/x'").diag.message_detail is not None


def test_paths_outside_are_refused_in_the_same_words(place):
    (place.files.parent.parent / "beside.csv").write_text("a\n1\n")
    (place.files / "link.csv").symlink_to(place.files.parent.parent / "beside.csv")
    for path in (
        "/etc/passwd",
        "/etc/none",
        f"{place.files}/../../beside.csv",
        f"{place.files}/link.csv",
        f"{place.process.data_dir}/catalog/PG_VERSION",
    ):
        for statement in (f"TO t FROM '{path}' USING csv", f"TO '{path}' FROM pg_class"):
            error = place.refusal(f"CONVERT {statement}")
            assert error.sqlstate == "42501"
            assert (
                error.diag.message_primary
                == f'path "{path}" is not below a directory that is allowed'
            )
    assert place.refusal(f"CONVERT TO t FROM '{place.files}/none.csv'").sqlstate == "58P01"
    assert place.refusal(f"CONVERT TO t FROM '{place.files}'").sqlstate == "42501"


def test_syntax_errors_have_positions(place):
    error = place.refusal("SELECT 1; CONVERT TO t FORM 'x'")
    assert error.sqlstate == "42601"
    assert error.diag.message_primary == 'syntax error at or near "FORM"'
    assert error.diag.statement_position == "24"


def test_rollback_leaves_no_table_and_no_files(place):
    pq.write_table(ROWS, place.files / "t.parquet")
    kept = place.segments()
    place.execute("BEGIN")
    place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    assert place.rows("SELECT count(*) FROM t") == [(4,)]
    place.execute("ROLLBACK")
    assert place.tables() == []
    assert place.segments() == kept
    place.execute("BEGIN")
    place.execute("SAVEPOINT s")
    place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    place.execute("ROLLBACK TO s")
    place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet'")
    place.execute("COMMIT")
    assert place.rows("SELECT count(*) FROM t") == [(4,)]
    assert len(place.segments()) == len(kept) + 1


def test_a_client_that_hangs_up_leaves_no_files(place):
    pq.write_table(ROWS, place.files / "t.parquet")
    kept = place.segments()
    address = place.process.address.conninfo(place.connection.info.dbname)
    other = psycopg.connect(address)
    other.execute(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    assert len(place.segments()) == len(kept) + 1
    other.close()
    deadline = time.monotonic() + 30
    while place.segments() != kept and time.monotonic() < deadline:
        time.sleep(0.1)
    assert place.segments() == kept
    assert place.tables() == []


def test_a_table_of_a_table(place):
    place.execute("CREATE TABLE s (id integer PRIMARY KEY, n numeric, t time, i interval, j jsonb)")
    place.execute(
        "INSERT INTO s SELECT g, g / 7.0, '01:02:03', '1 mon 2 days', '{\"a\": 1}'"
        " FROM generate_series(1, 3000) g"
    )
    make_tiered(place.connection, "s")
    place.execute("DELETE FROM s WHERE id = 17")
    assert place.execute("CONVERT TO t FROM s KEY (id)").statusmessage == "CONVERT 2999"
    assert place.execute("CONVERT TO u FROM s").statusmessage == "CONVERT 2999"
    for name in ("t", "u"):
        ordered = f"SELECT * FROM {name} ORDER BY id"
        assert place.rows(ordered) == place.rows("SELECT * FROM s ORDER BY id")
    assert place.refusal("INSERT INTO t (id) VALUES (5)").sqlstate == "23505"
    assert place.execute("DELETE FROM u WHERE id <= 5").rowcount == 5
    assert place.refusal("CONVERT TO v FROM s KEY (t)").sqlstate == "23505"
    assert place.refusal("CONVERT TO v FROM s KEY (none)").sqlstate == "42703"
    assert place.refusal("CONVERT TO v FROM none").sqlstate == "42P01"
    assert place.tables() == [("s",), ("t",), ("u",)]


def test_only_tables_one_may_read_are_copied(place):
    role = f"{place.files.name}_role"
    place.execute("CREATE TABLE s (id integer PRIMARY KEY)")
    place.execute("INSERT INTO s VALUES (1)")
    place.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    place.execute(f"CREATE ROLE {role}")
    place.execute(f"GRANT {role} TO postgres WITH SET TRUE")
    place.execute(f"GRANT gateway_import TO {role}")
    place.execute(f"SET ROLE {role}")
    assert place.refusal("CONVERT TO t FROM s").sqlstate == "42501"
    assert place.refusal(f"CONVERT TO '{place.files}/out' FROM s").sqlstate == "42501"
    assert list(place.files.iterdir()) == []


def test_a_table_becomes_files(place):
    pq.write_table(ROWS, place.files / "t.parquet")
    place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    place.execute("UPDATE t SET tiny = 9 WHERE id = 1")
    place.execute("DELETE FROM t WHERE id = 2")
    done = place.execute(f"CONVERT TO '{place.files}/out' FROM t")
    assert done.statusmessage == "CONVERT 3"
    assert [file.suffix for file in (place.files / "out").iterdir()] == [".parquet"]
    found = sorted(expected(pq.read_table(place.files / "out")))
    changed = [(1, 9, *expected()[0][2:]), *expected()[2:]]
    assert found == changed
    assert place.rows("SHOW gateway.executor") != [("spark",)]
    place.execute(f"CONVERT TO again FROM '{place.files}/out' KEY (id)")
    assert place.rows("(TABLE t EXCEPT TABLE again) UNION ALL (TABLE again EXCEPT TABLE t)") == []


def test_an_empty_table_becomes_a_file_with_its_columns(place):
    place.execute("CREATE TABLE t (id integer PRIMARY KEY, price numeric(6,2))")
    assert place.execute(f"CONVERT TO '{place.files}/out' FROM t").statusmessage == "CONVERT 0"
    schema = pq.read_table(place.files / "out").schema
    assert schema.names == ["id", "price"]
    assert schema.field("price").type == pa.decimal128(6, 2)


def test_files_become_other_files(place):
    (place.files / "t.csv").write_text("a,b\n1,x\n2,\n")
    done = place.execute(f"CONVERT TO '{place.files}/out' FROM '{place.files}/t.csv'")
    assert done.statusmessage == "CONVERT 2"
    assert expected(pq.read_table(place.files / "out")) == [("1", "x"), ("2", None)]


def test_exports_that_fail_leave_nothing(place):
    place.execute("CREATE TABLE t (id integer PRIMARY KEY, day date)")
    statement = f"CONVERT TO '{place.files}/out' FROM"
    with suppress(psycopg.errors.FeatureNotSupported):  # on tiered tables
        place.execute("INSERT INTO t VALUES (1, 'infinity')")
        assert place.refusal(f"{statement} t").sqlstate == "0A000"
    assert place.refusal(f"{statement} none").sqlstate == "42P01"
    assert place.refusal(f"{statement} pg_catalog.pg_class").sqlstate == "0A000"
    assert place.refusal(f"{statement} '{place.files}/none'").sqlstate == "58P01"
    assert list(place.files.iterdir()) == []
    (place.files / "out").mkdir()
    place.execute("DELETE FROM t")
    assert place.refusal(f"{statement} t").sqlstate == "58P02"
    place.execute("BEGIN")
    error = place.refusal(f"CONVERT TO '{place.files}/other' FROM t")
    assert (error.sqlstate, error.diag.message_primary) == (
        "25001",
        "CONVERT to a path cannot run inside a transaction block",
    )
    place.execute("ROLLBACK")


def test_drivers_call_a_procedure(place):
    pq.write_table(ROWS, place.files / "t.parquet")
    call = "CALL gateway.convert(target => %s, source => %s, key => %s)"
    done = place.execute(call, ["t", str(place.files / "t.parquet"), "id"])
    assert done.statusmessage == "CALL"
    call = "CALL gateway.convert(%b, %b, format => %b)"
    place.execute(call, ["public.u", str(place.files), "parquet"])
    assert place.rows("SELECT count(*) FROM t, u") == [(16,)]
    assert place.refusal("CALL gateway.convert('v', NULL)").sqlstate == "22004"
    error = place.refusal("CALL gateway.convert('a b', 't')")
    assert (error.sqlstate, error.diag.statement_position) == ("42601", None)
    assert place.refusal("CALL gateway.convert('v')").sqlstate == "42883"


def test_tables_that_have_to_stay_resident_are_refused(place):
    pq.write_table(ROWS, place.files / "t.parquet")
    statement = f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)"
    kept = place.segments()
    try:
        place.execute(
            "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM t; END'"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("no functions where all tables are tiered")
    error = place.refusal(statement)
    assert (error.sqlstate, error.diag.message_primary) == (
        "0A000",
        'CONVERT to table "t", which has to stay resident, is not supported',
    )
    place.execute("DROP FUNCTION f")
    place.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert place.refusal(statement).sqlstate == "0A000"
    place.execute("ROLLBACK")
    assert place.tables() == []
    assert place.segments() == kept
    place.execute(statement)


def test_a_failure_of_storage_leaves_nothing(place):
    """Nothing can be staged where a file has the name of the warehouse of the database."""
    pq.write_table(ROWS, place.files / "t.parquet")
    blocked = place.process.data_dir / "warehouse" / str(place.number)
    blocked.parent.mkdir(exist_ok=True)
    blocked.touch()
    error = place.refusal(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    assert error.sqlstate == "58030"
    assert place.tables() == []
    blocked.unlink()
    place.execute(f"CONVERT TO t FROM '{place.files}/t.parquet' KEY (id)")
    assert place.rows("SELECT count(*) FROM t") == [(4,)]


def test_read_only_transactions_make_no_table(place):
    pq.write_table(ROWS, place.files / "t.parquet")
    place.execute("SET default_transaction_read_only = on")
    assert place.refusal(f"CONVERT TO t FROM '{place.files}/t.parquet'").sqlstate == "25006"


def test_others_see_how_far_it_is(place):
    """While it lasts, also one that is cancelled then; and nothing is left."""
    ids = pa.array(range(300_000), pa.int64())
    for number in range(3):
        pq.write_table(pa.table({"id": ids, "x": ids}), place.files / f"{number}.parquet")
    query = "SELECT pid, command, source, target, phase, rows_total FROM gateway.progress"
    seen: list[tuple] = []
    failed: list[psycopg.Error] = []

    def run():
        try:
            place.execute(f"CONVERT TO t FROM '{place.files}' KEY (id, x)")
        except psycopg.Error as error:
            failed.append(error)

    statement = threading.Thread(target=run)
    address = place.process.address.conninfo(place.files.name)
    with psycopg.connect(address, autocommit=True) as other:
        statement.start()
        while statement.is_alive() and not seen:
            seen = other.execute(query).fetchall()
        place.connection.cancel()
        statement.join()
        assert other.execute(query).fetchall() == []
    ((pid, *names, phase, rows),) = seen
    assert pid == place.connection.info.backend_pid
    assert names == ["CONVERT", str(place.files), '"t"']
    assert phase in {"looking at columns", "examining rows", "writing rows", "checking the key"}
    assert rows == (None if phase == "looking at columns" else 900_000)
    # What is cancelled when it has all but ended fails for its key.
    assert {error.sqlstate for error in failed} <= {"57014", "23505"}
    assert failed
    assert place.tables() == []


def test_a_crash_leaves_no_table(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    pq.write_table(ROWS, files / "t.parquet")
    options = (*MACHINE_OPTIONS, f"--allow-path={files}")
    with GatewayProcess(tmp_path / "data", *options) as process:
        with psycopg.connect(process.address.conninfo(), autocommit=True) as connection:
            connection.execute(f"CONVERT TO kept FROM '{files}/t.parquet' KEY (id)")
            connection.execute("BEGIN")
            connection.execute(f"CONVERT TO lost FROM '{files}/t.parquet' KEY (id)")
            assert len(list((tmp_path / "data" / "warehouse").glob("[0-9]*/*"))) == 2
            process.kill()
            connection.close()
        process.start()
        with psycopg.connect(process.address.conninfo(), autocommit=True) as connection:
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            assert connection.execute(tables).fetchall() == [("kept",)]
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (4,)
            connection.execute("VACUUM")
            assert len(list((tmp_path / "data" / "warehouse").glob("[0-9]*/*"))) == 1
            connection.execute(f"CONVERT TO lost FROM '{files}/t.parquet' KEY (id)")
            assert connection.execute("SELECT count(*) FROM lost").fetchone() == (4,)
