"""Relations of other databases, and tables of Spark's catalogs, when they are registered."""

import json
from collections.abc import Sequence

from catalog.errors import GatewayError
from catalog.model import ExternalJournal
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark.databases import Connection, opened
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.executor import failures
from pgwire_gateway.spark.file_sources import quoted
from pgwire_gateway.spark.source_types import SourceColumn, columns_of
from pgwire_gateway.spark.statements import RunningStatement


class RelationLoad:
    """A relation of another database, as it is looked at when it is registered."""

    def __init__(
        self,
        engine: SparkEngine,
        connection: str,
        relation: Sequence[str],
        statement: RunningStatement,
    ) -> None:
        """Do nothing yet."""
        self._engine = engine
        self._connection = connection
        self._relation = relation
        self._statement = statement
        self.columns: tuple[SourceColumn, ...] = ()
        """Its columns, once it has been opened."""

    def open(self) -> str:
        """Find out which columns it has; return its name as SQL of that database.

        Raises:
            GatewayError: 58P01 and 22023 for the file of the connection, HV000 for what the
                database or its driver finds wrong; as ``columns_of``.
        """
        session = self._engine.sessions(self._statement.check).large
        connection = Connection.read(self._connection)
        with failures(self._engine, session.driver, self._statement):
            group = self._statement.begin(session.driver)
            session.enter(group)
            name = ".".join(session.quoted(connection.url, part) for part in self._relation)
            frame = opened(session, ExternalJournal("", name, "", "", connection=self._connection))
            self.columns = columns_of(json.loads(frame.schema()))
            self._statement.end(group)
        return name


def relations_of(
    engine: SparkEngine, connection: str, schema: str, statement: RunningStatement
) -> tuple[str, ...]:
    """Return the names of the tables and views in a schema of another database.

    Raises:
        GatewayError: 58P01 and 22023 for the file of the connection, HV000 for what the database or
            its driver finds wrong.
    """
    session = engine.sessions(statement.check).small
    with failures(engine, session.driver, statement):
        return session.relations(Connection.read(connection).options(), schema)


class CatalogTable:
    """A table of one of Spark's catalogs, as it is looked at when it is registered."""

    def __init__(
        self, engine: SparkEngine, name: Sequence[str], statement: RunningStatement
    ) -> None:
        """Do nothing yet."""
        self._engine = engine
        self._name = name
        self._statement = statement
        self.columns: tuple[SourceColumn, ...] = ()
        """Its columns, once it has been opened."""

    def open(self) -> str:
        """Find out which columns it has; return its name as SQL of Spark.

        Raises:
            GatewayError: 42P01 for what is no such table, views and files among it; as
                ``columns_of``.
        """
        session = self._engine.sessions(self._statement.check).large
        name = ".".join(map(quoted, self._name))
        with failures(self._engine, session.driver, self._statement):
            group = self._statement.begin(session.driver)
            session.enter(group)
            # What has no schema, or this one, is what the gateway itself has for other statements.
            is_table = len(self._name) > 1 and self._name[0].lower() != "global_temp"
            if not is_table or not session.has_table(name):
                raise GatewayError(
                    f'table "{".".join(self._name)}" does not exist in Spark\'s catalogs',
                    sqlstate=codes.UNDEFINED_TABLE,
                    hint="Name it with its schema.",
                )
            self.columns = columns_of(json.loads(session.table(name).schema()))
            self._statement.end(group)
        return name
