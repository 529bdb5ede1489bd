"""The law of resident tables, checked: what a table holds is what its journal says.

For every key the catalog table holds the row of the journal's latest version, and none where that
is a tombstone; of tables without key both hold the same rows as often. That of a tiered table holds
this for hot keys, and no other rows but those that transactions which go on have put there.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from catalog.errors import CatalogError, GatewayError
from catalog.hot import resident_upkeep
from catalog.hot.expected_keys import Key
from catalog.journal.layout import column_names
from catalog.model import TableSnapshot
from catalog.pg.sqlstate import INSUFFICIENT_PRIVILEGE
from catalog.results import RelationKind, SnapshotRequest, TailRows
from catalog.session import names
from catalog.session.connections import CatalogSession
from pgwire_gateway.rows.text_rows import key_of
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import tail_table
from pgwire_gateway.wire_types.settling import captured, images, settle

logger = logging.getLogger(__name__)


def differences_of(call: Invocation, table: str) -> int:
    """Return in how many rows a table differs from its journal.

    Raises:
        GatewayError: 42501 where the role may not read the table, 57014 when cancelled.
    """
    session = call.session
    relid = names.named_relation(session.catalog, table)
    if not names.may_select(session.catalog, relid):
        raise GatewayError(f"permission denied for table {table}", sqlstate=INSUFFICIENT_PRIVILEGE)
    session.watch(call.running, call.statement.text, call.limits or call.plan.limits)
    administrator = session.services.catalog.admin(session.database)
    try:
        with call.running.stopping(administrator.cancel):
            administrator.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                readings = [_read(administrator, one) for one in _tables(session.catalog, relid)]
            finally:
                administrator.transaction.rollback()
    except CatalogError:
        # It knows of a cancellation, and not why.
        call.running.check()
        raise
    finally:
        administrator.close()
    call.running.check()
    found = 0
    for reading in readings:
        if isinstance(reading, _Reading):
            found += _differences(reading, session.services.compactor, call.running)
        else:
            found += reading
    # No Spark job may have been there to be cancelled.
    call.running.check()
    return _noted(relid, found)


def _tables(session: CatalogSession, relid: int) -> Sequence[int]:
    """Return the tables that have rows of a table: itself, or the leaves of a partitioned one."""
    tree = session.observations.relations([relid])[relid].tree
    return [relid] if tree is None else [leaf.relid for leaf in tree.leaves]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a table and its journal hold in one snapshot."""

    snapshot: TableSnapshot
    tail: TailRows
    held: list[list[Any]]
    """Rows of the catalog table, in transfer forms."""
    answered: Sequence[Key] | None
    """Keys that it answers for; None for all."""


def _read(session: CatalogSession, relid: int) -> _Reading | int:
    """Read a table in the snapshot of a transaction; or return in how many rows it differs.

    Whether it is resident may change at any moment, and is that of the snapshot.
    """
    kind = session.observations.relations([relid])[relid].kind
    answered = None
    if kind is RelationKind.JOURNALED:
        answered = resident_upkeep.answered_keys(session, relid)
        if answered is None:
            return resident_upkeep.rows_left(session, relid)
    elif kind is not RelationKind.RESIDENT:
        return 0
    else:
        found = resident_upkeep.check_tail(session, relid)
        if found is not None:
            return found
    result = session.observations.snapshot([SnapshotRequest(relid)])
    held = resident_upkeep.held_rows(session, relid)
    return _Reading(result.snapshots[relid], result.tails[relid], held, answered)


def _differences(reading: _Reading, compactor: Compactor, running: RunningStatement) -> int:
    """Return how many rows a table has in PostgreSQL that its journal has not, and back.

    Of a tiered table only keys that are hot are looked at.
    """
    snapshot, table = reading.snapshot, reading.snapshot.table

    def stored() -> Any:
        return compactor.live_rows(replace(snapshot, tail_rows=0), running)

    tail = settle(snapshot, captured(table, reading.tail), stored)
    journal = compactor.live_rows(replace(snapshot, tail_rows=tail.num_rows), running, tail)
    if reading.answered is not None and table.key:
        answered = {key_of(table, texts) for texts in reading.answered}
        names = column_names(table.key)
        chosen = [key in answered for key in plain_keys.tuples(journal, names)]
        journal = journal.filter(pa.array(chosen, pa.bool_()))
    rows = tail_table(table, [[*row, 0, None, 0] for row in reading.held])
    difference = Counter(images(table, rows))
    difference.subtract(images(table, journal))
    if reading.answered is not None and not table.key:
        # The journal has those besides that came earlier.
        return (+difference).total()
    return sum(abs(count) for count in difference.values())


def _noted(relid: int, found: int) -> int:
    if found:
        logger.error("table %d differs from its journal in %d rows", relid, found)
    return found
