"""What the row groups of a data file can hold, by the statistics of one column."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from pgwire_gateway.spark.sorting import leaf
from pgwire_gateway.wire_types.plain_keys import bounds


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group and the bounds of a column in it, as plain values; None when unknown."""

    number: int
    smallest: Any
    largest: Any

    def may_have(self, value: Any) -> bool:
        """Return whether a row of the group may have a value in the column."""
        return self.smallest is None or self.smallest <= value <= self.largest


def row_groups(footer: pq.FileMetaData, name: str) -> Iterator[RowGroup]:
    """Yield the row groups of a file; none where it has no such column."""
    index = leaf(footer, name)
    if index is None:
        return
    for number in range(footer.num_row_groups):
        known = bounds(footer.row_group(number).column(index).statistics)
        yield RowGroup(number, *(known or (None, None)))
