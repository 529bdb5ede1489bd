"""CREATE TABLE in Spark's form is translated for PostgreSQL, or refused by the name of a clause."""

import pytest

from catalog.errors import GatewayError
from catalog.extensions.create_table import parse
from catalog.statements.splitting import StatementKind, split

SPARKS_TYPES = (
    "a tinyint, b short, c long, d byte, e binary, f timestamp_ntz, g timestamp_ltz,"
    ' h array<string>, i array<decimal(10,2)>, j array<"Mood">, k ARRAY<s."Long">, l array<"long">'
)
POSTGRESQLS = (
    "a smallint, b smallint, c bigint, d smallint, e bytea, f timestamp without time zone,"
    " g timestamp with time zone, h text[], i decimal ( 10 , 2 )[],"
    ' j "Mood"[], k s . "Long"[], l "long"[]'
)
BUCKETS = "CLUSTERED BY (a) INTO 4 BUCKETS"
KNOWN_TO_BOTH = (
    "a double precision DEFAULT 1 < 2, b timestamp(3), c float, d text[],"
    ' "string" text, CHECK (a < 3), UNIQUE (b, c), LIKE u'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "create table h0 (id bigint, name string, price double, primary key(id)) using hudi",
            "CREATE TABLE h0 (id bigint, name text, price double precision, primary key(id))",
        ),
        ("create table h1 using hudi as select * from src", "CREATE TABLE h1 AS select * from src"),
        (
            'CREATE TABLE IF NOT EXISTS "D".t USING orc WITH (fillfactor = 70) AS VALUES (1) -- e',
            'CREATE TABLE IF NOT EXISTS "D".t WITH (fillfactor = 70) AS VALUES (1) -- e',
        ),
        (
            "create temp table t (a long) using hudi",
            "CREATE TEMP TABLE t (a bigint)",
        ),
        (
            "CREATE LOCAL TEMPORARY TABLE IF NOT EXISTS t USING orc AS SELECT 1",
            "CREATE LOCAL TEMPORARY TABLE IF NOT EXISTS t AS SELECT 1",
        ),
        ("CREATE UNLOGGED TABLE t (a long) USING orc", "CREATE UNLOGGED TABLE t (a bigint)"),
        (f"CREATE TABLE t ({SPARKS_TYPES}) USING parquet", f"CREATE TABLE t ({POSTGRESQLS})"),
        (f"CREATE TABLE t ({KNOWN_TO_BOTH}) USING hudi", f"CREATE TABLE t ({KNOWN_TO_BOTH})"),
        (
            "CREATE TABLE t (a int, b int) OPTIONS (primaryKey = 'a, b', type 'cow') USING hudi",
            'CREATE TABLE t (a int, b int, PRIMARY KEY ("a", "b"))',
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY) USING hudi TBLPROPERTIES ('primaryKey' = 'A')",
            "CREATE TABLE t (a int PRIMARY KEY)",
        ),
    ],
)
def test_statement_is_translated(text, expected):
    table = parse(text)
    assert table is not None
    assert table.create.text == expected
    assert (table.comments, table.later_key) == ((), ())


def test_a_location_may_tell_the_columns():
    text = "CREATE TABLE IF NOT EXISTS t {}USING parquet LOCATION '/a''b' COMMENT 'x'"
    table = parse(text.format(""))
    assert table is not None
    assert (table.location, table.has_columns, table.if_not_exists) == ("/a'b", False, True)
    table = parse(text.format("(a long) "))
    assert table is not None
    assert (table.create.text, table.has_columns) == (
        "CREATE TABLE IF NOT EXISTS t (a bigint)",
        True,
    )
    for wrong in ("USING parquet", "USING parquet LOCATION x", "LOCATION '/a' USING parquet AS"):
        with pytest.raises(GatewayError) as raised:
            parse(f"CREATE TABLE t {wrong}")
        assert raised.value.sqlstate == "42601"


def test_comments_become_statements():
    table = parse(
        "CREATE TABLE s.t (id long COMMENT 'the ''key''' NOT NULL, \"B\" string COMMENT '')"
        " USING hudi COMMENT 'all'"
    )
    assert table is not None
    assert table.create.text == 'CREATE TABLE s.t (id bigint NOT NULL, "B" text)'
    assert table.comments == (
        "COMMENT ON TABLE s.t IS 'all'",
        "COMMENT ON COLUMN s.t.id IS 'the ''key'''",
        "COMMENT ON COLUMN s.t.\"B\" IS ''",
    )


