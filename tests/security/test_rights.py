"""Code of a role runs with its rights alone, whatever the gateway does with its tables.

Each piece of code tells by a sequence when it runs as somebody else: sequences are not rolled back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from tests.support.servers import Address
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

DATABASE = "rights"
OWNER = "rights_owner"
ROLE = "rights_mallory"

NOTE = f"""
CREATE FUNCTION m.note() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> '{ROLE}' THEN PERFORM nextval('m.reached'); END IF;
    RETURN 1;
END $$
"""

SETUP = (
    "CREATE SCHEMA m",
    "CREATE SEQUENCE m.reached",
    NOTE,
    (
        "CREATE FUNCTION one(x integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE"
        " AS $$ BEGIN RETURN m.note(); END $$"
    ),
    "CREATE FUNCTION nothing() RETURNS integer LANGUAGE sql AS $$ SELECT m.note() $$",
    (
        "CREATE FUNCTION is_so(x integer) RETURNS boolean LANGUAGE plpgsql STABLE"
        " AS $$ BEGIN RETURN m.note() = 1; END $$"
    ),
    (
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN PERFORM m.note(); RETURN new; END $$"
    ),
    (
        "CREATE FUNCTION distance(integer, integer) RETURNS float8 LANGUAGE plpgsql IMMUTABLE"
        " AS $$ BEGIN RETURN m.note(); END $$"
    ),
    "CREATE TABLE cold (id integer PRIMARY KEY, v integer)",
    "INSERT INTO cold SELECT g, g FROM generate_series(1, 50) g",
    "CREATE TABLE empty (id integer PRIMARY KEY, v integer)",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A database in which a role without rights may make schemas, and how one connects to it."""

    mallory: str
    owner: str
    anybody: str


def _run(connection: psycopg.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement)  # type: ignore[call-overload]


def _times_reached(connection: psycopg.Connection) -> int:
    ((value, is_called),) = connection.execute(
        "SELECT last_value, is_called FROM m.reached"
    ).fetchall()
    return int(value) if is_called else 0


@pytest.fixture(scope="module")
def place(resident_gateway: Address) -> Iterator[Place]:
    resident_gateway.execute(
        f"CREATE ROLE {OWNER} LOGIN",
        f"CREATE ROLE {ROLE} LOGIN",
        f"GRANT {OWNER} TO postgres",
        f"CREATE DATABASE {DATABASE} OWNER {OWNER}",
    )
    anybody = resident_gateway.conninfo(DATABASE)
    options = "-c search_path=m"
    found = Place(
        make_conninfo(anybody, user=ROLE, options=options),
        make_conninfo(anybody, user=OWNER),
        anybody,
    )
    with psycopg.connect(found.owner, autocommit=True) as owner:
        owner.execute(f"GRANT CREATE ON DATABASE {DATABASE} TO {ROLE}")
    with psycopg.connect(found.mallory, autocommit=True) as mallory:
        _run(mallory, *SETUP)
        make_tiered(mallory, "cold", "empty")
    yield found
    resident_gateway.execute(
        f"DROP DATABASE {DATABASE} WITH (FORCE)", f"DROP ROLE {OWNER}", f"DROP ROLE {ROLE}"
    )


@pytest.fixture
def mallory(place: Place) -> Iterator[psycopg.Connection]:
    """A session of the role; nothing of its code may have run as somebody else in the end."""
    with psycopg.connect(place.mallory, autocommit=True) as connection:
        before = _times_reached(connection)
        yield connection
        assert _times_reached(connection) == before


def test_the_code_tells_when_it_runs_as_somebody_else(place: Place) -> None:
    with psycopg.connect(place.mallory, autocommit=True) as mallory:
        _run(
            mallory,
            "GRANT USAGE ON SCHEMA m TO PUBLIC",
            "GRANT ALL ON SEQUENCE m.reached TO PUBLIC",
        )
        before = _times_reached(mallory)
        mallory.execute("SELECT m.note()")
        assert _times_reached(mallory) == before
        with psycopg.connect(place.anybody, autocommit=True) as other:
            other.execute("SELECT m.note()")
        assert _times_reached(mallory) == before + 1
        _run(
            mallory,
            "REVOKE USAGE ON SCHEMA m FROM PUBLIC",
            "REVOKE ALL ON SEQUENCE m.reached FROM PUBLIC",
        )


