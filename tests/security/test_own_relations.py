"""What is the gateway's own does not show where tools look: lists, statistics, errors."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.servers import Address
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

DATABASE = "own_relations"
ROLE = "own_relations_looker"

LISTS = (
    *(f"pg_stat_{kind}_{what}" for kind in ("all", "user") for what in ("tables", "indexes")),
    *(
        f"pg_statio_{kind}_{what}"
        for kind in ("all", "user")
        for what in ("tables", "indexes", "sequences")
    ),
    *(f"pg_stat_xact_{kind}_tables" for kind in ("all", "user")),
    "pg_stat_user_functions",
    "pg_stat_xact_user_functions",
    "pg_indexes",
    "pg_matviews",
    "pg_policies",
    "pg_rules",
    "pg_sequences",
    "pg_stats",
    "pg_stats_ext",
    "pg_stats_ext_exprs",
    "pg_tables",
    "pg_views",
)


@pytest.fixture(scope="module")
def looker(resident_gateway: Address) -> Iterator[psycopg.Connection]:
    """A session of a role without rights, beside a tiered table of somebody else."""
    resident_gateway.execute(f"CREATE ROLE {ROLE} LOGIN", f"CREATE DATABASE {DATABASE}")
    with psycopg.connect(resident_gateway.conninfo(DATABASE), autocommit=True) as owner:
        owner.execute("CREATE TABLE cold (id integer PRIMARY KEY, word text)")
        owner.execute("INSERT INTO cold SELECT g, 'secret' FROM generate_series(1, 40) g")
        make_tiered(owner, "cold")
        owner.execute("UPDATE cold SET word = 'more' WHERE id = 1")
        owner.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    conninfo = make_conninfo(resident_gateway.conninfo(DATABASE), user=ROLE)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        yield connection
    resident_gateway.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)", f"DROP ROLE {ROLE}")


@pytest.mark.parametrize("prefix", ["", "pg_catalog."])
def test_lists_and_statistics_leave_out_what_is_the_gateways(
    looker: psycopg.Connection, prefix: str
) -> None:
    queries = [
        f"SELECT count(*) FROM {prefix}{name} {condition}"
        for name in LISTS
        for condition in (
            "WHERE schemaname = 'pg_journal'",
            "AS s WHERE s.schemaname ~ '^pg_journal$'",
        )
    ]
    found = {query: looker.execute(query).fetchone() for query in queries}  # type: ignore[call-overload]
    assert {query for query, answer in found.items() if answer != (0,)} == set()


def test_what_is_not_the_gateways_is_in_them(looker: psycopg.Connection) -> None:
    for query in (
        "SELECT relname FROM pg_stat_user_tables",
        "SELECT relname FROM pg_catalog.pg_statio_user_tables t",
        "SELECT t.tablename FROM pg_tables t WHERE tableowner <> 'pgwire_gateway'",
        "SELECT tablename FROM pg_indexes WHERE schemaname <> 'pg_catalog'",
        "SELECT relname FROM pg_stat_user_indexes",
        "SELECT tables.relname FROM pg_stat_user_tables AS tables",
        "SELECT pg_stat_user_tables.relname FROM pg_stat_user_tables",
        "SELECT relname FROM (TABLE pg_stat_user_tables) t",
    ):
        assert looker.execute(query).fetchall() == [("cold",)], query  # type: ignore[call-overload]


def test_columns_of_lists_are_as_they_were(looker: psycopg.Connection) -> None:
    for name in LISTS:
        found = looker.execute(f"SELECT * FROM {name} LIMIT 0").description  # type: ignore[call-overload]
        assert found is not None
        names = looker.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
            " ORDER BY attnum",
            (f"pg_catalog.{name}",),
        ).fetchall()
        assert [(column.name,) for column in found] == names, name


def test_names_of_lists_may_be_those_of_others(looker: psycopg.Connection) -> None:
    with looker.transaction(force_rollback=True):
        looker.execute("CREATE TEMP TABLE pg_tables (schemaname text)")
        looker.execute("INSERT INTO pg_tables VALUES ('pg_journal')")
        looker.execute("CREATE TABLE public.pg_indexes (schemaname text)")
        looker.execute("INSERT INTO public.pg_indexes VALUES ('pg_journal')")
        assert looker.execute("SELECT * FROM pg_tables").fetchall() == [("pg_journal",)]
        assert looker.execute("SELECT count(*) FROM pg_catalog.pg_tables").fetchone() > (1,)
        looker.execute("SET LOCAL search_path = public, pg_catalog")
        assert looker.execute("TABLE pg_indexes").fetchall() == [("pg_journal",)]
        with_query = "WITH pg_stats AS (SELECT 1 AS a) SELECT a FROM pg_stats"
        assert looker.execute(with_query).fetchall() == [(1,)]


def test_lists_are_named_in_all_ways(looker: psycopg.Connection) -> None:
    name = "pg_catalog.pg_stat_user_tables"
    for query in (
        f"SELECT {name}.relname FROM {name} WHERE {name}.schemaname = 'public'",
        "SELECT relname FROM ONLY pg_stat_user_tables WHERE schemaname = 'public'",
        "SELECT relname FROM pg_stat_user_tables*",
        "SELECT relname FROM pg_stat_user_tables * AS t",
    ):
        assert looker.execute(query).fetchall() == [("cold",)], query  # type: ignore[call-overload]
    columns = "information_schema.columns"
    qualified = f"SELECT {columns}.column_name FROM {columns} WHERE {columns}.table_name = 'pg_am'"
    assert len(looker.execute(qualified).fetchall()) > 1  # type: ignore[call-overload]


def test_lists_of_journals_leave_out_the_rest(looker: psycopg.Connection) -> None:
    looker.execute("SET gateway.show_journals = on")
    try:
        query = "SELECT count(*) FROM pg_tables WHERE schemaname = 'pg_journal'"
        assert looker.execute(query).fetchone() == (0,)
    finally:
        looker.execute("RESET gateway.show_journals")


COLUMNS = ", ".join(f"c{number} boolean" for number in range(1590))

MORE = ", ".join(f"ADD COLUMN more_{number} boolean" for number in range(10))

FAILING = {
    "new table": ((), f"CREATE TABLE wide ({COLUMNS}, {MORE.replace('ADD COLUMN ', '')})"),
    "new columns": ((f"CREATE TABLE wide ({COLUMNS})",), f"ALTER TABLE wide {MORE}"),
    "new columns by code": (
        (f"CREATE TABLE wide ({COLUMNS})",),
        f"DO 'BEGIN ALTER TABLE wide {MORE}; END'",
    ),
}
"""What PostgreSQL can do with a table, and not with its journal, which has more columns."""


@pytest.mark.parametrize(("before", "statement"), FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("parameters", [None, ()], ids=["simple", "extended"])
def test_errors_do_not_tell_what_the_gateway_was_executing(
    looker: psycopg.Connection,
    before: tuple[str, ...],
    statement: str,
    parameters: tuple[()] | None,
) -> None:
    with looker.transaction(force_rollback=True):
        for sql in before:
            looker.execute(sql)  # type: ignore[call-overload]
        with pytest.raises(psycopg.errors.TooManyColumns) as caught:
            looker.execute(statement, parameters)  # type: ignore[call-overload]
    told = caught.value.diag
    for text in (told.context, told.internal_query, told.message_detail, told.source_function):
        assert "journal" not in (text or "")
        assert "tail_" not in (text or "")