def test_partitions_are_columns_and_transforms_of_them():
    text = (
        'CREATE TABLE t (a int) USING hudi PARTITIONED BY (Country, "B c", days(at), YEAR(at),'
        " bucket(16, id), truncate(3, zip)) COMMENT 'x'"
    )
    table = parse(text)
    assert table is not None
    assert table.create.text == "CREATE TABLE t (a int)"
    told = [(one.transform.value, one.column, one.argument) for one in table.partitioned_by]
    assert told == [
        ("identity", "country", 0),
        ("identity", "B c", 0),
        ("day", "at", 0),
        ("year", "at", 0),
        ("bucket", "id", 16),
        ("truncate", "zip", 3),
    ]
    assert table.partitioned_by[2].position == text.index("days") + 1


def test_buckets_are_the_last_of_the_partitions():
    text = (
        'CREATE TABLE t (a int) CLUSTERED BY (Id) SORTED BY (id, "B c" ASC) INTO 16 BUCKETS'
        " USING parquet PARTITIONED BY (country, bucket(4, id))"
    )
    table = parse(text)
    assert table is not None
    assert table.create.text == "CREATE TABLE t (a int)"
    told = [(one.transform.value, one.column, one.argument) for one in table.partitioned_by]
    assert told == [("identity", "country", 0), ("bucket", "id", 4), ("bucket", "id", 16)]
    assert table.sorted_by is not None
    assert table.sorted_by.columns == ("id", "B c")
    assert table.sorted_by.position == text.index("SORTED") + 1
    table = parse("CREATE TABLE t USING hudi CLUSTERED BY (a) INTO 3 BUCKETS AS SELECT 1 AS a")
    assert table is not None
    assert (len(table.partitioned_by), table.sorted_by) == (1, None)


def test_the_key_of_a_query_comes_later():
    table = parse("CREATE TABLE t USING hudi OPTIONS (primaryKey = 'id') AS SELECT 1 AS id")
    assert table is not None
    assert table.later_key == ("id",)


def test_positions_lead_back():
    text = "CREATE TABLE é (a string, b nothing) USING hudi COMMENT 'x' AS SELECT none"
    table = parse(text)
    assert table is not None
    for word in ("é", "nothing", "none"):
        position = table.create.text.index(word) + 1
        assert table.create.place(position) == text.index(word) + 1
    assert table.create.place(table.create.text.index("text") + 1) == text.index("string") + 1
    assert table.create.place(len(table.create.text) + 1) == len(text) + 1


