"""Commits as the bookkeeping tells them, and what is noted about going back to them."""

import json
from dataclasses import dataclass

from catalog.bookkeeping import calls as bookkeeping
from catalog.session.connections import CatalogSession


@dataclass(frozen=True, slots=True)
class CommittedVersions:
    """Row versions of one table, by the commits that wrote them."""

    relid: int
    versions: tuple[int, ...]
    """Version numbers in their order, microseconds since 1970-01-01 UTC."""
    settled: frozenset[int] = frozenset()
    """Later ones of commits that were taken back since, and of what has taken them back."""


def written_by(
    session: CatalogSession, commit: str, relid: int | None
) -> tuple[CommittedVersions, ...]:
    """Return what a commit wrote to tables the role may read, or to one of them."""
    return _versions(session, commit, relid, kept=False)


def written_after(
    session: CatalogSession, commit: str, relid: int | None
) -> tuple[CommittedVersions, ...]:
    """Return what later commits wrote to tables that a commit wrote to, or to one of them."""
    return _versions(session, commit, relid, kept=True)


def _versions(
    session: CatalogSession, commit: str, relid: int | None, *, kept: bool
) -> tuple[CommittedVersions, ...]:
    table = None if relid is None else str(relid).encode()
    answer = session.call(
        bookkeeping.VERSIONS_TO_ROLL_BACK, commit.encode(), table, str(kept).lower().encode()
    )
    return tuple(
        CommittedVersions(int(one["relid"]), tuple(one["versions"]), frozenset(one["settled"]))
        for one in json.loads(answer)
    )


def note_rollback(
    session: CatalogSession, relid: int, commit: str, rows: int, *, plain: bool
) -> None:
    """Note that this transaction has taken a commit of a table back, or has gone back to it.

    Args:
        session: Whose transaction it is.
        relid: The table.
        commit: The name of the commit.
        rows: How many rows have changed by that.
        plain: Whether nothing but the commit was taken back.
    """
    values = (str(relid), commit, str(plain).lower(), str(rows))
    session.call(bookkeeping.NOTE_ROLLBACK, *(value.encode() for value in values))


def create_savepoint(session: CatalogSession, relid: int, commit: str) -> None:
    """Keep a commit of a table to go back to.

    Raises:
        CatalogError: 42501 for others than the owner, 42704 for a commit that there is not, 42710
            for one that is kept already.
    """
    session.call(bookkeeping.KEEP_SAVEPOINT, str(relid).encode(), commit.encode(), b"true")


def delete_savepoint(session: CatalogSession, relid: int, commit: str) -> None:
    """Forget a savepoint.

    Raises:
        CatalogError: 42501 for others than the owner, 42704 for a savepoint that there is not.
    """
    session.call(bookkeeping.KEEP_SAVEPOINT, str(relid).encode(), commit.encode(), b"false")
