"""DataFrames of PySpark."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pgwire_gateway.spark.api import Delivery, Rows, Writing
from pgwire_gateway.spark.arrow_schemas import arrow_schema
from pgwire_gateway.spark.public.running import Groups


class PublicRows:
    """A result that is at hand."""

    is_complete = True

    def __init__(self, rows: pa.Table, batch_rows: int) -> None:
        self.schema = rows.schema
        self._rows = rows
        self._batch_rows = batch_rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._rows.to_batches(self._batch_rows))

    def close(self) -> None:
        """Do nothing: no job runs."""


class PublicFrame:
    """A DataFrame of PySpark; see `pgwire_gateway.spark.api.Frame`."""

    __slots__ = ("_data", "_groups")

    def __init__(self, groups: Groups, data: DataFrame) -> None:
        self._groups = groups
        self._data = data

    def schema(self) -> str:
        """Return the columns in Spark's JSON."""
        return str(self._data.schema.json())

    def select(self, items: Sequence[str]) -> Self:
        """Return expressions in SQL of each row."""
        return self._of(self._data.selectExpr(*items))

    def where(self, condition: str) -> Self:
        """Return the rows that a condition in SQL is true of."""
        return self._of(self._data.filter(condition))

    def among(self, column: str, values: Collection[object]) -> Self:
        """Return the rows that have one of some values in a column."""
        return self._of(self._data.filter(f.col(column).isin(list(values))))

    def union(self, other: Self) -> Self:
        """Return the rows of both."""
        return self._of(self._data.union(other._data))

    def distinct(self) -> Self:
        """Return each row once."""
        return self._of(self._data.distinct())

    def limit(self, rows: int) -> Self:
        """Return so many of the rows at most."""
        return self._of(self._data.limit(rows))

    def coalesce(self, parts: int) -> Self:
        """Return the same rows in so many parts at most."""
        return self._of(self._data.coalesce(parts))

    def by_range(self, parts: int, columns: Sequence[str]) -> Self:
        """Return the same rows in so many parts, each with a range of the values of columns."""
        return self._of(self._data.repartitionByRange(parts, *map(f.col, columns)))

    def sorted_parts(self, columns: Sequence[str]) -> Self:
        """Return the same rows, each part sorted by columns."""
        return self._of(self._data.sortWithinPartitions(*map(f.col, columns)))

    def parts(self) -> int:
        """Return in how many parts the rows are computed."""
        self._groups.check()
        return int(self._data.rdd.getNumPartitions())

    def count(self) -> int:
        """Return how many rows there are."""
        self._groups.check()
        return int(self._data.count())

    def first(self) -> tuple[object, ...]:
        """Return the values of the first row."""
        self._groups.check()
        row = self._data.first()
        if row is None:
            raise IndexError("no row")
        return tuple(row)

    def rows(
        self,
        delivery: Delivery,
        *,
        check: Callable[[], None] | None = None,
        enter: Callable[[], None] | None = None,  # noqa: ARG002 - nothing is computed later
    ) -> Rows:
        """Compute the rows, all of them."""
        data = self._data if delivery.most_rows is None else self._data.limit(delivery.most_rows)
        if check is not None:
            check()
        rows = self._groups.planned(data.toArrow)
        return PublicRows(rows.cast(arrow_schema(self.schema())), delivery.batch_rows)

    def write(self, writing: Writing) -> None:
        """Compute the rows and write them."""
        writer = self._data.write.format(writing.form).options(**writing.options)
        if writing.appends:
            writer = writer.mode("append")
        if writing.partitions:
            writer = writer.partitionBy(*writing.partitions)
        self._groups.check()
        writer.save(writing.path)

    def insert_into(self, table: str) -> None:
        """Compute the rows and append them to a table of Spark's catalogs."""
        self._groups.check()
        self._data.write.mode("append").insertInto(table)

    def register(self, name: str) -> None:
        """Be ``global_temp.name`` for queries."""
        self._data.createOrReplaceGlobalTempView(name)

    def _of(self, data: DataFrame) -> Self:
        return type(self)(self._groups, data)
