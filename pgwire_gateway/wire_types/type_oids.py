"""OIDs of the built-in types that have an encoding of their own."""

from types import MappingProxyType
from typing import Final

BOOL: Final = 16
BYTEA: Final = 17
CHAR: Final = 18
NAME: Final = 19
INT8: Final = 20
INT2: Final = 21
INT4: Final = 23
TEXT: Final = 25
OID: Final = 26
JSON: Final = 114
FLOAT4: Final = 700
FLOAT8: Final = 701
UNKNOWN: Final = 705
BPCHAR: Final = 1042
VARCHAR: Final = 1043
DATE: Final = 1082
TIME: Final = 1083
TIMESTAMP: Final = 1114
TIMESTAMPTZ: Final = 1184
INTERVAL: Final = 1186
NUMERIC: Final = 1700
UUID: Final = 2950
JSONB: Final = 3802
OBJECT_ALIASES: Final = frozenset({24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096})
"""regproc, regclass and their kin: stored as numbers, shown as names only PostgreSQL knows."""

ELEMENT_OF_ARRAY = MappingProxyType(
    {
        1000: BOOL,
        1001: BYTEA,
        1002: CHAR,
        1003: NAME,
        1005: INT2,
        1007: INT4,
        1009: TEXT,
        1014: BPCHAR,
        1015: VARCHAR,
        1016: INT8,
        1021: FLOAT4,
        1022: FLOAT8,
        1028: OID,
        1115: TIMESTAMP,
        1182: DATE,
        1183: TIME,
        1185: TIMESTAMPTZ,
        1187: INTERVAL,
        1231: NUMERIC,
        2951: UUID,
    }
)
"""Element type by array type."""
