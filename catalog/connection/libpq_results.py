"""What libpq's results hold: whether all is well, rows, and their description."""

from collections.abc import Iterator
from typing import Final

from psycopg import pq
from psycopg.pq.abc import PGresult

from catalog.results import ResultColumn, Row

CHUNK_ROWS: Final = 25
"""Rows libpq collects before it hands them over; few, as each may be many megabytes.

More at a time would cost no less.
"""

_MOST_ROWS: Final = 100
"""Rows that are known to be short are taken so many at a time."""
_CHUNK_BYTES: Final = 4 << 20

OK: Final = frozenset(
    {
        pq.ExecStatus.COMMAND_OK,
        pq.ExecStatus.TUPLES_OK,
        pq.ExecStatus.EMPTY_QUERY,
        pq.ExecStatus.TUPLES_CHUNK,
    }
)
"""Statuses of results of what has not failed."""


def chunk_rows(row_bytes: int) -> int:
    """Return how many rows of at most so many bytes are to be taken at a time."""
    return min(max(_CHUNK_BYTES // max(row_bytes, 1), 1), _MOST_ROWS)


def rows_of(result: PGresult) -> Iterator[Row]:
    """Return the rows of a result one by one."""
    get_value = result.get_value
    width = range(result.nfields)
    for i in range(result.ntuples):
        yield [get_value(i, j) for j in width]


def columns_of(result: PGresult, codec: str) -> tuple[ResultColumn, ...]:
    """Return the row description of a result, with names in an encoding."""
    return tuple(
        ResultColumn(
            name=(result.fname(i) or b"").decode(codec, "surrogateescape"),
            table_oid=result.ftable(i),
            attnum=result.ftablecol(i),
            type_oid=result.ftype(i),
            type_size=result.fsize(i),
            typmod=result.fmod(i),
        )
        for i in range(result.nfields)
    )
