"""CLUSTERED BY (column) [SORTED BY (column, …)] INTO n BUCKETS of CREATE TABLE, as Spark has it.

The buckets are partitions: those of bucket(n, column) in PARTITIONED BY. Files are sorted by the
key of their table whatever is said, so SORTED BY is a claim that is looked at when there is a key.
"""

from dataclasses import dataclass
from typing import Final

from catalog.divisions import Transform
from catalog.errors import GatewayError
from catalog.extensions import partition_fields
from catalog.extensions.grammar import Tokens
from catalog.extensions.partition_fields import PartitionField
from catalog.pg.sqlstate import FEATURE_NOT_SUPPORTED

CLAUSE: Final = "CLUSTERED BY"


@dataclass(frozen=True, slots=True)
class SortedColumns:
    """What SORTED BY lists, all of it ascending."""

    columns: tuple[str, ...]
    position: int
    """Where the clause stands in the statement, in characters from 1."""


@dataclass(frozen=True, slots=True)
class BucketClause:
    """One clause."""

    bucket: PartitionField
    sorted_by: SortedColumns | None = None


def read(tokens: Tokens) -> BucketClause:
    """Take a clause.

    Raises:
        GatewayError: 42601 for what is wrong with it, 0A000 for several columns and descending
            order, 22023 for a number of buckets that is out of range.
    """
    place = tokens.place
    tokens.expect("clustered", "by")
    columns = tokens.names()
    if len(columns) > 1:
        raise GatewayError(
            f"{CLAUSE} of several columns is not supported",
            sqlstate=FEATURE_NOT_SUPPORTED,
            hint="PARTITIONED BY (bucket(n, column), bucket(m, other)) divides rows by each.",
            position=place,
        )
    sorted_by = _sorted_columns(tokens) if tokens.sees("sorted", "by") else None
    tokens.expect("into")
    number = partition_fields.argument(tokens, Transform.BUCKET)
    tokens.expect("buckets")
    return BucketClause(
        PartitionField(Transform.BUCKET, columns[0], number, place, CLAUSE), sorted_by
    )


def _sorted_columns(tokens: Tokens) -> SortedColumns:
    place = tokens.place
    tokens.expect("sorted", "by", "(")
    columns = []
    while True:
        columns.append(tokens.name())
        descending = tokens.place
        if tokens.accept("desc"):
            raise GatewayError(
                "SORTED BY in descending order is not supported",
                sqlstate=FEATURE_NOT_SUPPORTED,
                hint="Rows are sorted by the primary key, in ascending order.",
                position=descending,
            )
        tokens.accept("asc")
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return SortedColumns(tuple(columns), place)
