"""Spark schemas as Arrow schemas: what the JVM writes and expects for each Spark type."""

import json
import re
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

_SIMPLE: Final = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


@lru_cache(maxsize=1024)
def arrow_schema(spark_json: str) -> pa.Schema:
    """Return the Arrow schema of Spark's JSON form of a schema.

    >>> arrow_schema('{"type":"struct","fields":[{"name":"o1","type":"long","nullable":false}]}')
    o1: int64 not null
    """
    fields = json.loads(spark_json)["fields"]
    return pa.schema([_field(field) for field in fields])


def _field(field: dict[str, Any]) -> pa.Field:
    return pa.field(field["name"], _type(field["type"]), nullable=field["nullable"])


def _type(kind: Any) -> pa.DataType:
    if isinstance(kind, dict):
        if kind["type"] == "array":
            return pa.list_(
                pa.field("element", _type(kind["elementType"]), nullable=kind["containsNull"])
            )
        return pa.struct([_field(field) for field in kind["fields"]])
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _SIMPLE[kind.partition(" ")[0]]
