"""The columns of row versions: names, types and modifiers, wherever they lie.

A row version has a column for each column of its table, and then what is named here. That is so in
tails, in data files, in what compiled queries read, in rows held in memory, and in the journals
that clients see.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from catalog.pg import types

VERSION: Final = "version_number"
"""When the row version was written."""
SUBSEQUENT: Final = "subsequent_version_number"
"""When the next version was written, or the row ended; see :mod:`.order`."""
IDENTITY: Final = "row_identity"
"""Hidden identity of the rows of a table without key."""

SUFFIX: Final = "_journal"
"""``t_journal`` is the journal of ``t``."""

TRUNCATION: Final = -(1 << 63)
"""What stands for the identity in the row of a tail that marks a truncation: it ends all rows
before it. Readers of journals never see it, nor segments."""

NO_MODIFIER: Final = -1


@dataclass(frozen=True, slots=True)
class HiddenColumn:
    """A column that row versions have besides those of their table."""

    name: str
    type_oid: int
    typmod: int = NO_MODIFIER


VERSION_COLUMNS: Final = (
    HiddenColumn(VERSION, types.TIMESTAMPTZ),
    HiddenColumn(SUBSEQUENT, types.TIMESTAMPTZ),
)
IDENTITY_COLUMN: Final = HiddenColumn(IDENTITY, types.INT8)

HIDDEN_COLUMNS: Final = (*VERSION_COLUMNS, IDENTITY_COLUMN)
"""In the order in which they follow the columns of a table without key."""

RESERVED: Final = frozenset(column.name for column in HIDDEN_COLUMNS)
"""Names that no column has in data files but these."""

COUNTED_TYPE: Final = types.INT8
"""Type of version numbers in journals of others that count them."""


def hidden_columns(*, keyed: bool) -> tuple[HiddenColumn, ...]:
    """Return the hidden columns of tables with a key, or without."""
    return VERSION_COLUMNS if keyed else HIDDEN_COLUMNS


def hidden_names(*, keyed: bool) -> tuple[str, ...]:
    """Return the names of the hidden columns of tables with a key, or without.

    >>> hidden_names(keyed=True)
    ('version_number', 'subsequent_version_number')
    """
    return tuple(column.name for column in hidden_columns(keyed=keyed))


def column_name(attnum: int) -> str:
    """Return how a table's column is named wherever its current name does not count.

    >>> column_name(3)
    'c3'
    """
    return f"c{attnum}"


def column_names(attnums: Iterable[int]) -> list[str]:
    """Return the names of several columns."""
    return [column_name(attnum) for attnum in attnums]


def identity_names(key: Sequence[int]) -> list[str]:
    """Return the columns that tell rows apart: those of the key, or the hidden identity.

    >>> identity_names((2, 1)), identity_names(())
    (['c2', 'c1'], ['row_identity'])
    """
    return column_names(key) or [IDENTITY]


def journal_name(table: str) -> str:
    """Return the name of the journal of a table."""
    return table + SUFFIX
