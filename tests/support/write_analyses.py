"""Writes what `tests.support.analyses` reads, from the embedded PostgreSQL.

The tests say which statements there are: they run as often as they come to ask for more.
"""

import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from catalog.model import Column, JournalTable
from catalog.server.embedded import SUPERUSER, EmbeddedServer
from rewrite.command import CALLED
from rewrite.dialect.oids import FIRST_USER_OID
from rewrite.needs.definitions import Definitions
from rewrite.tree import Item, Node, walk
from tests.support.analyses import Analyses, Record, Statement, facts, files
from tests.support.expression_text import names_in
from tests.support.rewrite_oracle import database
from tests.support.table_definitions import Analyst, definitions

RESIDENT = "resident"

_NAMED = {
    "collOid": "pg_collation",
    "consttype": "pg_type",
    "opno": "pg_operator",
    "resulttype": "pg_type",
    **dict.fromkeys(CALLED, "pg_proc"),
}
"""What the OIDs are of that fields of nodes hold, where their names are recorded."""
_NO_OID = frozenset({"paramid", "requiredPerms", "location", "stmt_len", "stmt_location"})
"""Fields of large numbers that are no OIDs, beside type modifiers."""
_FIRST_NUMBERS = {
    "pg_class": 20_000,
    "pg_type": 30_000,
    "pg_proc": 40_000,
    "pg_operator": 50_000,
    "pg_constraint": 60_000,
}
"""What is in these tables of pg_catalog gets numbers from these on, in the order of its OIDs."""
_RELATIONS = """
select c.oid::int8, c.relname, coalesce(i.indkey::int2[]::int4[], '{}')
  from pg_class c left join pg_index i on i.indrelid = c.oid and indisprimary
 where c.relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by c.oid
"""
_COLUMNS = """
select attnum::int4, attname, atttypid::int8, atttypmod, attnotnull, attname
  from pg_attribute where attrelid = %s and attnum > 0 order by attnum
"""


def recorded(uri: str, schema: Path, statements: Collection[Statement]) -> str:
    """Return what the record of a schema is to hold.

    Args:
        uri: A PostgreSQL to analyse them on.
        schema: What makes the tables.
        statements: The statements; AssertionError when one is not valid.
    """
    with _made(uri, schema) as connection:
        tables = list(_tables(connection))
        tiered = {table.name for table in tables} - {RESIDENT}
        known = definitions(connection, "public", tiered)
        numbers = _numbers(connection)
        trees = _trees(connection.info.dsn, statements)
        found = [*facts(known, tables), *_domains(connection, known)]
        found += _objects(connection, known, [*found, *trees.values()])
        return Record(
            [_numbered(node, numbers) for node in found],
            {statement: _numbered(trees[statement], numbers) for statement in trees},
        ).text()


@contextmanager
def _made(uri: str, schema: Path) -> Iterator[psycopg.Connection]:
    """Make the tables in a database of their own; the roles are of the whole server."""
    with database(uri, f"analyses_{schema.stem}") as connection:
        roles = "select rolname from pg_roles"
        before = connection.execute(roles).fetchall()
        connection.execute(schema.read_text())
        try:
            yield connection
        finally:
            for role in set(connection.execute(roles).fetchall()) - set(before):
                connection.execute("drop owned by {0}; drop role {0}".format(*role))


def _tables(connection: psycopg.Connection) -> Iterator[JournalTable]:
    for relid, name, key in connection.execute(_RELATIONS).fetchall():
        columns = (Column(*attribute) for attribute in connection.execute(_COLUMNS, [relid]))
        yield JournalTable(relid, "public", name, tuple(columns), tuple(key), "key", 1, "")


def _trees(uri: str, statements: Collection[Statement]) -> dict[Statement, Item]:
    analyst = Analyst(uri)
    found: dict[Statement, Item] = {}
    for statement in statements:
        analyst.connection.execute(f"set role {statement.role or 'none'}")
        found[statement] = list(analyst.queries(statement.sql, statement.types))
    analyst.connection.close()
    return found


