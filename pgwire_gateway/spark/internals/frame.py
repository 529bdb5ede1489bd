"""DataFrames of the JVM."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Self

from pgwire_gateway.spark.api import Delivery, Rows, Writing
from pgwire_gateway.spark.internals import streams
from pgwire_gateway.spark.internals.machine import Machine


class JvmFrame:
    """A Dataset of the JVM; see `pgwire_gateway.spark.api.Frame`."""

    __slots__ = ("_java", "_machine")

    def __init__(self, machine: Machine, java: Any) -> None:
        self._machine = machine
        self._java = java

    def schema(self) -> str:
        """Return the columns in Spark's JSON."""
        return str(self._java.schema().json())

    def select(self, items: Sequence[str]) -> Self:
        """Return expressions in SQL of each row."""
        return self._of(self._java.selectExpr(self._machine.strings(items)))

    def where(self, condition: str) -> Self:
        """Return the rows that a condition in SQL is true of."""
        return self._of(self._java.filter(condition))

    def among(self, column: str, values: Collection[object]) -> Self:
        """Return the rows that have one of some values in a column."""
        jvm = self._machine.jvm
        listed = jvm.java.util.ArrayList()
        for value in values:
            listed.add(value)
        condition = jvm.org.apache.spark.sql.functions.col(column).isInCollection(listed)
        return self._of(self._java.filter(condition))

    def union(self, other: Self) -> Self:
        """Return the rows of both."""
        return self._of(self._java.union(other._java))

    def distinct(self) -> Self:
        """Return each row once."""
        return self._of(self._java.distinct())

    def limit(self, rows: int) -> Self:
        """Return so many of the rows at most."""
        return self._of(self._java.limit(rows))

    def coalesce(self, parts: int) -> Self:
        """Return the same rows in so many parts at most."""
        return self._of(self._java.coalesce(parts))

    def by_range(self, parts: int, columns: Sequence[str]) -> Self:
        """Return the same rows in so many parts, each with a range of the values of columns."""
        return self._of(self._java.repartitionByRange(parts, self._machine.columns(columns)))

    def sorted_parts(self, columns: Sequence[str]) -> Self:
        """Return the same rows, each part sorted by columns."""
        return self._of(self._java.sortWithinPartitions(self._machine.columns(columns)))

    def parts(self) -> int:
        """Return in how many parts the rows are computed."""
        return int(self._java.queryExecution().toRdd().getNumPartitions())

    def count(self) -> int:
        """Return how many rows there are."""
        return int(self._java.count())

    def first(self) -> tuple[object, ...]:
        """Return the values of the first row."""
        row = self._java.first()
        return tuple(row.get(number) for number in range(row.size()))

    def rows(
        self,
        delivery: Delivery,
        *,
        check: Callable[[], None] | None = None,
        enter: Callable[[], None] | None = None,
    ) -> Rows:
        """Compute the rows, or begin with it."""
        return streams.rows(self._machine, self._java, delivery, check, enter)

    def write(self, writing: Writing) -> None:
        """Compute the rows and write them."""
        writer = self._java.write().format(writing.form)
        if writing.appends:
            writer.mode("append")
        for name, value in writing.options.items():
            writer.option(name, value)
        if writing.partitions:
            writer.partitionBy(self._machine.strings(writing.partitions))
        writer.save(*(() if writing.path is None else (writing.path,)))

    def insert_into(self, table: str) -> None:
        """Compute the rows and append them to a table of Spark's catalogs."""
        self._java.write().mode("append").insertInto(table)

    def register(self, name: str) -> None:
        """Be ``global_temp.name`` for queries."""
        self._java.createOrReplaceGlobalTempView(name)

    def _of(self, java: Any) -> Self:
        return type(self)(self._machine, java)
