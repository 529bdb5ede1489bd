"""Changes of types and of columns' values that rows in data files would have to follow."""

import pytest
from sqlglot import exp

from rewrite.dialect.type_mapping import numeric_shape
from rewrite.errors import UnsupportedError
from rewrite.expressions import grouping_key, read_stored

pytestmark = pytest.mark.catalog


@pytest.mark.parametrize(
    "column",
    ["c colour", "c colour[]", "c painted", "c colours"],
)
def test_a_label_is_not_renamed_under_rows(client, column):
    client.run("CREATE TYPE colour AS ENUM ('red', 'green')")
    client.run("CREATE DOMAIN painted AS colour")
    client.run("CREATE TYPE colours AS RANGE (SUBTYPE = colour)")
    client.run(f"CREATE TABLE t (a int PRIMARY KEY, {column})")
    client.run("ALTER TYPE colour RENAME VALUE 'red' TO 'crimson'")
    client.insert("t", "INSERT INTO t VALUES (1)")
    assert client.sqlstate("ALTER TYPE colour RENAME VALUE 'crimson' TO 'scarlet'") == "0A000"
    client.run("ALTER TYPE colour ADD VALUE 'blue' BEFORE 'green'")
    client.run("ALTER TYPE colour RENAME TO tint")
    client.truncate("t")
    client.run("ALTER TYPE tint RENAME VALUE 'crimson' TO 'scarlet'")


@pytest.mark.parametrize(
    "change",
    [
        "ADD CHECK (VALUE > 0)",
        "ADD CONSTRAINT positive CHECK (VALUE > 0) NOT VALID",
        "SET NOT NULL",
    ],
)
@pytest.mark.parametrize("column", ["n number", "n smaller"])
def test_a_domain_gets_no_constraint_over_rows(client, column, change):
    client.run("CREATE DOMAIN number AS int")
    client.run("CREATE DOMAIN smaller AS number CHECK (VALUE < 100)")
    client.run(f"CREATE TABLE t (a int PRIMARY KEY, {column})")
    client.insert("t", "INSERT INTO t VALUES (1)")
    assert client.sqlstate(f"ALTER DOMAIN number {change}") == "0A000"
    client.truncate("t")
    client.run(f"ALTER DOMAIN number {change}")


def test_other_changes_of_a_domain_are_those_of_postgresql(client):
    client.run("CREATE DOMAIN number AS int CONSTRAINT small CHECK (VALUE < 100)")
    client.run("CREATE TABLE t (a int PRIMARY KEY, n number)")
    client.insert("t", "INSERT INTO t VALUES (1)")
    client.run("ALTER DOMAIN number SET DEFAULT 5")
    client.run("ALTER DOMAIN number RENAME CONSTRAINT small TO little")
    client.run("ALTER DOMAIN number DROP CONSTRAINT little")
    client.run("ALTER DOMAIN number RENAME TO amount")


def test_an_added_column_of_a_domain_has_the_value_it_would_have_had(client):
    client.run("CREATE DOMAIN small AS int CHECK (VALUE < 10)")
    client.run("CREATE DOMAIN given AS int DEFAULT 5 CHECK (VALUE < 10)")
    client.run("CREATE DOMAIN needed AS int NOT NULL")
    client.run("CREATE DOMAIN present AS int CHECK (VALUE IS NOT NULL)")
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    client.insert("t", "INSERT INTO t VALUES (1)")
    client.run("ALTER TABLE t ADD COLUMN b small")
    assert client.tail("t") == [[1, None]]
    assert client.sqlstate("ALTER TABLE t ADD COLUMN c needed") == "23502"
    assert client.sqlstate("ALTER TABLE t ADD COLUMN c present") == "23514"
    assert client.sqlstate("ALTER TABLE t ADD COLUMN c given") == "0A000"
    assert client.sqlstate("ALTER TABLE t ADD COLUMN c small DEFAULT 5") == "0A000"


@pytest.mark.parametrize(
    "change",
    [
        "ALTER COLUMN a TYPE int USING a + 1",
        "ALTER COLUMN b TYPE text USING upper(b)",
        "ALTER COLUMN b TYPE varchar(20) USING b || 'x'",
        "ALTER COLUMN c TYPE text USING c || 'x'",
    ],
)
def test_values_are_not_rewritten(client, change):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b varchar(10), c text)")
    client.insert("t", "INSERT INTO t VALUES (1, 'b', 'c')")
    assert client.sqlstate(f"ALTER TABLE t {change}") == "0A000"
    assert client.tail("t") == [[1, "b", "c"]]
    client.truncate("t")
    client.run(f"ALTER TABLE t {change}")


def test_using_the_column_itself_changes_nothing(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b varchar(10))")
    client.insert("t", "INSERT INTO t VALUES (1, 'b')")
    client.run("ALTER TABLE t ALTER COLUMN a TYPE int USING a, ALTER COLUMN b TYPE text USING b")
    assert client.tail("t") == [[1, "b"]]


@pytest.mark.parametrize(
    "spelled",
    [
        "colour",
        "jsonb",
        "inet",
        "timetz",
        "small",
        "numeric",
        "numeric(39,2)",
        "numeric[]",
        "float8[]",
        "int4range",
        "bit(3)",
    ],
)
def test_keys_that_could_not_be_compared_are_refused(client, spelled):
    client.run("CREATE TYPE colour AS ENUM ('red')")
    client.run("CREATE DOMAIN small AS int")
    assert client.sqlstate(f"CREATE TABLE t (a {spelled} PRIMARY KEY)") == "0A000"
    client.run(f"CREATE TABLE t (a {spelled}, b int)")
    assert client.sqlstate("ALTER TABLE t ADD PRIMARY KEY (b, a)") == "0A000"
    client.run("ALTER TABLE t ADD PRIMARY KEY (b)")
    assert client.sqlstate(f"ALTER TABLE t ALTER COLUMN b TYPE {spelled} USING NULL") == "0A000"


def _is_compared(type_oid):
    try:
        grouping_key(read_stored(exp.column("c"), type_oid, -1))
    except UnsupportedError:
        return False
    return True


@pytest.mark.parametrize(
    "spelled",
    [
        "numeric",
        "numeric(38,38)",
        "numeric(38,0)",
        "numeric(39,0)",
        "numeric(4,-1)",
        "numeric(2,3)",
    ],
)
def test_numbers_are_keys_where_their_digits_are_bounded(client, catalog, database, spelled):
    client.run(f"CREATE TABLE t (a {spelled})")
    administrator = catalog.admin(database)
    (row,) = administrator.execute(
        "SELECT atttypmod, pg_journal.is_key_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'public.t'::regclass AND attname = 'a'"
    ).rows
    administrator.close()
    assert (row[1] == b"t") == (numeric_shape(int(row[0])) is not None)


def test_key_types_are_those_the_compiler_compares(catalog, database):
    administrator = catalog.admin(database)
    found = administrator.execute(
        "SELECT oid::int8, typname, pg_journal.is_key_type(oid, -1) FROM pg_type"
        " WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm', 'd')"
        # refused in any column, or not compared in full
        " AND typname !~ '^_?reg' AND typname <> 'numeric'"
    )
    wrong = [
        name
        for oid, name, is_key_type in found.rows
        if _is_compared(int(oid)) != (is_key_type == b"t")
    ]
    administrator.close()
    assert wrong == []