def _domains(connection: psycopg.Connection, known: Definitions) -> Iterator[Node]:
    assert known.domain_checks is not None
    query = "select oid::int8 from pg_type where typtype = 'd' and oid >= %s order by oid"
    for (oid,) in connection.execute(query, [FIRST_USER_OID]).fetchall():
        yield Node("DOMAIN", {"oid": oid, "checks": list(known.domain_checks(oid))})


def _objects(
    connection: psycopg.Connection, known: Definitions, trees: Sequence[Item]
) -> Iterator[Node]:
    """Yield what nodes name by their OIDs, with what is known of functions."""
    found = {
        (_NAMED[name], node.integer(name))
        for tree in trees
        for node, _ in walk(tree)
        for name in _NAMED.keys() & node.fields.keys()
        if node[name]
    }
    name_of = names_in(connection)
    for catalog, oid in sorted(found):
        fields: dict[str, Item] = {"catalog": catalog, "oid": oid, "name": name_of(catalog, oid)}
        if catalog == "pg_proc":
            fields["volatility"] = known.volatility(oid)
            fields["signature"] = known.signature(oid)
        yield Node("OBJECT", fields)


def _numbers(connection: psycopg.Connection) -> dict[int, int]:
    """Return numbers for the OIDs of what a schema makes, the same whenever that is done."""
    numbers: dict[int, int] = {}
    for catalog, first in _FIRST_NUMBERS.items():
        query = f"select oid::int8 from {catalog} where oid >= %s"
        if catalog == "pg_class":
            query += " and relkind in ('r', 'p', 'v', 'S')"
        found = connection.execute(f"{query} order by oid", [FIRST_USER_OID])
        numbers |= {oid: number for number, (oid,) in enumerate(found, first)}
    return numbers


def _numbered(item: Item, numbers: Mapping[int, int], name: str = "") -> Item:
    """Return a tree with numbers in the place of OIDs."""
    if isinstance(item, list):
        return [_numbered(part, numbers, name) for part in item]
    if isinstance(item, Node):
        fields = {key: _numbered(value, numbers, key) for key, value in item.fields.items()}
        return Node(item.tag, fields)
    is_number = isinstance(item, int) and name not in _NO_OID and "typmod" not in name.lower()
    return numbers.get(item, item) if is_number else item


# the command --------------------------------------------------------------------------------------


class Asked:
    """A plugin of pytest that looks on while tests ask for statements."""

    def __init__(self) -> None:
        self.opened: list[Analyses] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self) -> Iterator[None]:
        """Take down what tests get to ask."""
        made = yield
        if isinstance(made, Analyses):
            self.opened.append(made)
        return made

    def statements(self) -> set[Statement]:
        """Return what has been asked for."""
        return {statement for analyses in self.opened for statement in analyses.asked}


def write(uri: str, schema: Path) -> None:
    """Write a record anew, with what the tests that read it ask for."""
    recorded_statements: set[Statement] = set()
    path = schema.with_suffix(".analysis")
    while True:
        path.write_text(recorded(uri, schema, recorded_statements))
        asked = Asked()
        tests = schema.parent.with_name(f"test_{schema.stem}.py")
        pytest.main(["-p", "no:terminal", "-p", "no:cacheprovider", str(tests)], [asked])
        if asked.statements() == recorded_statements:
            break
        recorded_statements = asked.statements()


def main(names: Sequence[str]) -> None:
    """Write files anew."""
    with tempfile.TemporaryDirectory(prefix="analyses-", ignore_cleanup_errors=True) as directory:
        server = EmbeddedServer(Path(directory))
        server.start()
        try:
            uri = f"postgresql://{SUPERUSER}@/postgres?host={server.host}&port={server.port}"
            for schema in files():
                if not names or schema.stem in names:
                    write(uri, schema)
        finally:
            server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
