"""Which segments will never be in the list: their transactions have ended, or never published them.

Decided by who holds locks and by what the list says, never by how long something has been there.
Whoever publishes a segment has locked its table before he sends what publishes it, and has the list
itself locked until others see it, prepared transactions included.
"""

import json
from collections.abc import Iterable, Mapping

from catalog.bookkeeping.calls import array
from catalog.session.connections import CatalogSession

_WRITING = """
WITH locks AS MATERIALIZED (
    SELECT l.virtualtransaction AS owner, l.pid IS NULL AS is_prepared, l.relation
      FROM pg_catalog.pg_locks l
     WHERE l.locktype = 'relation' AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d
                          WHERE d.datname = pg_catalog.current_database())),
tables AS MATERIALIZED (SELECT t.relid FROM pg_catalog.unnest($1::oid[]) t (relid)),
asked AS MATERIALIZED (
    SELECT t.relid, t.relid AS relation FROM tables t
     UNION ALL
    SELECT t.relid, j.tail_relid FROM tables t JOIN pg_journal.journals j USING (relid))
SELECT DISTINCT a.relid, l.owner, l.is_prepared
  FROM asked a JOIN locks l USING (relation)
 WHERE NOT l.is_prepared
    OR EXISTS (SELECT FROM locks s
                WHERE s.owner = l.owner AND s.relation = 'pg_journal.segments'::pg_catalog.regclass)
 UNION
SELECT a.relid, l.owner, false
  FROM asked a CROSS JOIN locks l
 WHERE l.relation = 'pg_journal.segments'::pg_catalog.regclass AND NOT l.is_prepared
"""
"""Transactions that may be going to publish segments of tables. Upkeep locks tails alone; a session
of which that is not known has the list locked."""

_KEPT = """
SELECT p.path FROM pg_catalog.jsonb_array_elements_text($1::jsonb) p (path)
WHERE EXISTS (SELECT FROM pg_journal.segments s WHERE s.path = p.path)
OR EXISTS (SELECT FROM pg_journal.dropped_locations l
            WHERE pg_catalog.starts_with(p.path, l.location || '/'))
"""
"""Segments that are listed, or go with their table, which is dropped and may have readers."""


class Publications:
    """Segments of one database whose transactions are waited for."""

    def __init__(self) -> None:
        """Nothing is waited for."""
        self._suspects: dict[str, frozenset[str]] = {}
        """By path: transactions that may be going to publish it, of those that were there when it
        was asked for first. Whoever has begun since does not know of it."""

    def settled(
        self, administrator: CatalogSession, written: Mapping[str, int]
    ) -> Mapping[str, bool]:
        """Return of segments whether they are kept; those that may still be published are left out.

        Args:
            administrator: A session in no transaction.
            written: The tables of segments, by path, whose writers have ended what they did with
                them: nobody will send what publishes them who has not the table locked already.
        """
        if not written:
            return {}
        # In this order: a lock that is gone has left what there is to be seen.
        waited_for = self._waited_for(administrator, written)
        kept = self.kept(administrator, written)
        return {path: path in kept for path in written if path in kept or path not in waited_for}

    def kept(self, administrator: CatalogSession, paths: Iterable[str]) -> set[str]:
        """Return those of some segments that are listed, or have been when their table was."""
        asked = list(paths)
        if not asked:
            return set()
        rows = administrator.execute_parameters(_KEPT, [json.dumps(asked).encode()]).rows
        return {(row[0] or b"").decode() for row in rows}

    def forget(self, paths: Iterable[str]) -> None:
        """Forget segments that are kept, or gone."""
        for path in paths:
            self._suspects.pop(path, None)

    def _waited_for(self, administrator: CatalogSession, written: Mapping[str, int]) -> set[str]:
        running: dict[int, set[str]] = {}
        prepared: set[int] = set()
        asked = array(sorted(set(written.values())))
        for relid, owner, is_prepared in administrator.execute_parameters(_WRITING, [asked]).rows:
            table = int(relid or b"0")
            if is_prepared == b"t":
                # One of them may be what a transaction that was running before has become.
                prepared.add(table)
            else:
                running.setdefault(table, set()).add((owner or b"").decode())
        found = set()
        for path, table in written.items():
            now = frozenset(running.get(table, ()))
            suspects = self._suspects.get(path, now) & now
            self._suspects[path] = suspects
            if suspects or table in prepared:
                found.add(path)
        return found
