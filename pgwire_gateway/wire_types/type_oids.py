"""OIDs of the built-in types that have an encoding of their own."""

from types import MappingProxyType
from typing import Final

from catalog.pg import types

BOOL: Final = types.BOOL
BYTEA: Final = types.BYTEA
CHAR: Final = types.INTERNAL_CHAR
NAME: Final = types.NAME
INT8: Final = types.INT8
INT2: Final = types.INT2
INT4: Final = types.INT4
TEXT: Final = types.TEXT
OID: Final = types.OID
JSON: Final = types.JSON
FLOAT4: Final = types.FLOAT4
FLOAT8: Final = types.FLOAT8
UNKNOWN: Final = types.UNKNOWN
BPCHAR: Final = types.BPCHAR
VARCHAR: Final = types.VARCHAR
DATE: Final = types.DATE
TIME: Final = types.TIME
TIMESTAMP: Final = types.TIMESTAMP
TIMESTAMPTZ: Final = types.TIMESTAMPTZ
INTERVAL: Final = types.INTERVAL
NUMERIC: Final = types.NUMERIC
UUID: Final = types.UUID
JSONB: Final = types.JSONB
OBJECT_ALIASES: Final = frozenset(
    {
        *(types.REGPROC, types.REGPROCEDURE, types.REGOPER, types.REGOPERATOR, types.REGCLASS),
        *(types.REGTYPE, types.REGCONFIG, types.REGDICTIONARY, types.REGNAMESPACE, types.REGROLE),
    }
)
"""regproc, regclass and their kin: stored as numbers, shown as names only PostgreSQL knows."""

_SHAPES: Final = frozenset(
    {types.POINT, types.LSEG, types.PATH, types.BOX, types.POLYGON, types.LINE, types.CIRCLE}
)

GEOMETRIC: Final = frozenset(
    {*_SHAPES, *(array for array, element in types.ELEMENTS.items() if element in _SHAPES)}
)
"""point, circle and their kin, and their arrays: carried as text in which numbers are written."""

_OF_ARRAYS: Final = frozenset(
    {
        *(BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, FLOAT4, FLOAT8, BPCHAR, VARCHAR),
        *(DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID),
    }
)

ELEMENT_OF_ARRAY = MappingProxyType(
    {array: element for array, element in types.ELEMENTS.items() if element in _OF_ARRAYS}
)
"""Element type by array type."""
