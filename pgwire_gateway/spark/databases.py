"""Other databases, reached by Spark through JDBC: how they are read, and appended to."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from catalog.errors import GatewayError
from catalog.model import ExternalJournal
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark.engine import SparkSession
from pgwire_gateway.spark.frames import Frame

_KNOWN: Final = ("jdbcDriver", "jdbcUrl", "jdbcUser", "jdbcPassword")


@dataclass(frozen=True, slots=True)
class Connection:
    """How another database is reached."""

    driver: str
    url: str
    user: str
    password: str

    @classmethod
    def read(cls, path: str) -> Self:
        """Read the JSON file that tells.

        Raises:
            GatewayError: 58P01 for a missing file, 22023 for what is wrong with it.
        """
        try:
            return cls.of(json.loads(Path(path).read_text(encoding="utf-8")), path)
        except OSError as error:
            raise GatewayError(
                f'could not read connection file "{path}": {error.strerror}',
                sqlstate=codes.UNDEFINED_FILE,
            ) from error
        except ValueError as error:
            raise _invalid(path, str(error)) from error

    @classmethod
    def of(cls, given: object, path: str) -> Self:
        """Take the properties from a JSON document."""
        if not isinstance(given, dict):
            raise _invalid(path, "it is no object")
        for name, value in given.items():
            if name not in _KNOWN:
                raise _invalid(path, f'unknown property "{name}"')
            if not isinstance(value, str):
                raise _invalid(path, f'property "{name}" is no string')
        for name in _KNOWN[:2]:
            if name not in given:
                raise _invalid(path, f'property "{name}" is missing')
        return cls(*(given.get(name, "") for name in _KNOWN))

    def options(self) -> dict[str, str]:
        """Return Spark's options."""
        found = {
            "url": self.url,
            "driver": self.driver,
            "user": self.user,
            "password": self.password,
            # TIMESTAMP without time zone is none of an instant.
            "preferTimestampNTZ": "true",
        }
        if self.url.startswith("jdbc:postgresql:"):
            # So that what Spark has as text may be uuid, json or an enumeration there.
            found["stringtype"] = "unspecified"
        return {name: value for name, value in found.items() if value}


def _invalid(path: str, reason: str) -> GatewayError:
    return GatewayError(
        f'connection file "{path}": {reason}',
        sqlstate=codes.INVALID_PARAMETER_VALUE,
        hint=f"Its properties are {', '.join(_KNOWN)}.",
    )


def opened(session: SparkSession, external: ExternalJournal) -> Frame:
    """Return the rows of a relation of another database."""
    reader = session.java.read().format("jdbc").option("dbtable", external.location)
    for name, value in _options(external).items():
        reader.option(name, value)
    return reader.load()


def append(external: ExternalJournal, frame: Frame) -> None:
    """Append rows to a relation of another database, in one transaction there."""
    writer = frame.coalesce(1).write().format("jdbc").mode("append")
    for name, value in {**_options(external), "dbtable": external.location}.items():
        writer.option(name, value)
    writer.save()


def _options(external: ExternalJournal) -> dict[str, str]:
    return Connection.read(external.connection or "").options()


def archive(session: SparkSession, external: ExternalJournal, key: Sequence[str]) -> int:
    """Tell superseded row versions the number of their successor; return how many there were."""
    connection = Connection.read(external.connection or "")
    jvm = session.driver.jvm
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(connection.url)
    version, subsequent, *keys = (
        str(dialect.quoteIdentifier(name)) for name in (external.version, external.subsequent, *key)
    )
    same = " AND ".join(f"n.{name} = j.{name}" for name in keys)
    later = f"FROM {external.location} n WHERE {same} AND n.{version} > j.{version}"
    update = (
        f"UPDATE {external.location} j SET {subsequent} = (SELECT min(n.{version}) {later})"  # noqa: S608
        f" WHERE j.{subsequent} IS NULL AND EXISTS (SELECT 1 {later})"
    )
    with _connected(session, connection, external.location) as opened_connection:
        return int(opened_connection.createStatement().executeUpdate(update))


def relations(session: SparkSession, connection: Connection, schema: str) -> tuple[str, ...]:
    """Return the names of the tables and views in a schema, in their order."""
    found = []
    with _connected(session, connection, "relations") as opened_connection:
        kinds = session.driver.strings(["TABLE", "PARTITIONED TABLE", "VIEW", "MATERIALIZED VIEW"])
        known = opened_connection.getMetaData()
        listed = known.getTables(
            None, _pattern(schema, str(known.getSearchStringEscape())), "%", kinds
        )
        while listed.next():
            if listed.getString("TABLE_SCHEM") == schema:
                found.append(str(listed.getString("TABLE_NAME")))
    return tuple(sorted(found))


def _pattern(name: str, escape: str) -> str:
    """Return a name as a pattern that it alone matches, where the driver has an escape.

    >>> _pattern("a_b", "!")
    'a!_b'
    """
    for wild in (escape, "_", "%"):
        name = name.replace(wild, escape + wild) if wild else name
    return name


@contextmanager
def _connected(session: SparkSession, connection: Connection, relation: str) -> Iterator[Any]:
    """Give a connection of the driver's own while the context lasts."""
    jvm = session.driver.jvm
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(connection.url)
    options = jvm.scala.collection.immutable.HashMap()
    for name, value in {**connection.options(), "dbtable": relation}.items():
        options = options.updated(name, value)
    parameters = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(options)
    opened_connection = dialect.createConnectionFactory(parameters).apply(-1)
    try:
        yield opened_connection
    finally:
        opened_connection.close()