CASTS = tuple(
    statement
    for source in ("kind", "pair")
    for target in ("text", "json")
    for statement in (
        (
            f"CREATE FUNCTION as_{target}({source}) RETURNS {target} LANGUAGE plpgsql IMMUTABLE"
            f" AS $$ BEGIN RETURN m.note()::text::{target}; END $$"
        ),
        f"CREATE CAST ({source} AS {target}) WITH FUNCTION as_{target}({source}) AS IMPLICIT",
    )
)

PLAIN = "CREATE TABLE s (id integer PRIMARY KEY, v integer)"

SHAPES = {
    "columns and constraints": (
        "CREATE DOMAIN d AS integer CHECK (one(value) > 0)",
        (
            "CREATE TABLE s (id d PRIMARY KEY, v integer, n integer DEFAULT nothing(),"
            " g integer GENERATED ALWAYS AS (one(v)) STORED, CHECK (one(id) + one(1) > 0),"
            " EXCLUDE (one(v) WITH =) WHERE (id < 0))"
        ),
        "CREATE INDEX ON s (one(v)) WHERE one(id) > 0",
        "CREATE STATISTICS ON (one(v)), (v + 1) FROM s",
    ),
    "types": (
        "CREATE TYPE kind AS ENUM ('a', 'b')",
        "CREATE TYPE pair AS (a integer, b text)",
        *CASTS,
        "CREATE TYPE span AS RANGE (subtype = integer, subtype_diff = distance)",
        (
            "CREATE TABLE s (id integer UNIQUE, v integer, k kind DEFAULT 'a',"
            " p pair DEFAULT row(1, 'x'), q pair[] DEFAULT array[row(1, 'x')::pair],"
            " r span DEFAULT span(1, 5), PRIMARY KEY (id, k))"
        ),
        "CREATE INDEX ON s USING gist (r)",
    ),
    "policy": (
        PLAIN,
        "ALTER TABLE s ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE s FORCE ROW LEVEL SECURITY",
        "CREATE POLICY p ON s USING (is_so(id))",
    ),
    "triggers": (
        PLAIN,
        "CREATE TRIGGER a BEFORE INSERT OR UPDATE ON s FOR EACH ROW EXECUTE FUNCTION noted()",
        "CREATE TRIGGER b AFTER INSERT OR DELETE ON s FOR EACH ROW EXECUTE FUNCTION noted()",
        "CREATE TRIGGER c AFTER TRUNCATE OR UPDATE ON s EXECUTE FUNCTION noted()",
        "ALTER TABLE s ENABLE ALWAYS TRIGGER a",
        "ALTER TABLE s ENABLE REPLICA TRIGGER b",
        "ALTER TABLE s ENABLE ALWAYS TRIGGER c",
    ),
    "rules": (
        PLAIN,
        "CREATE RULE r AS ON DELETE TO s DO ALSO SELECT m.note()",
        "CREATE RULE i AS ON UPDATE TO s DO ALSO SELECT m.note()",
        "ALTER TABLE s ENABLE ALWAYS RULE r",
    ),
    "partition key": (
        "CREATE TABLE whole (id integer, v integer) PARTITION BY RANGE ((one(1) + one(v)))",
        "CREATE TABLE s PARTITION OF whole (PRIMARY KEY (id)) FOR VALUES FROM (0) TO (9)",
    ),
}

FOLLOWED = (
    "INSERT INTO s (id, v) SELECT g, g FROM generate_series(1, 9) g",
    "UPDATE s SET v = v + 1 WHERE id = 3",
    "UPDATE s SET id = id + 100 WHERE id = 4",
    "DELETE FROM s WHERE id = 5",
    "SELECT gateway.check('s')",
    "ALTER TABLE s SET (gateway.residency = never)",
    "TRUNCATE s",
    "DROP SCHEMA here CASCADE",
)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_belongs_to_a_table(mallory: psycopg.Connection, shape: str) -> None:
    _run(
        mallory, "CREATE SCHEMA here", "SET search_path = here, m", "SET constraint_exclusion = on"
    )
    _run(mallory, *SHAPES[shape], *FOLLOWED)


