"""Hot rows whose newest version is in files, compared with these; so are resident ones.

Rows that were written since are compared with the tail, in PostgreSQL itself. These have only been
put there: nothing else would tell that one of them is not what its file says.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.hot import resident_upkeep
from catalog.hot.resident_upkeep import FiledKeys, KeySample, KeyTexts
from catalog.journal.layout import SUBSEQUENT, column_names
from catalog.model import JournalTable, TableSnapshot
from catalog.results import SnapshotRequest
from catalog.session.connections import CatalogSession
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import tail_table
from pgwire_gateway.wire_types.settling import Image, images
from pgwire_gateway.wire_types.tails import latest_per_key, newer_than, plain_identity

AT_ONCE: Final = 1_000
"""About how many rows are held in memory where all are compared."""

MOST_BYTES: Final = 1 << 20
"""Rows of more bytes are not compared."""


class FiledRows:
    """Compares them without Spark; nothing is found where the files are Spark's to read."""

    def __init__(self, lookups: Lookups) -> None:
        """Take what reads the files."""
        self._lookups = lookups

    def differing(self, session: CatalogSession, relid: int, most: int) -> list[KeyTexts]:
        """Compare some keys, chosen at random; return those whose rows are not what files say.

        Args:
            session: An administrator's, in no transaction; nor is it in one afterwards.
            relid: A tiered table with hot rows, or a resident one.
            most: How many keys.

        Raises:
            GatewayError: 58P01 or 58030 for files that cannot be read, 55P03 where others define
                the table.
        """
        return self._sampled(session, relid, KeySample(most, MOST_BYTES))

    def all_differing(
        self, session: CatalogSession, relid: int, rows: int, check: Callable[[], None]
    ) -> list[KeyTexts]:
        """Compare all keys, part by part; return those of the first part where some differ.

        Args:
            session: As above.
            relid: The table.
            rows: About how many keys there are.
            check: Called time and again; what it raises ends it.
        """
        parts = rows // AT_ONCE + 1
        for part in range(parts):
            check()
            sample = KeySample(rows + 1, MOST_BYTES, part, parts)
            found = self._sampled(session, relid, sample)
            if found:
                return found
        return []

    def _sampled(self, session: CatalogSession, relid: int, sample: KeySample) -> list[KeyTexts]:
        try:
            # TRUNCATE would take the rows away from the snapshot, and leave what it knows of keys.
            resident_upkeep.begin_counting(session, relid)
            filed = resident_upkeep.filed_keys(session, relid, sample)
            if filed is None:
                return []
            request = SnapshotRequest(relid, rows=False)
            snapshot = session.observations.snapshot([request]).snapshots[relid]
        finally:
            session.transaction.rollback()
        return list(self._compared(snapshot, filed))

    def _compared(self, snapshot: TableSnapshot, filed: FiledKeys) -> Iterator[KeyTexts]:
        table = snapshot.table
        identity = plain_identity(table)
        if identity is None:
            return
        columns = [table.column(attnum) for attnum in table.key]
        keys = [plain_keys.read(columns, texts) for texts in filed.keys]
        versions = self._lookups.versions(snapshot, keys)
        if versions is None:
            return
        if filed.mark is not None:
            versions = newer_than(versions, filed.mark)
        rows = pa.concat_tables([versions, tail_table(table, filed.tail)]).combine_chunks()
        latest = latest_per_key(rows, identity)
        journal = _by_key(table, latest.filter(pc.is_null(latest.column(SUBSEQUENT))))
        held = _by_key(table, tail_table(table, filed.held))
        for key, texts in zip(keys, filed.keys, strict=True):
            if texts in filed.unfit or held.get(key) != journal.get(key):
                yield texts


def _by_key(table: JournalTable, rows: pa.Table) -> dict[Sequence[Any], Image]:
    keys = plain_keys.tuples(rows, column_names(table.key))
    return dict(zip(keys, images(table, rows), strict=True))
