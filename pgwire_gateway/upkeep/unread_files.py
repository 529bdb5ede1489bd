"""Removes data files that no statement can be reading any more."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from catalog.failpoints import Failpoint, reach
from catalog.session.connections import CatalogSession
from catalog.upkeep import vacuum as catalog_vacuum
from catalog.upkeep.publications import Publications
from pgwire_gateway.spark.staging import Claim
from pgwire_gateway.spark.warehouse import NO_DATABASE, Warehouse
from pgwire_gateway.upkeep.file_readers import FileReaders

PAUSE_S = 60.0
"""Time between two looks, of upkeep, whether there are any."""


@dataclass(frozen=True, slots=True)
class _Inherited:
    """What is known of segments that processes have left which do not live any more."""

    settled: tuple[Claim, ...]
    """Claims to which all is known of."""
    unpublished: frozenset[str]
    """Segments that nobody will publish."""


class UnreadFiles:
    """The data files of one database that are in no list any more."""

    def __init__(self, database: str, warehouse: Warehouse, readers: FileReaders) -> None:
        """Nothing has been looked at yet.

        Args:
            database: The database.
            warehouse: Where its files are, and those of no other process.
            readers: Who may be reading files.
        """
        self._database = database
        self._warehouse = warehouse
        self._readers = readers
        self._looked_s = time.monotonic()
        self._publications = Publications()
        self._is_swept = False
        """Whether what nobody claims, as a crash of the machine leaves it, has been looked for."""

    def remove(
        self, session: CatalogSession, besides: object | None, check: Callable[[], None]
    ) -> None:
        """Remove them, also what belongs to no segment and to no table.

        Args:
            session: An administrator's, in no transaction.
            besides: A reader that is known to need none of them.
            check: Called before each is removed; what it raises ends it.
        """
        retired, dropped = self._unread(session, besides)
        database = catalog_vacuum.database(session)
        inherited = self._inherited(session, database)
        unpublished = {
            *self._unpublished(session, database, besides),
            *inherited.unpublished,
            *self._unclaimed(session, database),
            # Nobody publishes these, so they are claimed as long as they are read.
            *self._warehouse.unclaimed(NO_DATABASE),
        }
        for path in (*retired.values(), *dropped, *sorted(unpublished)):
            check()
            self._warehouse.remove(path)
        for claim in inherited.settled:
            claim.drop()
        self._publications.forget(unpublished)
        self._warehouse.staging.remove_left()
        self._warehouse.remove_empty(database)
        self._is_swept = True
        reach(Failpoint.FILES_REMOVED)
        catalog_vacuum.forget_segments(session, list(retired))
        catalog_vacuum.forget_locations(session, dropped)
        self._readers.forget(self._database, (*retired.values(), *dropped, *unpublished))

    def are_due(self, session: CatalogSession) -> bool:
        """Return, once in a while, whether there are files that nobody reads any more.

        Claims to files of which it is known that others read them are dropped, whatever is due.
        """
        if time.monotonic() < self._looked_s + PAUSE_S:
            return False
        self._looked_s = time.monotonic()
        database = catalog_vacuum.database(session)
        if self._unpublished(session, database, None):
            return True
        if not self._is_swept or self._warehouse.staging.has_left:
            return True
        return any(self._unread(session, None)) or bool(self._inherited(session, database).settled)

    def _unpublished(
        self, session: CatalogSession, database: int, besides: object | None
    ) -> frozenset[str]:
        """Return segments of this process that are in their places, and that nobody will publish.

        The claims to others of which it is known what has become of them are dropped.
        """
        written = {
            path: claim.relid
            for claim in self._warehouse.staging.own_claims()
            if claim.database == database
            for path in claim.paths
        }
        kept = self._publications.kept(session, written)
        # Who is at rest, or does something that has begun since, is not about to publish them.
        ended = self._readers.unread(self._database, written.keys() - kept, besides)
        told = self._publications.settled(session, {path: written[path] for path in ended})
        kept |= {path for path, is_kept in told.items() if is_kept}
        self._warehouse.staging.settle(kept)
        self._publications.forget(kept)
        self._readers.forget(self._database, kept)
        return frozenset(told.keys() - kept)

    def _inherited(self, session: CatalogSession, database: int) -> _Inherited:
        """Return what is known of the segments of processes that do not live any more."""
        claims = self._warehouse.staging.inherited_claims()
        if not claims:
            return _Inherited((), frozenset())
        databases = catalog_vacuum.databases(session)
        ours = [claim for claim in claims if claim.database == database]
        gone = [claim for claim in claims if claim.database not in databases]
        written = {path: claim.relid for claim in ours for path in claim.paths}
        told = {
            **self._publications.settled(session, written),
            **dict.fromkeys((path for claim in gone for path in claim.paths), False),
        }
        known = [c for c in (*ours, *gone) if all(path in told for path in c.paths)]
        self._publications.forget(path for path, is_kept in told.items() if is_kept)
        return _Inherited(
            tuple(known), frozenset(path for path, is_kept in told.items() if not is_kept)
        )

    def _unclaimed(self, session: CatalogSession, database: int) -> frozenset[str]:
        """Return segments that nobody claims and that are in no list."""
        found = self._warehouse.unclaimed(database)
        known = self._publications.kept(session, found)
        told = self._publications.settled(
            session, {path: relid for path, relid in found.items() if path not in known}
        )
        return frozenset(path for path, is_kept in told.items() if not is_kept)

    def _unread(
        self, session: CatalogSession, besides: object | None
    ) -> tuple[dict[int, str], list[str]]:
        """Return retired segments, and directories of dropped tables, that nobody needs any more.

        No snapshot shows them, and no statement reads them that was given its list before.
        """
        retired = catalog_vacuum.retired_segments(session)
        dropped = catalog_vacuum.dropped_locations(session)
        unread = self._readers.unread(self._database, (*retired.values(), *dropped), besides)
        return (
            {number: path for number, path in retired.items() if path in unread},
            [location for location in dropped if location in unread],
        )
