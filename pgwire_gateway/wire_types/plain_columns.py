"""Results as columns of plain Parquet files, in types that any reader of them knows."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.registry import arrow_type
from pgwire_gateway.wire_types.storage import conform
from rewrite.results import OutputColumn

_TIME: Final = pa.time64("us")
_MIDNIGHT: Final = 86_400_000_000
"""24:00:00, a time of day that only PostgreSQL has."""


def plain_schema(columns: Sequence[OutputColumn]) -> pa.Schema:
    """Return the schema of the files: ``time`` as a time of day, all else as it is stored."""
    return pa.schema([(column.name, _plain_type(column)) for column in columns])


def plain_batch(batch: pa.RecordBatch, columns: Sequence[OutputColumn]) -> pa.RecordBatch:
    """Return rows of a result in that schema.

    Raises:
        GatewayError: 22008 for a date or time that only PostgreSQL has, such as infinity.
    """
    arrays = [_plain(batch.column(column.column), column) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=plain_schema(columns))


def _plain_type(column: OutputColumn) -> pa.DataType:
    if column.type_oid == type_oids.TIME:
        return _TIME
    return arrow_type(column.type_oid, column.typmod)


def _plain(values: pa.Array, column: OutputColumn) -> pa.Array:
    stored = conform(values, column.type_oid, column.typmod)
    flat = stored.flatten() if pa.types.is_list(stored.type) else stored
    kind = flat.type
    if pa.types.is_date32(kind):
        _require_within(flat.view(pa.int32()), np.iinfo(np.int32), column)
    elif pa.types.is_timestamp(kind):
        _require_within(flat.view(pa.int64()), np.iinfo(np.int64), column)
    elif column.type_oid == type_oids.TIME:
        if pc.any(pc.equal(stored, _MIDNIGHT)).as_py():
            raise _beyond(column)
        return stored.cast(_TIME)
    return stored.cast(_plain_type(column))


def _require_within(numbers: pa.Array, limits: Any, column: OutputColumn) -> None:
    """Refuse the numbers that stand for infinity."""
    found = pc.min_max(numbers).as_py()
    if found["min"] == limits.min or found["max"] == limits.max:
        raise _beyond(column)


def _beyond(column: OutputColumn) -> GatewayError:
    return GatewayError(
        f'column "{column.name}" has a value that Parquet cannot hold',
        sqlstate=codes.DATETIME_FIELD_OVERFLOW,
        detail="It is infinity, or the time 24:00:00.",
    )
