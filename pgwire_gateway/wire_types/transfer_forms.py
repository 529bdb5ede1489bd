"""The forms in which the catalog hands out stored rows, and their Arrow storage types.

Booleans and numbers come as themselves, numeric and character types as text, bytea as hexadecimal
digits, dates as days and times as microseconds since 1970, intervals as three numbers, everything
else as PostgreSQL's text.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pgwire_gateway.wire_types import binary, input_text, type_oids
from pgwire_gateway.wire_types.registry import arrow_type

_NUMBERS_OF = {
    type_oids.DATE: pa.int32(),
    type_oids.TIMESTAMP: pa.int64(),
    type_oids.TIMESTAMPTZ: pa.int64(),
}
"""Types that are transferred as numbers but stored as something else."""


def transfer_type(type_oid: int, typmod: int) -> pa.DataType:
    """Return the Arrow type a field of CSV in transfer forms is read as."""
    number = _NUMBERS_OF.get(type_oid)
    if number is not None:
        return number
    stored = arrow_type(type_oid, typmod)
    read = pa.types.is_primitive(stored) or pa.types.is_decimal(stored)
    return stored if read else pa.string()


def from_transfer(values: pa.Array, type_oid: int, typmod: int) -> pa.Array:
    """Return a column read from CSV in its storage type."""
    stored = arrow_type(type_oid, typmod)
    if values.type == stored:
        return values
    if type_oid == type_oids.BYTEA:
        return binary.from_hexadecimal(values)
    if type_oid == type_oids.INTERVAL:
        return _intervals(values)
    if type_oid in _NUMBERS_OF:
        return values.cast(stored)
    return input_text.text_values(values.to_pylist(), type_oid, typmod)


def from_json(values: Sequence[Any], type_oid: int, typmod: int) -> pa.Array:
    """Return a column of values decoded from JSON in its storage type."""
    parse = input_text.parser(type_oid)
    # Only texts need reading: numbers and booleans are what they are, infinities come as text.
    plain = [parse(value) if isinstance(value, str) else value for value in values]
    stored = arrow_type(type_oid, typmod)
    if pa.types.is_string(stored):
        plain = [value if value is None else _shown(value) for value in plain]
    return input_text.typed(plain, stored)


def _shown(value: Any) -> str:
    """Return PostgreSQL's text of a value of a type that is stored as text."""
    return ("t" if value else "f") if isinstance(value, bool) else str(value)


def _intervals(values: pa.Array) -> pa.Array:
    parts = pc.split_pattern(values, " ")
    missing = pa.scalar(["0", "0", "0"])
    filled = pc.if_else(parts.is_valid(), parts, missing)
    months, days, microseconds = (pc.list_element(filled, place) for place in range(3))
    return pa.StructArray.from_arrays(
        [months.cast(pa.int32()), days.cast(pa.int32()), microseconds.cast(pa.int64())],
        fields=list(arrow_type(type_oids.INTERVAL)),
        mask=values.is_null(),
    )