PLANNED = (
    "UPDATE cold SET v = 7 FROM own WHERE own.id = cold.id",
    "DELETE FROM cold USING own WHERE own.id = cold.id",
    (
        "MERGE INTO cold USING own ON own.id = cold.id WHEN MATCHED THEN UPDATE SET v = 1"
        " WHEN NOT MATCHED THEN INSERT VALUES (own.id, 5)"
    ),
)


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE INDEX ON own ((one(1) + v))",
        "CREATE STATISTICS pg_temp.s ON (one(1) + v), id FROM own",
    ],
)
def test_indexes_and_statistics_of_temporary_tables(
    mallory: psycopg.Connection, definition: str
) -> None:
    _run(mallory, "CREATE TEMP TABLE own (id integer PRIMARY KEY, v integer)", definition)
    _run(mallory, "INSERT INTO own VALUES (20, 1), (21, 2)")
    for statement in PLANNED:
        with pytest.raises(errors.FeatureNotSupported, match="with a function"):
            mallory.execute(statement)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "definition",
    ["CREATE INDEX ON held (pg_temp.f(v))", "CREATE STATISTICS ON (pg_temp.f(v)), id FROM held"],
)
def test_functions_that_are_replaced(mallory: psycopg.Connection, definition: str) -> None:
    _run(
        mallory,
        "CREATE TABLE held (id integer PRIMARY KEY, v integer)",
        "INSERT INTO held VALUES (1, 1), (2, 2)",
        "CREATE FUNCTION pg_temp.f(x integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE"
        " AS $$ BEGIN RETURN 1; END $$",
        definition,
    )
    with pytest.raises(errors.FeatureNotSupported, match="that can be inlined"):
        mallory.execute(
            "CREATE OR REPLACE FUNCTION pg_temp.f(x integer) RETURNS integer LANGUAGE sql IMMUTABLE"
            " AS $$ SELECT $1 + m.one(1) $$"
        )
    _run(mallory, "UPDATE held SET v = 3 WHERE id = 1", "DELETE FROM held", "DROP TABLE held")


def test_bounds_of_partitions(mallory: psycopg.Connection) -> None:
    _run(
        mallory,
        "CREATE TABLE whole (id integer, v integer) PARTITION BY RANGE (one(v))",
        "CREATE TABLE bare (id integer PRIMARY KEY, v integer)",
    )
    make_tiered(mallory, "bare")
    with pytest.raises(errors.FeatureNotSupported, match=r"PARTITION BY on .* with the function"):
        mallory.execute("ALTER TABLE whole ATTACH PARTITION bare FOR VALUES FROM (0) TO (9)")
    _run(
        mallory,
        "CREATE TABLE leaf PARTITION OF whole (PRIMARY KEY (id)) FOR VALUES FROM (0) TO (9)",
        "INSERT INTO whole VALUES (1, 1)",
    )
    pin = mallory.execute(
        "SELECT pinned_by FROM gateway.tables WHERE table_name = 'leaf'"
    ).fetchall()
    assert pin == [('PARTITION BY on "whole" with the function m.one(integer)',)]
    _run(mallory, "DROP TABLE whole", "DROP TABLE bare")


LITERALS = (
    ("ALTER TABLE empty ADD CHECK (m.one(id) > 0)", "check constraint"),
    ("CREATE FUNCTION seen() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM cold'", "reach"),
    ("DO $$ BEGIN PERFORM FROM cold; END $$", "reach"),
)


def test_the_bookkeeping_reads_its_own_text_as_written(place: Place) -> None:
    options = "-c search_path=m -c standard_conforming_strings=off"
    with psycopg.connect(place.mallory, autocommit=True, options=options) as connection:
        for statement, reason in LITERALS:
            with pytest.raises(errors.FeatureNotSupported, match=reason):
                connection.execute(statement)  # type: ignore[call-overload]


