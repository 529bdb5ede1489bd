"""Removes data files that no statement can be reading any more."""

import time
from collections.abc import Callable
from typing import Final

from catalog.failpoints import Failpoint, reach
from catalog.session.connections import CatalogSession
from catalog.upkeep import vacuum as catalog_vacuum
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.upkeep.file_readers import FileReaders

SHARED_GRACE_S: Final = 3600.0
"""How long files stay after they were replaced where other gateways may have the same catalog:
nobody here can tell what their statements read."""

PAUSE_S = 60.0
"""Time between two looks, of upkeep, whether there are any."""


class UnreadFiles:
    """The data files of one database that are in no list any more."""

    def __init__(
        self, database: str, warehouse: Warehouse, readers: FileReaders, *, is_shared: bool
    ) -> None:
        """Nothing has been looked at yet.

        Args:
            database: The database.
            warehouse: Where its files are.
            readers: Who may be reading files.
            is_shared: Whether other gateways may have the same catalog.
        """
        self._database = database
        self._warehouse = warehouse
        self._readers = readers
        self._is_shared = is_shared
        self._looked_s = time.monotonic()

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
        # Asked for in this order: what is committed in between is known.
        asked_s, open_s = time.monotonic(), catalog_vacuum.open_since_s(session)
        known = catalog_vacuum.known_paths(session)
        orphans = self._warehouse.abandoned(known, open_s, shared=self._is_shared)
        database, locations = catalog_vacuum.known_locations(session)
        open_s += time.monotonic() - asked_s
        orphans += self._warehouse.unknown_tables(
            database, locations, open_s, shared=self._is_shared
        )
        for path in (*retired.values(), *dropped, *orphans):
            check()
            self._warehouse.remove(path)
        reach(Failpoint.FILES_REMOVED)
        catalog_vacuum.forget_segments(session, list(retired))
        catalog_vacuum.forget_locations(session, dropped)
        self._readers.forget(self._database, (*retired.values(), *dropped))

    def are_due(self, session: CatalogSession) -> bool:
        """Return, once in a while, whether there are files that nobody reads any more."""
        if time.monotonic() < self._looked_s + PAUSE_S:
            return False
        self._looked_s = time.monotonic()
        return any(self._unread(session, None))

    def _unread(
        self, session: CatalogSession, besides: object | None
    ) -> tuple[dict[int, str], list[str]]:
        """Return retired segments, and directories of dropped tables, that nobody needs any more.

        No snapshot shows them, and no statement reads them that was given its list before.
        """
        grace_s = SHARED_GRACE_S if self._is_shared else 0.0
        retired = catalog_vacuum.retired_segments(session, grace_s)
        dropped = catalog_vacuum.dropped_locations(session, grace_s)
        unread = self._readers.unread(self._database, (*retired.values(), *dropped), besides)
        return (
            {number: path for number, path in retired.items() if path in unread},
            [location for location in dropped if location in unread],
        )
