"""Tables that are to be divided into partitions, as a client's session tells the bookkeeping."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from catalog.bookkeeping import calls as bookkeeping
from catalog.divisions import TYPES, Transform
from catalog.errors import GatewayError
from catalog.extensions.partition_fields import PartitionField
from catalog.pg.sqlstate import FEATURE_NOT_SUPPORTED, UNDEFINED_COLUMN
from catalog.pg.types import OID
from catalog.session.connections import CatalogSession

_COLUMNS = """
SELECT a.attname, a.attnum::pg_catalog.text, a.atttypid::pg_catalog.text,
pg_catalog.format_type(a.atttypid, a.atttypmod), (c.collisdeterministic IS FALSE)::pg_catalog.text
FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
"""


def divide(session: CatalogSession, relid: int, fields: Sequence[PartitionField]) -> None:
    """Let the base of a table be divided from now on; without fields, not any more.

    Raises:
        GatewayError: 42703 for a column that is missing, 0A000 for types and tables that cannot be
            divided, 42501 for others than the owner.
    """
    columns = _columns(session, relid)
    told = []
    for field in fields:
        column = columns.get(field.column)
        if column is None:
            raise GatewayError(
                f'column "{field.column}" named in {field.clause} does not exist',
                sqlstate=UNDEFINED_COLUMN,
                position=field.position,
            )
        if column.type_oid not in TYPES[field.transform] or column.is_loose:
            identity = field.transform is Transform.IDENTITY
            transform = "" if identity else f"{field.transform.value} of "
            raise GatewayError(
                f'{field.clause} {transform}column "{field.column}" of type'
                f" {column.type_name} is not supported",
                sqlstate=FEATURE_NOT_SUPPORTED,
                position=field.position,
            )
        told.append([field.transform.value, column.attnum, column.type_oid, field.argument])
    session.call(bookkeeping.SET_DIVISION, str(relid).encode(), json.dumps(told).encode())


@dataclass(frozen=True, slots=True)
class _Column:
    attnum: int
    type_oid: int
    type_name: str
    is_loose: bool
    """Whether different texts are equal by its collation."""


def _columns(session: CatalogSession, relid: int) -> dict[str, _Column]:
    found = {}
    asked = [str(relid).encode()]
    for row in session.execute_parameters(_COLUMNS, asked, parameter_oids=[OID], is_own=True).rows:
        name, attnum, type_oid, type_name, loose = ((value or b"").decode() for value in row)
        found[name] = _Column(int(attnum), int(type_oid), type_name, loose == "true")
    return found