OPERATORS = tuple(
    statement
    for name, function in (("oid", "oideq"), ("text", "texteq"), ("name", "nameeq"))
    for statement in (
        (
            f"CREATE FUNCTION evil.equal({name}, {name}) RETURNS boolean LANGUAGE plpgsql"
            f" AS $$ BEGIN PERFORM nextval('evil.reached'); RETURN {function}($1, $2); END $$"
        ),
        f"CREATE OPERATOR evil.= (FUNCTION = evil.equal, LEFTARG = {name}, RIGHTARG = {name})",
    )
)

FUNCTIONS = tuple(
    f"CREATE FUNCTION evil.{name}({taken}) RETURNS {given} LANGUAGE plpgsql"
    f" AS $$ BEGIN PERFORM nextval('evil.reached'); RETURN pg_catalog.{name}({passed}); END $$"
    for name, taken, given, passed in (
        ("clock_timestamp", "", "timestamptz", ""),
        ("current_database", "", "name", ""),
        ("current_setting", "text", "text", "$1"),
        ("pg_backend_pid", "", "integer", ""),
        ("to_regclass", "text", "regclass", "$1"),
    )
)

HOSTILE = (
    "search_path = evil, pg_catalog, public",
    "role = rights_owner",
    "standard_conforming_strings = off",
    "array_nulls = off",
    "datestyle = German",
    "timezone = 'Asia/Tokyo'",
    "intervalstyle = sql_standard",
    "bytea_output = escape",
    "default_transaction_read_only = on",
    "default_transaction_isolation = serializable",
    "statement_timeout = '1ms'",
    "lock_timeout = '1ms'",
    "idle_session_timeout = '1ms'",
    "plpgsql.extra_errors = 'all'",
    "log_parameter_max_length_on_error = -1",
)


def test_settings_of_the_database(place: Place) -> None:
    """Who owns a database says what holds in others' sessions, but not in the gateway's own."""
    with psycopg.connect(place.owner, autocommit=True) as owner:
        _run(
            owner,
            "CREATE SCHEMA evil",
            "CREATE SEQUENCE evil.reached",
            *OPERATORS,
            *FUNCTIONS,
            "CREATE TABLE t (id integer PRIMARY KEY, v integer, d date, b bytea)",
            "INSERT INTO t SELECT g, g, '2001-02-03', '\\x00ff' FROM generate_series(1, 9) g",
        )
        make_tiered(owner, "t")
        try:
            for setting in HOSTILE:
                owner.execute(f"ALTER DATABASE {DATABASE} SET {setting}")  # type: ignore[call-overload]
            owner.execute("UPDATE t SET v = 0 WHERE id = 3")
            assert owner.execute("SELECT gateway.check('t')").fetchone() == (0,)
        finally:
            owner.execute(f"ALTER DATABASE {DATABASE} RESET ALL")
        rows = owner.execute("SELECT DISTINCT v = 0, d::text, b FROM t ORDER BY 1").fetchall()
        assert rows == [(False, "2001-02-03", b"\0\xff"), (True, "2001-02-03", b"\0\xff")]
        assert owner.execute("SELECT is_called FROM evil.reached").fetchone() == (False,)
        _run(owner, "DROP SCHEMA evil CASCADE", "DROP TABLE t")


CHECKED = "CREATE DOMAIN checked AS integer CHECK (one(value) > 0)"
UNCHECKED = "CREATE DOMAIN checked AS integer"

