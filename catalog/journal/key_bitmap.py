"""Layout of key bitmaps: a bit for each integer of a range, set for the keys of newer versions.

The rows of a base that nothing supersedes are those whose bits are not set. To test a bit is much
less work than to look up a key in a hash table, and it needs no job that gives one to all tasks.
Bits are numbered from an origin, in words of 64.
"""

from dataclasses import dataclass
from typing import Final

WORD_BITS: Final = 64
SHIFT: Final = 6
"""Bits of a number that tell its place in a word."""

ORIGIN_STEP: Final = 1 << 20
"""Origins are multiples of this, so that the lowest key seldom changes what Spark compiles."""

MOST_WORDS: Final = 1 << 17
"""Bitmaps go to each task, and wait in memory for the next statement. Keys that are further apart
are looked up by their values."""

WORDS: Final = "words"
"""The one column of the relation of one row that a bitmap is to Spark."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The integers for which a bitmap has bits, at most; it may end before the last of them."""

    origin: int

    @property
    def last(self) -> int:
        """The greatest integer for which there can be a bit."""
        return self.origin + MOST_WORDS * WORD_BITS - 1

    @classmethod
    def of(cls, lowest: int, greatest: int) -> "KeyRange | None":
        """Return the range of a bitmap for keys from one to another; None where it is too long."""
        found = cls(lowest - lowest % ORIGIN_STEP)
        return found if greatest <= found.last else None
