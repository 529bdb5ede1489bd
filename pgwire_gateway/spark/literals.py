"""Values PostgreSQL gives as text, as Spark SQL expressions of their storage types."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pgwire_gateway.wire_types import input_text
from rewrite.dialect import oids
from rewrite.dialect.type_mapping import storage_type

_TIMESTAMP: Final = storage_type(oids.TIMESTAMP, -1)
_TIMESTAMPTZ: Final = storage_type(oids.TIMESTAMPTZ, -1)


def storage_literal(text: str | None, type_oid: int, typmod: int) -> str:
    """Return the SQL expression of a value in its storage type.

    Raises:
        GatewayError: 0A000 for an array of several dimensions, or not counted from 1.

    >>> storage_literal("t", 16, -1), storage_literal("01:00:00", 1083, -1)
    ("CAST('true' AS BOOLEAN)", 'CAST(3600000000 AS BIGINT)')
    >>> storage_literal("0044-03-15 BC", 1082, -1)
    'DATE_FROM_UNIX_DATE(-735160)'
    >>> storage_literal('{"a,b",NULL}', 1009, -1)
    "CAST(ARRAY(CAST('a,b' AS STRING), CAST(NULL AS STRING)) AS ARRAY<STRING>)"
    """
    kind = storage_type(type_oid, typmod)
    if text is None:
        return f"CAST(NULL AS {kind})"
    if type_oid in oids.ELEMENTS:
        element = oids.ELEMENTS[type_oid]
        items = input_text.array_items(text)
        values = ", ".join(storage_literal(item, element, typmod) for item in items)
        return f"CAST(ARRAY({values}) AS {kind})"
    return _scalar(text, type_oid, kind)


def _scalar(text: str, type_oid: int, kind: str) -> str:
    spelled = _SPELLED.get(type_oid)
    if spelled is None:
        return f"CAST({_quoted(text)} AS {kind})"
    return spelled(input_text.parser(type_oid)(text))


def _interval(fields: Mapping[str, int]) -> str:
    months, days, microseconds = fields["months"], fields["days"], fields["microseconds"]
    return (
        f"named_struct('months', CAST({months} AS INT), 'days', CAST({days} AS INT), "
        f"'microseconds', CAST({microseconds} AS BIGINT))"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SPELLED: Final[Mapping[int, Callable[[Any], str]]] = {
    oids.BOOL: lambda value: f"CAST('{'true' if value else 'false'}' AS BOOLEAN)",
    oids.BYTEA: lambda value: f"X'{value.hex()}'",
    oids.DATE: lambda days: f"DATE_FROM_UNIX_DATE({days})",
    oids.TIME: lambda microseconds: f"CAST({microseconds} AS BIGINT)",
    oids.TIMESTAMP: lambda moment: f"CAST(TIMESTAMP_MICROS({moment}L) AS {_TIMESTAMP})",
    oids.TIMESTAMPTZ: lambda moment: f"CAST(TIMESTAMP_MICROS({moment}L) AS {_TIMESTAMPTZ})",
    oids.INTERVAL: _interval,
}
"""Expressions of values, as they are read, whose text Spark reads in its own way."""
