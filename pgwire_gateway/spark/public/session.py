"""Sessions of PySpark."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pgwire_gateway.spark.api import Driver, Explanation, Reading
from pgwire_gateway.spark.arrow_schemas import arrow_schema
from pgwire_gateway.spark.public.frame import PublicFrame
from pgwire_gateway.spark.public.running import Groups
from rewrite.errors import UnsupportedError

_HINT: Final = "Start the gateway with --spark-api=internals."


class PublicSession:
    """A session of PySpark; see `pgwire_gateway.spark.api.Session`."""

    def __init__(self, driver: Driver, groups: Groups, session: SparkSession, pool: str) -> None:
        self.driver = driver
        self._groups = groups
        self._session = session
        self._pool = pool

    def enter(self, group: str) -> None:
        """Make this thread's jobs run in the session's pool and in a group to cancel."""
        self._groups.enter(group, self._pool)

    def activate(self) -> None:
        """Do nothing: PySpark knows the session of each frame."""

    def query(self, text: str) -> PublicFrame:
        """Return the rows of a query, which is analysed now."""
        return self._frame(self._session.sql(text))

    def explain(self, text: str) -> Explanation:
        """Return how a query would be run."""
        physical, logical = (
            self._groups.planned(partial(self._explained, mode, text))
            for mode in ("FORMATTED", "EXTENDED")
        )
        return Explanation(physical, logical.partition("== Physical Plan ==")[0])

    def _explained(self, mode: str, text: str) -> str:
        return str(self._session.sql(f"EXPLAIN {mode} {text}").collect()[0][0])

    def read(self, reading: Reading) -> PublicFrame:
        """Return the rows of files, or of a relation of another database."""
        reader = self._session.read.format(reading.form).options(**reading.options)
        if reading.ddl is not None:
            reader = reader.schema(reading.ddl)
        elif reading.schema is not None:
            reader = reader.schema(_structure(reading.schema))
        return self._frame(reader.load(list(reading.paths)) if reading.paths else reader.load())

    def local(self, rows: pa.Table, ddl: str) -> PublicFrame:
        """Return rows held in memory."""
        structure = StructType.fromDDL(ddl)
        table = rows.cast(arrow_schema(structure.json()))
        return self._frame(self._session.createDataFrame(table, structure))  # type: ignore[call-overload] # knows no Arrow

    def empty(self, schema: str) -> PublicFrame:
        """Return no rows."""
        return self._frame(self._session.createDataFrame([], schema=_structure(schema)))

    def table(self, name: str) -> PublicFrame:
        """Return the rows of a table of Spark's catalogs as they are now."""
        # Others may have written to it since Spark listed its files.
        self._session.catalog.refreshTable(name)
        return self._frame(self._session.table(name))

    def has_table(self, name: str) -> bool:
        """Tell whether Spark's catalogs have such a table, which is no view of a session."""
        known = self._session.catalog
        return known.tableExists(name) and not known.getTable(name).isTemporary

    def types(self, schema: str) -> tuple[tuple[str, str], ...]:
        """Return the names and the types in SQL of columns in Spark's JSON."""
        return tuple([(field.name, field.dataType.simpleString()) for field in _structure(schema)])

    def drop(self, name: str) -> None:
        """Forget what `Frame.register` has made known."""
        self._session.catalog.dropGlobalTempView(name)

    def quoted(self, url: str, name: str) -> str:  # noqa: ARG002 - PySpark does not tell
        """Refuse: how another database quotes names is nothing PySpark tells."""
        raise _unsupported("naming relations of other databases")

    def relations(
        self,
        options: Mapping[str, str],  # noqa: ARG002 - PySpark has no use for them
        schema: str,
    ) -> tuple[str, ...]:
        """Refuse: PySpark has no connection to another database but that of a query."""
        raise _unsupported(f'listing the relations of schema "{schema}" of another database')

    def update(
        self,
        options: Mapping[str, str],
        statement: str,  # noqa: ARG002 - PySpark has no use for it
    ) -> int:
        """Refuse: PySpark has no connection to another database but that of a query."""
        raise _unsupported(f'changing "{options["dbtable"]}" of another database')

    def _frame(self, data: DataFrame) -> PublicFrame:
        return PublicFrame(self._groups, data)


def _structure(schema: str) -> StructType:
    return StructType.fromJson(json.loads(schema))


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what} by Spark's public interface is not supported", hint=_HINT)
