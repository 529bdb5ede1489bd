"""Changed rows that are held in memory until they are written, and how many of them may be."""

from collections.abc import Iterator
from typing import Any, Final, Protocol

MOST_BYTES: Final = 64 << 20
"""Rows that can only be written together are held up to this size, and as texts besides."""


class Gathered(Protocol):
    """Takes changed rows."""

    rows: int
    """How many there are."""

    def add(self, batch: Any) -> None:
        """Take a batch."""


def gather(
    rows: Gathered, batches: Iterator[Any], most_rows: int, most_bytes: int, *, whole: bool
) -> bool:
    """Take batches until there are no more (True) or they are too many for the tail (False).

    Rows that can go nowhere else may be more bytes than other ones, which are written to files.

    Args:
        rows: Takes them.
        batches: The batches.
        most_rows: How many rows a write to the tail may have.
        most_bytes: How large it may be.
        whole: Whether the rows can go nowhere else.
    """
    most_bytes = max(most_bytes, MOST_BYTES) if whole else most_bytes
    size = 0
    for batch in batches:
        rows.add(batch)
        size += batch.nbytes
        if rows.rows > most_rows or size > most_bytes:
            return False
    return True
