"""PostgreSQL's types for the columns of files, from Spark's schema of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.pg import types as pg_types
from rewrite.errors import UnsupportedError

_TYPES: Final[Mapping[str, str]] = {
    "string": "text",
    "void": "text",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
"""By the names of Spark's JSON schemas."""

_OIDS: Final[Mapping[str, int]] = {
    "string": pg_types.TEXT,
    "short": pg_types.INT2,
    "integer": pg_types.INT4,
    "long": pg_types.INT8,
    "float": pg_types.FLOAT4,
    "double": pg_types.FLOAT8,
    "boolean": pg_types.BOOL,
    "binary": pg_types.BYTEA,
    "date": pg_types.DATE,
    "timestamp": pg_types.TIMESTAMPTZ,
    "timestamp_ntz": pg_types.TIMESTAMP,
}

_KINDS: Final = {
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
}
"""What Spark's JSON schemas call types whose names in SQL are others."""

OTHER_TYPE: Final = "Leave the column out, or write it as text."
"""What can be done about columns of types that have no counterpart."""

_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_LONGEST_NAME: Final = 63
"""Bytes of a name, NAMEDATALEN of PostgreSQL less one."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of files."""

    name: str
    kind: Any
    """Its type as Spark's JSON schemas have it."""

    @property
    def is_array(self) -> bool:
        """Whether its values are arrays."""
        return isinstance(self.kind, dict) and self.kind["type"] == "array"

    @property
    def postgres_type(self) -> str:
        """Its type as SQL.

        Raises:
            UnsupportedError: 0A000 for structures, maps and what else has no counterpart.
        """
        found = _postgres_type(self.kind)
        if found is None:
            kind = self.kind["type"] if isinstance(self.kind, dict) else self.kind
            raise UnsupportedError(
                f'column "{self.name}" of type {kind} is not supported',
                hint=OTHER_TYPE,
            )
        return found

    @property
    def type_oid_and_typmod(self) -> tuple[int, int]:
        """Its type as the catalog has it; of a column that is no array."""
        decimal = _DECIMAL.fullmatch(self.kind)
        if decimal:
            return pg_types.NUMERIC, (int(decimal[1]) << 16 | int(decimal[2])) + 4
        return _OIDS[self.kind], -1


def columns_of(schema: Mapping[str, Any]) -> tuple[SourceColumn, ...]:
    """Return the columns of a JSON schema of Spark.

    Raises:
        GatewayError: 22P04 when there is none, 42622 for a name that PostgreSQL would cut off.
    """
    columns = tuple(SourceColumn(field["name"], field["type"]) for field in schema["fields"])
    if not columns:
        raise GatewayError("the files have no columns", sqlstate=codes.BAD_COPY_FILE_FORMAT)
    for column in columns:
        if len(column.name.encode()) > _LONGEST_NAME:
            raise GatewayError(
                f'identifier "{column.name}" is too long',
                sqlstate=codes.NAME_TOO_LONG,
                detail=f"Identifier must be less than {_LONGEST_NAME + 1} bytes.",
            )
    return columns


def _postgres_type(kind: Any) -> str | None:
    """Return a type as SQL, None where there is none.

    >>> _postgres_type("decimal(10,2)"), _postgres_type({"type": "array", "elementType": "long"})
    ('numeric(10,2)', 'bigint[]')
    """
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        return f"numeric({decimal[1]},{decimal[2]})" if decimal else _TYPES.get(kind)
    if kind["type"] != "array" or not isinstance(kind["elementType"], str):
        return None
    element = _postgres_type(kind["elementType"])
    return f"{element}[]" if element else None


def spark_kind(sql: str) -> Any:
    """Return a type as Spark's JSON schemas have it.

    >>> spark_kind("INT"), spark_kind("DECIMAL(10, 2)"), spark_kind("ARRAY<BIGINT>")["elementType"]
    ('integer', 'decimal(10,2)', 'long')
    """
    if sql.startswith("ARRAY<"):
        return {"type": "array", "elementType": spark_kind(sql[6:-1]), "containsNull": True}
    return _KINDS.get(sql, sql.lower().replace(" ", ""))
