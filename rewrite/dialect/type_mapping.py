"""How values of each PostgreSQL type are represented in Spark, Arrow and Parquet."""

from typing import Final

from catalog.pg import types
from rewrite.dialect import oids
from rewrite.values import DecimalShape

MAX_PRECISION: Final = 38
"""Largest precision of Spark's DECIMAL."""

INTERVAL_TYPE: Final = "STRUCT<months: INT, days: INT, microseconds: BIGINT>"

_STORAGE: Final[dict[int, str]] = {
    oids.BOOL: "BOOLEAN",
    oids.INT2: "SMALLINT",
    oids.INT4: "INT",
    oids.INT8: "BIGINT",
    oids.FLOAT4: "FLOAT",
    oids.FLOAT8: "DOUBLE",
    oids.BYTEA: "BINARY",
    oids.DATE: "DATE",
    oids.TIME: "BIGINT",
    oids.TIMESTAMP: "TIMESTAMP_NTZ",
    oids.TIMESTAMPTZ: "TIMESTAMP",
    oids.INTERVAL: INTERVAL_TYPE,
    **dict.fromkeys(oids.OBJECT_IDS, "BIGINT"),
}


def numeric_shape(typmod: int) -> DecimalShape | None:
    """Return precision and scale of a type modifier whose values a Spark DECIMAL holds.

    >>> numeric_shape(((15 << 16) | 2) + 4)
    DecimalShape(precision=15, scale=2)
    """
    if typmod < 4:
        return None
    precision = ((typmod - 4) >> 16) & 0xFFFF
    scale = (((typmod - 4) & 0x7FF) ^ 1024) - 1024
    if precision > MAX_PRECISION or not 0 <= scale <= precision:
        return None
    return DecimalShape(precision, scale)


def character_length(typmod: int) -> int | None:
    """Return n of ``varchar(n)`` or ``character(n)``, None where there is no limit."""
    return typmod - 4 if typmod >= 4 else None


_OF_SESSIONS: Final = frozenset(
    {
        *(types.MONEY, types.MONEY_ARRAY, types.RECORD),
        *(types.DATERANGE, types.DATERANGE_ARRAY, types.DATEMULTIRANGE, types.DATEMULTIRANGE_ARRAY),
        *(types.TSRANGE, types.TSRANGE_ARRAY, types.TSMULTIRANGE, types.TSMULTIRANGE_ARRAY),
        *(types.TSTZRANGE, types.TSTZRANGE_ARRAY),
        *(types.TSTZMULTIRANGE, types.TSTZMULTIRANGE_ARRAY),
    }
)


def depends_on_session(type_oid: int) -> bool:
    """Return whether the text by which values would be carried is another one in other sessions.

    RECORD stands for columns of users' types of which the catalog says so.
    """
    return type_oid in _OF_SESSIONS


_TEXTS: Final = frozenset({oids.NUMERIC, oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.UUID})


def is_stored_as_it_is(type_oid: int) -> bool:
    """Return whether any value of a type can be stored, and is the same when it is read."""
    type_oid = oids.ELEMENTS.get(type_oid, type_oid)
    return type_oid in _STORAGE or type_oid in _TEXTS


def storage_type(type_oid: int, typmod: int) -> str:
    """Return the Spark DDL type of a stored column.

    Types without an entry are stored as PostgreSQL's own text: they can be carried and returned,
    and no operator is mapped for them.

    >>> storage_type(1700, ((15 << 16) | 2) + 4), storage_type(1700, -1), storage_type(1007, -1)
    ('DECIMAL(15, 2)', 'STRING', 'ARRAY<INT>')
    """
    if type_oid == oids.NUMERIC:
        shape = numeric_shape(typmod)
        return f"DECIMAL({shape.precision}, {shape.scale})" if shape else "STRING"
    if type_oid in oids.ELEMENTS:
        return f"ARRAY<{storage_type(oids.ELEMENTS[type_oid], typmod)}>"
    return _STORAGE.get(type_oid, "STRING")
