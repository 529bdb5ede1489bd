"""Other databases, to which the JVM has connections of its own, besides those of Spark's jobs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pgwire_gateway.spark.internals.machine import Machine

_KINDS: Final = ("TABLE", "PARTITIONED TABLE", "VIEW", "MATERIALIZED VIEW")


def quoted(machine: Machine, url: str, name: str) -> str:
    """Return a name in the SQL of a database."""
    return str(_dialects(machine).get(url).quoteIdentifier(name))


def relations(machine: Machine, options: Mapping[str, str], schema: str) -> tuple[str, ...]:
    """Return the names of the tables and views in a schema, in their order."""
    found = []
    with _connected(machine, {**options, "dbtable": "relations"}) as connection:
        known = connection.getMetaData()
        pattern = _pattern(schema, str(known.getSearchStringEscape()))
        listed = known.getTables(None, pattern, "%", machine.strings(_KINDS))
        while listed.next():
            if listed.getString("TABLE_SCHEM") == schema:
                found.append(str(listed.getString("TABLE_NAME")))
    return tuple(sorted(found))


def update(machine: Machine, options: Mapping[str, str], statement: str) -> int:
    """Run a statement; return how many rows it has changed."""
    with _connected(machine, options) as connection:
        return int(connection.createStatement().executeUpdate(statement))


def _pattern(name: str, escape: str) -> str:
    """Return a name as a pattern that it alone matches, where the driver has an escape.

    >>> _pattern("a_b", "!")
    'a!_b'
    """
    for wild in (escape, "_", "%"):
        name = name.replace(wild, escape + wild) if wild else name
    return name


@contextmanager
def _connected(machine: Machine, given: Mapping[str, str]) -> Iterator[Any]:
    """Give a connection of the driver's own while the context lasts."""
    jvm = machine.jvm
    options = jvm.scala.collection.immutable.HashMap()
    for name, value in given.items():
        options = options.updated(name, value)
    parameters = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(options)
    factory = _dialects(machine).get(given["url"]).createConnectionFactory(parameters)
    connection = factory.apply(-1)
    try:
        yield connection
    finally:
        connection.close()


def _dialects(machine: Machine) -> Any:
    return machine.jvm.org.apache.spark.sql.jdbc.JdbcDialects