@pytest.mark.parametrize(
    ("text", "message", "sqlstate", "near"),
    [
        (
            "CREATE TABLE t (a int) USING hudi LOCATION '/x'",
            "LOCATION of files in format hudi is not supported",
            "0A000",
            "LOCATION",
        ),
        (
            "CREATE TEMP TABLE t (a int) USING parquet LOCATION '/x'",
            "LOCATION of a table that is temp is not supported",
            "0A000",
            "LOCATION",
        ),
        (
            "CREATE TABLE t (a int) USING orc PARTITIONED BY (a, zorder(a))",
            "zorder() in PARTITIONED BY is not supported",
            "0A000",
            "zorder",
        ),
        (
            "CREATE TABLE t (a int) USING hudi PARTITIONED BY (dt string)",
            "a column that is defined in PARTITIONED BY is not supported",
            "0A000",
            "dt",
        ),
        (
            "CREATE TEMP TABLE t (a int) USING hudi PARTITIONED BY (a)",
            "PARTITIONED BY of a table that is temp is not supported",
            "0A000",
            "a)",
        ),
        (
            "CREATE TABLE t (a int) USING parquet PARTITIONED BY (a) LOCATION '/x'",
            "LOCATION of a table with PARTITIONED BY is not supported",
            "0A000",
            "LOCATION",
        ),
        (
            "CREATE TABLE t (a int) USING hudi PARTITIONED BY (month(a), months(a))",
            'column "a" appears twice in PARTITIONED BY',
            "42701",
            "months",
        ),
        (
            "CREATE TABLE t (a int) USING hudi PARTITIONED BY (bucket(10001, a))",
            "10001 is out of range for bucket",
            "22023",
            "10001",
        ),
        (
            "CREATE TABLE t (a int, b int) USING orc CLUSTERED BY (a, b) INTO 4 BUCKETS",
            "CLUSTERED BY of several columns is not supported",
            "0A000",
            "CLUSTERED",
        ),
        (
            "CREATE TABLE t (a int) USING orc CLUSTERED BY (a) SORTED BY (a ASC, b DESC) INTO 4 X",
            "SORTED BY in descending order is not supported",
            "0A000",
            "DESC",
        ),
        (
            "CREATE TABLE t (a int) USING orc SORTED BY (a)",
            "SORTED BY without CLUSTERED BY is not supported",
            "0A000",
            "SORTED",
        ),
        (
            "CREATE TABLE t (a int) USING orc CLUSTERED BY (a) INTO 0 BUCKETS",
            "0 is out of range for bucket",
            "22023",
            "0 BUCKETS",
        ),
        (
            "CREATE TABLE t (a int) USING orc CLUSTERED BY (a) INTO 4",
            "syntax error at end of input",
            "42601",
            "",
        ),
        (
            "CREATE TABLE t (a int) USING orc CLUSTERED BY (bucket(4, a)) INTO 4 BUCKETS",
            'syntax error at or near "("',
            "42601",
            "(4, a)",
        ),
        (
            f"CREATE TABLE t (a int) {BUCKETS} USING orc PARTITIONED BY (bucket(4, a))",
            'column "a" appears twice in PARTITIONED BY and CLUSTERED BY',
            "42701",
            "CLUSTERED",
        ),
        (
            f"CREATE TABLE t (a int) USING orc PARTITIONED BY (a,b,c,d,e,f,g,h) {BUCKETS}",
            "more than 8 columns is not supported",
            "0A000",
            "CLUSTERED",
        ),
        (
            "CREATE UNLOGGED TABLE t (a int) USING orc CLUSTERED BY (a) INTO 4 BUCKETS",
            "CLUSTERED BY of a table that is unlogged is not supported",
            "0A000",
            "CLUSTERED",
        ),
        (
            "CREATE TABLE t USING parquet LOCATION '/x' CLUSTERED BY (a) INTO 4 BUCKETS",
            "LOCATION of a table with CLUSTERED BY is not supported",
            "0A000",
            "LOCATION",
        ),
        (
            "CREATE TABLE t (a int) USING hudi OPTIONS (preCombineField = 'a')",
            'option "preCombineField" of CREATE TABLE ... USING is not supported',
            "0A000",
            "preCombine",
        ),
        (
            "CREATE TABLE t (a int) USING parquet OPTIONS (compression = snappy)",
            'option "compression" of CREATE TABLE ... USING is not supported',
            "0A000",
            "compression",
        ),
        (
            "CREATE TABLE t (a int) USING hudi OPTIONS (type = 'cat')",
            'invalid value for option "type": "cat"',
            "22023",
            "type",
        ),
        (
            "CREATE TABLE t (a int, b map<string,int>) USING hudi",
            "column b of type map is not supported",
            "0A000",
            None,
        ),
        (
            "CREATE TABLE t (a struct<x: int>) USING hudi",
            "column a of type struct is not supported",
            "0A000",
            None,
        ),
        (
            "CREATE TABLE t (a array<array<int>>) USING hudi",
            "column a of type array is not supported",
            "0A000",
            None,
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY, b int) USING hudi OPTIONS (primaryKey = 'b')",
            "the option primaryKey and PRIMARY KEY name different columns",
            "42P16",
            None,
        ),
        (
            "CREATE TABLE t (a int,) USING hudi",
            'syntax error at or near ")"',
            "42601",
            ") USING",
        ),
        (
            "CREATE TABLE t (a int) USING hudi COMMENT 'x' COMMENT 'y'",
            'syntax error at or near "COMMENT"',
            "42601",
            "COMMENT 'y'",
        ),
        (
            "CREATE TABLE t (a string) USING hudi garbage",
            'syntax error at or near "garbage"',
            "42601",
            "garbage",
        ),
        ("CREATE TABLE t USING hudi", "syntax error at end of input", "42601", ""),
        ("CREATE TABLE t USING hudi AS", "syntax error at end of input", "42601", ""),
    ],
)
def test_what_has_no_counterpart_is_refused(text, message, sqlstate, near):
    with pytest.raises(GatewayError) as raised:
        parse(text)
    error = raised.value
    place = None if near is None else (text.index(near) if near else len(text)) + 1
    assert (error.message, error.sqlstate, error.position) == (message, sqlstate, place)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a int)",
        "CREATE TABLE t (a int) USING heap",
        "CREATE TABLE t AS SELECT 1 FROM a JOIN hudi USING (hudi)",
        "CREATE TABLE hudi AS SELECT 1 AS parquet",
        "CREATE INDEX ON t USING hash (a)",
        "CREATE TEMPORARY TABLE t (a int) USING heap",
    ],
)
def test_other_tables_are_postgresqls(text):
    assert parse(text) is None
    (statement,) = split(text)
    assert statement.kind is not StatementKind.CREATE_TABLE_USING


def test_what_postgresqls_grammar_knows_too_is_kept():
    (statement,) = split("CREATE TABLE t (a int) USING parquet")
    assert statement.kind is StatementKind.CREATE_TABLE_USING
    assert statement.details["plain"].kind is StatementKind.DEFINITION
    (statement,) = split("CREATE TABLE t (a int) USING parquet TABLESPACE x")
    assert statement.kind is StatementKind.DEFINITION
    (statement,) = split("CREATE TABLE t (a array<int>) USING parquet")
    assert statement.kind is StatementKind.CREATE_TABLE_USING
    assert "plain" not in statement.details