HIDDEN = {
    "a domain over it": (CHECKED, "CREATE DOMAIN over AS checked", "over"),
    "a domain that casts to it": (
        CHECKED,
        "CREATE DOMAIN over AS integer CHECK (value::checked > 0)",
        "over",
    ),
    "a domain that parses it": (
        CHECKED,
        "CREATE DOMAIN over AS text CHECK (value::checked[] IS NOT NULL)",
        "over",
    ),
    "a domain that is told its name": (
        CHECKED,
        "CREATE DOMAIN over AS text CHECK (pg_input_is_valid(value, 'here.checked'))",
        "over",
    ),
    "a domain that fills a row with it": (
        CHECKED,
        "CREATE TYPE row_of AS (a checked)",
        (
            "CREATE DOMAIN over AS jsonb"
            " CHECK (jsonb_populate_record(NULL::row_of, value) IS NOT NULL)"
        ),
        "over",
    ),
    "an array of it": (CHECKED, "checked[]"),
    "an array of a domain over it": (CHECKED, "CREATE DOMAIN over AS checked", "over[]"),
    "a range of it": (CHECKED, "CREATE TYPE span AS RANGE (subtype = checked)", "span"),
    "several ranges of it": (
        CHECKED,
        "CREATE TYPE span AS RANGE (subtype = checked, multirange_type_name = spans)",
        "spans",
    ),
    "a domain over an array of it": (CHECKED, "CREATE DOMAIN over AS checked[]", "over"),
}


@pytest.fixture
def here(mallory: psycopg.Connection) -> Iterator[psycopg.Connection]:
    _run(mallory, "CREATE SCHEMA here", "SET search_path = here, m")
    yield mallory
    _run(mallory, "DROP SCHEMA here CASCADE")


@pytest.mark.parametrize("shape", HIDDEN)
def test_domains_that_other_types_hide(here: psycopg.Connection, shape: str) -> None:
    *definitions, hiding = HIDDEN[shape]
    _run(here, *definitions)
    for table in ("cold", "empty"):
        with pytest.raises(errors.FeatureNotSupported):
            here.execute(f"ALTER TABLE {table} ADD COLUMN c {hiding}")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("construct", "definition"),
    [
        ("a constraint", "CHECK (v::checked > 0)"),
        ("a constraint that parses it", "CHECK (v::text::checked > 0)"),
        ("a generated column", "g integer GENERATED ALWAYS AS (v::checked + 1) STORED"),
    ],
)
def test_expressions_that_make_a_value_of_a_domain(
    here: psycopg.Connection, construct: str, definition: str
) -> None:
    here.execute(CHECKED)
    for table in ("cold", "empty"):
        with pytest.raises(errors.FeatureNotSupported):
            here.execute(f"ALTER TABLE {table} ADD {definition}")  # type: ignore[call-overload]


def test_a_domain_that_gets_a_constraint_later(here: psycopg.Connection) -> None:
    _run(here, UNCHECKED, "CREATE DOMAIN over AS checked", "ALTER TABLE empty ADD COLUMN c over")
    with pytest.raises(errors.FeatureNotSupported):
        here.execute("ALTER DOMAIN checked ADD CHECK (one(value) > 0)")
    _run(here, "INSERT INTO empty (id, c) VALUES (1, 5)", "UPDATE empty SET c = 6 WHERE id = 1")
    _run(here, "DELETE FROM empty", "ALTER TABLE empty DROP COLUMN c")


def test_what_is_noted_of_types_is_not_taken_from_a_client(place: Place) -> None:
    with (
        psycopg.connect(place.owner, autocommit=True) as owner,
        psycopg.connect(place.mallory, autocommit=True) as mallory,
    ):
        _run(
            owner,
            "CREATE SCHEMA o",
            "CREATE TYPE o.kind AS ENUM ('a')",
            "CREATE TABLE o.kept (id integer PRIMARY KEY, k o.kind)",
            "INSERT INTO o.kept VALUES (1, 'a')",
        )
        _run(mallory, "CREATE TABLE own (id integer)", "SET lock_timeout = '2s'")
        with owner.transaction():
            owner.execute("LOCK TABLE o.kept IN ROW EXCLUSIVE MODE")
            mallory.execute(
                "SELECT set_config('pg_journal.types_before', json_build_object('labels',"
                " (SELECT json_object_agg(oid, 'x') FROM pg_enum))::text, false)"
            )
            mallory.execute("ALTER TABLE own ADD COLUMN z integer")
        _run(owner, "DROP SCHEMA o CASCADE")
        _run(mallory, "DROP TABLE own")
