"""CREATE TABLE in Spark's form makes tables of ours, whose types and errors are PostgreSQL's."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.servers import Address

pytestmark = pytest.mark.server


@pytest.fixture(params=["resident_gateway", "gateway"])
def connection(request) -> Iterator[psycopg.Connection]:
    address: Address = request.getfixturevalue(request.param)
    name = f"spark_tables_{abs(hash(request.node.name)) % 10**9}"
    address.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(address.conninfo(name), autocommit=True) as connection:
        yield connection
    address.execute(f"DROP DATABASE {name} WITH (FORCE)")


def refusal(connection, sql):
    with pytest.raises(psycopg.Error) as raised:
        connection.execute(sql)
    return raised.value


def columns(connection, table):
    return connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        [table],
    ).fetchall()


def test_tables_as_hudi_has_them(connection):
    done = connection.execute(
        "create table h0 (id bigint, name string, price double, primary key(id)) using hudi"
    )
    assert done.statusmessage == "CREATE TABLE"
    assert columns(connection, "h0") == [
        ("id", "bigint", True),
        ("name", "text", False),
        ("price", "double precision", False),
    ]
    connection.execute("insert into h0 select 1, 'a1', 10")
    connection.execute("insert into h0 values (101, 'a101', 20)")
    assert connection.execute("update h0 set price = price + 10 where id > 100").rowcount == 1
    done = connection.execute("create table h1 using hudi as select * from h0")
    assert done.statusmessage == "SELECT 2"
    rows = connection.execute("select * from h1 order by id").fetchall()
    assert rows == [(1, "a1", 10.0), (101, "a101", 30.0)]
    assert refusal(connection, "insert into h0 select 1, 'again', 0").sqlstate == "23505"


def test_comments_and_keys_of_options(connection):
    connection.execute(
        "CREATE TABLE t (id long COMMENT 'the ''key''', tags array<string>, at timestamp_ntz)"
        " USING hudi OPTIONS (primaryKey = 'id', type = 'mor') COMMENT 'all of it'"
    )
    assert columns(connection, "t") == [
        ("id", "bigint", True),
        ("tags", "text[]", False),
        ("at", "timestamp without time zone", False),
    ]
    found = connection.execute(
        "SELECT obj_description('t'::regclass), col_description('t'::regclass, 1)"
    ).fetchone()
    assert found == ("all of it", "the 'key'")
    connection.execute("INSERT INTO t VALUES (1, ARRAY['x', NULL], '2024-07-01')")
    assert refusal(connection, "INSERT INTO t VALUES (1)").sqlstate == "23505"


def test_arrays_of_types_whose_names_are_quoted(connection):
    connection.execute("""CREATE TYPE "Mood" AS ENUM ('sad', 'ok')""")
    connection.execute('CREATE TABLE t (id int, moods array<"Mood"> NOT NULL) USING parquet')
    assert columns(connection, "t") == [("id", "integer", False), ("moods", '"Mood"[]', True)]
    connection.execute("INSERT INTO t VALUES (1, ARRAY['sad', 'ok']::\"Mood\"[])")
    assert connection.execute("SELECT moods FROM t").fetchall() == [("{sad,ok}",)]
    assert refusal(connection, "CREATE TABLE u (a array<Mood>) USING parquet").sqlstate == "42704"


def test_the_key_of_a_query_is_checked(connection):
    connection.execute("CREATE TABLE s (a int, b int)")
    connection.execute("INSERT INTO s VALUES (1, 1), (2, 1)")
    statement = "CREATE TABLE t USING parquet OPTIONS (primaryKey = '{}') AS SELECT * FROM s"
    assert refusal(connection, statement.format("a")).sqlstate == "0A000"
    statement = statement.replace("parquet", "hudi")
    assert refusal(connection, statement.format("b")).sqlstate == "23505"
    assert refusal(connection, statement.format("c")).sqlstate == "42703"
    assert connection.execute(statement.format("a")).statusmessage == "SELECT 2"
    assert refusal(connection, "INSERT INTO t VALUES (2, 2)").sqlstate == "23505"


def test_a_table_that_exists_is_left_alone(connection):
    connection.execute("CREATE TABLE t (id int)")
    connection.execute("COMMENT ON TABLE t IS 'old'")
    notices: list[str | None] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    connection.execute("CREATE TABLE IF NOT EXISTS t (a string) USING hudi COMMENT 'new'")
    assert notices == ['relation "t" already exists, skipping']
    found = connection.execute("SELECT obj_description('t'::regclass)").fetchone()
    assert found == ("old",)
    assert refusal(connection, "CREATE TABLE t (a string) USING orc").sqlstate == "42P07"


def test_errors_of_postgresql_have_positions_in_the_statement(connection):
    text = "SELECT 1; CREATE TABLE é (a string COMMENT 'x', b nothing) USING hudi"
    error = refusal(connection, text)
    assert (error.sqlstate, error.diag.message_primary) == (
        "42704",
        'type "nothing" does not exist',
    )
    assert error.diag.statement_position == str(text.index("nothing") + 1)
    text = "CREATE TABLE t USING hudi AS SELECT none"
    error = refusal(connection, text)
    assert error.sqlstate == "42703"
    assert error.diag.statement_position == str(text.index("none") + 1)


def test_what_has_no_counterpart_is_refused(connection):
    for clause in (
        "LOCATION '/x'",
        "PARTITIONED BY (zorder(a))",
        "CLUSTERED BY (a, b) INTO 2 BUCKETS",
    ):
        error = refusal(connection, f"CREATE TABLE t (a int) USING hudi {clause}")
        assert error.sqlstate == "0A000"
        assert error.diag.message_primary is not None
        assert clause.split(" ", maxsplit=1)[0] in error.diag.message_primary
    assert refusal(connection, "CREATE TABLE t (a map<int,int>) USING hudi").sqlstate == "0A000"
    assert refusal(connection, "CREATE TABLE t (a int) USING avro").sqlstate == "42704"


def test_temporary_tables_are_postgresqls(connection):
    """They hide others of their name, and have no journal."""
    connection.execute("CREATE TABLE t (a int)")
    connection.execute("CREATE TEMP TABLE t (a long COMMENT 'x', b string) USING hudi")
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    assert columns(connection, "t") == [("a", "bigint", False), ("b", "text", False)]
    assert connection.execute("SELECT * FROM t").fetchall() == [(1, "x")]
    connection.execute("DROP TABLE pg_temp.t")
    assert connection.execute("SELECT * FROM t").fetchall() == []


def test_it_is_part_of_its_transaction(connection):
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE t (a string) USING hudi COMMENT 'x'")
    connection.execute("INSERT INTO t VALUES ('x')")
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT to_regclass('t')").fetchone() == (None,)
