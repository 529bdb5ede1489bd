"""An UPDATE that gives many rows other keys: what goes, what comes, and whose keys are taken.

All keys are held in memory; the rows are not. Equal keys have to have one form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.journal import layout
from catalog.model import JournalTable
from pgwire_gateway.wire_types.row_differences import occur
from pgwire_gateway.wire_types.tails import plain_identity
from pgwire_gateway.wire_types.versions import storage_schema

_OLD: Final = "k"
_NEW: Final = "n"
_PLACE: Final = "place"


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """The keys of the rows of one statement, in their order, in storage layout."""

    old: pa.Table
    new: pa.Table

    @staticmethod
    def applies(table: JournalTable) -> bool:
        """Return whether keys of a table are told apart by their stored form."""
        return bool(table.key) and plain_identity(table) is not None

    @staticmethod
    def of(table: JournalTable, batches: Sequence[pa.RecordBatch]) -> "ChangedKeys":
        """Return the keys of batches that have the columns `columns` names."""
        stored = storage_schema(table)
        schema = pa.schema([stored.field(name) for name in layout.column_names(table.key)])
        old, new = (
            pa.Table.from_batches(
                [
                    pa.RecordBatch.from_arrays(
                        [batch.column(state + f.name[1:]).cast(f.type) for f in schema],
                        schema=schema,
                    )
                    for batch in batches
                ],
                schema,
            ).combine_chunks()
            for state in (_OLD, _NEW)
        )
        return ChangedKeys(old, new)

    @staticmethod
    def columns(table: JournalTable) -> list[str]:
        """Return the columns of changed rows that are their keys, before and afterwards."""
        return [f"{state}{attnum}" for state in (_OLD, _NEW) for attnum in table.key]

    @property
    def comes(self) -> pa.Array:
        """Tell of each row whether it gets a key that none of the rows had."""
        return pc.invert(occur(self.new, self.old))

    @property
    def goes(self) -> pa.Array:
        """Tell of each row whether none of the rows gets its key."""
        return pc.invert(occur(self.old, self.new))

    def shared(self) -> int | None:
        """Return the place of a row whose new key is that of another one; None without any."""
        return shared(self.new)

    def circled(self) -> int | None:
        """Return the place of a row of a circle that give each other their keys; None without any.

        Whichever is the first gets the key of one that still has it. No key is shared.
        """
        count = self.new.num_rows
        before = np.full(count + 1, count)
        pairs = _placed(self.new, _PLACE).join(
            _placed(self.old, f"{_PLACE}_before"), self.new.column_names, join_type="inner"
        )
        before[pairs.column(_PLACE).to_numpy()] = pairs.column(f"{_PLACE}_before").to_numpy()
        kept = before[:count] == np.arange(count)
        before[:count][kept] = count
        # Each turn goes twice as far; who has not come to an end then goes round.
        for _ in range(count.bit_length()):
            before = before[before]
        circles = np.flatnonzero(before[:count] < count)
        return int(circles[0]) if len(circles) else None


def shared(keys: pa.Table) -> int | None:
    """Return the place of a key that is there before; None without any."""
    placed = _placed(keys, _PLACE)
    counted = placed.group_by(keys.column_names).aggregate([(_PLACE, "count"), (_PLACE, "max")])
    several = counted.filter(pc.greater(counted.column(f"{_PLACE}_count"), 1))
    return int(pc.min(several.column(f"{_PLACE}_max")).as_py()) if several.num_rows else None


def _placed(keys: pa.Table, name: str) -> pa.Table:
    return keys.append_column(name, pa.array(np.arange(keys.num_rows)))
