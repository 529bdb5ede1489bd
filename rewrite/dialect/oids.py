"""OIDs of the PostgreSQL types the dialect knows (``pg_type.dat``)."""

from typing import Final

BOOL: Final = 16
BYTEA: Final = 17
CHAR: Final = 18
NAME: Final = 19
INT8: Final = 20
INT2: Final = 21
INT4: Final = 23
REGPROC: Final = 24
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
REGCLASS: Final = 2205
REGTYPE: Final = 2206
UUID: Final = 2950
JSONB: Final = 3802

INTEGERS: Final = frozenset({INT2, INT4, INT8})
FLOATS: Final = frozenset({FLOAT4, FLOAT8})
OBJECT_IDS: Final = frozenset(
    {OID, REGPROC, REGCLASS, REGTYPE, 2202, 2203, 2204, 4089, 4096, 3734, 3769}
)
STRINGS: Final = frozenset({TEXT, VARCHAR, BPCHAR, NAME, CHAR})

ELEMENTS: Final[dict[int, int]] = {
    1000: BOOL,
    1001: BYTEA,
    1002: CHAR,
    1003: NAME,
    1016: INT8,
    1005: INT2,
    1007: INT4,
    1009: TEXT,
    1028: OID,
    1021: FLOAT4,
    1022: FLOAT8,
    1014: BPCHAR,
    1015: VARCHAR,
    1182: DATE,
    1183: TIME,
    1115: TIMESTAMP,
    1185: TIMESTAMPTZ,
    1187: INTERVAL,
    1231: NUMERIC,
    2951: UUID,
}
"""Array type → type of its elements."""

# Collations whose order is that of the bytes in UTF-8: default (see below), C, POSIX, ucs_basic,
# pg_c_utf8. The catalog's databases are created with C.UTF-8, so "default" is one of them.
DEFAULT_COLLATION: Final = 100
PG_C_UTF8: Final = 811
BYTEWISE_COLLATIONS: Final = frozenset({0, DEFAULT_COLLATION, 950, 951, 962, PG_C_UTF8})

NAMES: Final[dict[int, str]] = {
    BOOL: "boolean",
    BYTEA: "bytea",
    CHAR: '"char"',
    NAME: "name",
    INT8: "bigint",
    INT2: "smallint",
    INT4: "integer",
    TEXT: "text",
    OID: "oid",
    JSON: "json",
    FLOAT4: "real",
    FLOAT8: "double precision",
    BPCHAR: "character",
    VARCHAR: "character varying",
    DATE: "date",
    TIME: "time without time zone",
    TIMESTAMP: "timestamp without time zone",
    TIMESTAMPTZ: "timestamp with time zone",
    INTERVAL: "interval",
    NUMERIC: "numeric",
    REGCLASS: "regclass",
    UUID: "uuid",
    JSONB: "jsonb",
    199: "json[]",
    3807: "jsonb[]",
}


def type_name(type_oid: int) -> str:
    """Return the name of a type for messages."""
    if type_oid in ELEMENTS:
        return type_name(ELEMENTS[type_oid]) + "[]"
    return NAMES.get(type_oid, f"type {type_oid}")
