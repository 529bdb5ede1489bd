"""The order of the versions of a row: the newest one is the row, unless it is a tombstone.

A tombstone has the moment of its row's end in both version columns. Of another row version the
subsequent number is missing until it is superseded and lies in the archive, which compaction fills
in. So whoever reads bases, deltas and tails knows tombstones by their having one at all; whoever
reads whole journals, by its being their own number.

All that a statement writes bears one number. Where it has moved a row away from a key and another
one to it, or deleted a row and inserted one of the same key, a tombstone and a row version of one
key have the same: a *tie*. In our journals the row version is the newer one, as a statement takes
away before it brings. In journals of others it is the tombstone: writers there append what they
like, and one who ended a row must not see it come back.
"""

from dataclasses import dataclass
from typing import Final

from catalog.journal.layout import SUBSEQUENT, VERSION


@dataclass(frozen=True, slots=True)
class Term:
    """One item of an ORDER BY."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Order:
    """Which of two versions of a row is newer."""

    living_wins: bool
    """Whether a row version is newer than a tombstone of the same number, or older."""

    @property
    def newest_first(self) -> tuple[Term, ...]:
        """How versions are sorted in bases, deltas and tails, the newest one first."""
        return (
            Term(VERSION, descending=True, nulls_first=False),
            Term(SUBSEQUENT, descending=not self.living_wins, nulls_first=self.living_wins),
        )

    def recency(self, version: int, *, living: bool) -> tuple[int, bool]:
        """Return what is larger for the newer one of two versions.

        >>> OURS.recency(2, living=True) > OURS.recency(2, living=False)
        True
        >>> OF_OTHERS.recency(2, living=True) > OF_OTHERS.recency(2, living=False)
        False
        """
        return version, living is self.living_wins


OURS: Final = Order(living_wins=True)
OF_OTHERS: Final = Order(living_wins=False)


def order_of(*, external: bool) -> Order:
    """Return the order of a journal of ours, or of others."""
    return OF_OTHERS if external else OURS


def order_by(order: Order, alias: str) -> str:
    """Return the terms of an ORDER BY over bases, deltas and tails, as PostgreSQL's SQL.

    >>> order_by(OURS, "v")
    'v.version_number DESC NULLS LAST, v.subsequent_version_number ASC NULLS FIRST'
    """
    return ", ".join(
        f"{alias}.{term.column} {'DESC' if term.descending else 'ASC'}"
        f" NULLS {'FIRST' if term.nulls_first else 'LAST'}"
        for term in order.newest_first
    )


def is_tombstone(alias: str) -> str:
    """Return the condition that a row version of a whole journal is a tombstone, as SQL."""
    return f"{alias}.{SUBSEQUENT} = {alias}.{VERSION}"


def order_of_whole(order: Order, alias: str) -> str:
    """Return the terms of an ORDER BY over a whole journal, the newest version first, as SQL."""
    first, last = (0, 1) if order.living_wins else (1, 0)
    return f"{alias}.{VERSION} DESC, CASE WHEN {is_tombstone(alias)} THEN {last} ELSE {first} END"
