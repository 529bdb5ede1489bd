"""Arrow columns as Spark delivers them to the types values are stored in."""

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.registry import arrow_type
from pgwire_gateway.wire_types.type_oids import ELEMENT_OF_ARRAY, NUMERIC


def conform(values: pa.Array, type_oid: int, typmod: int) -> pa.Array:
    """Return the values in the storage type of a PostgreSQL type, without copy where it is that.

    Raises:
        GatewayError: 22003 when a value does not fit, XX000 when the column is of another kind.
    """
    expected = arrow_type(type_oid, typmod)
    if _same(values.type, expected):
        return values
    if type_oid == NUMERIC or ELEMENT_OF_ARRAY.get(type_oid) == NUMERIC:
        if _is_numeric(values.type):
            return values
        expected = pa.list_(pa.string()) if pa.types.is_list(expected) else pa.string()
        # Numerics are encoded from text, and whole numbers read the same in it.
        castable = pa.types.is_integer(values.type) or _castable(values.type, expected)
    else:
        castable = _castable(values.type, expected)
    if not castable:
        raise GatewayError(
            f"cannot return a column of type {values.type} as type with OID {type_oid}",
            sqlstate=codes.INTERNAL_ERROR,
        )
    try:
        return values.cast(expected)
    except pa.ArrowInvalid as error:
        raise GatewayError(
            "value out of range",
            sqlstate=codes.NUMERIC_VALUE_OUT_OF_RANGE,
            detail=str(error),
        ) from error


def _same(kind: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(expected):
        return bool(kind.unit == expected.unit)
    return bool(kind == expected)


def _is_numeric(kind: pa.DataType) -> bool:
    """Tell whether a numeric, or an array of them, can be encoded as it is."""
    if pa.types.is_list(kind):
        return _is_numeric(kind.value_type)
    return bool(pa.types.is_decimal(kind) or pa.types.is_string(kind))


def _castable(kind: pa.DataType, expected: pa.DataType) -> bool:
    """Tell whether a cast keeps the meaning; anything to text would print Arrow's own forms."""
    if pa.types.is_null(kind) or pa.types.is_dictionary(kind):
        return True
    if pa.types.is_list(expected):
        lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return lists and _castable(kind.value_type, expected.value_type)
    if pa.types.is_struct(expected):
        # Fields may differ in whether they can be NULL.
        given = {(field.name, field.type) for field in kind} if pa.types.is_struct(kind) else set()
        return given == {(field.name, field.type) for field in expected}
    groups = (_is_text, _is_bytes, _is_number, pa.types.is_timestamp, pa.types.is_date)
    return kind == expected or any(group(kind) and group(expected) for group in groups)


def _is_text(kind: pa.DataType) -> bool:
    return kind in {pa.string(), pa.large_string(), pa.string_view()}


def _is_bytes(kind: pa.DataType) -> bool:
    return kind in {pa.binary(), pa.large_binary(), pa.binary_view()}


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
