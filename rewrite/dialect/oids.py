"""OIDs of the PostgreSQL types the dialect knows."""

from typing import Final

from catalog.pg import types

BOOL: Final = types.BOOL
BYTEA: Final = types.BYTEA
CHAR: Final = types.INTERNAL_CHAR
NAME: Final = types.NAME
INT8: Final = types.INT8
INT2: Final = types.INT2
INT4: Final = types.INT4
REGPROC: Final = types.REGPROC
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
REGCLASS: Final = types.REGCLASS
REGTYPE: Final = types.REGTYPE
UUID: Final = types.UUID
JSONB: Final = types.JSONB

INTEGERS: Final = frozenset({INT2, INT4, INT8})
FLOATS: Final = frozenset({FLOAT4, FLOAT8})
FIRST_USER_OID: Final = 16384
"""FirstNormalObjectId of PostgreSQL's access/transam.h: from here on are users' objects."""

OBJECT_IDS: Final = frozenset(
    {
        *(OID, REGPROC, REGCLASS, REGTYPE, types.REGPROCEDURE, types.REGOPER, types.REGOPERATOR),
        *(types.REGNAMESPACE, types.REGROLE, types.REGCONFIG, types.REGDICTIONARY),
    }
)
STRINGS: Final = frozenset({TEXT, VARCHAR, BPCHAR, NAME, CHAR})

_OF_ARRAYS: Final = frozenset(
    {
        *(BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, FLOAT4, FLOAT8, BPCHAR, VARCHAR),
        *(DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID),
    }
)

ELEMENTS: Final[dict[int, int]] = {
    array: element for array, element in types.ELEMENTS.items() if element in _OF_ARRAYS
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
    types.MONEY: "money",
    REGCLASS: "regclass",
    types.RECORD: "types whose text depends on the session",
    UUID: "uuid",
    JSONB: "jsonb",
    types.JSONPATH: "jsonpath",
    types.JSON_ARRAY: "json[]",
    types.JSONB_ARRAY: "jsonb[]",
}


def type_name(type_oid: int) -> str:
    """Return the name of a type for messages."""
    if type_oid in ELEMENTS:
        return type_name(ELEMENTS[type_oid]) + "[]"
    return NAMES.get(type_oid, f"type {type_oid}")
