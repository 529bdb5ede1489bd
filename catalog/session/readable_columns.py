"""Which columns of a table a role may read, whose values errors may show to it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from catalog.pg.types import OID
from catalog.session.connections import CatalogSession

_READABLE: Final = (
    "SELECT 0 WHERE pg_catalog.has_table_privilege($1, 'SELECT')"
    " UNION ALL SELECT a.attnum FROM pg_catalog.pg_attribute a WHERE a.attrelid = $1"
    " AND a.attnum > 0 AND NOT a.attisdropped"
    " AND pg_catalog.has_column_privilege($1, a.attnum, 'SELECT')"
)
"""Attribute numbers; 0 stands for a right on the table."""


@dataclass(frozen=True, slots=True)
class ReadableColumns:
    """The columns of a table that a role may read."""

    columns: frozenset[int]
    """Attribute numbers; 0 among them where the role may read the table as a whole."""

    @property
    def is_whole(self) -> bool:
        """Whether the role may read the table as a whole."""
        return 0 in self.columns

    def holds(self, key: Collection[int]) -> bool:
        """Tell whether values of some columns may be shown together."""
        return self.is_whole or self.columns.issuperset(key)


def readable_columns(session: CatalogSession, relid: int) -> ReadableColumns:
    """Return the columns of a table that the session's role may read now."""
    rows = session.execute_parameters(
        _READABLE, [b"%d" % relid], parameter_oids=[OID], is_own=True
    ).rows
    return ReadableColumns(frozenset(int(row[0] or b"0") for row in rows))
