"""The law of resident tables, checked: what a table holds is what its journal says.

For every key the catalog table holds the row of the journal's latest version, and none where that
is a tombstone; of tables without key both hold the same rows as often. That of a tiered table holds
this for hot keys, and no other rows but those that transactions which go on have put there.
"""

import logging
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa

from catalog import names, resident_upkeep
from catalog.connections import CatalogSession
from catalog.errors import GatewayError
from catalog.results import RelationKind, SnapshotRequest
from catalog.sqlstate import INSUFFICIENT_PRIVILEGE
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.text_rows import key_of
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import tail_table
from pgwire_gateway.wire_types.settling import captured, images, settle

logger = logging.getLogger(__name__)


def differences_of(call: Invocation, table: str) -> int:
    """Return in how many rows a table differs from its journal.

    Raises:
        GatewayError: 42501 where the role may not read the table.
    """
    session = call.session
    relid = names.named_relation(session.catalog, table)
    if not names.may_select(session.catalog, relid):
        raise GatewayError(f"permission denied for table {table}", sqlstate=INSUFFICIENT_PRIVILEGE)
    kind = session.catalog.relations([relid])[relid].kind
    if kind not in {RelationKind.RESIDENT, RelationKind.JOURNALED}:
        return 0
    administrator = session.services.catalog.admin(session.database)
    try:
        if kind is RelationKind.JOURNALED:
            return hot_differences(administrator, session.services.compactor, relid, call.running)
        return differences(administrator, session.services.compactor, relid, call.running)
    finally:
        administrator.close()


def hot_differences(
    session: CatalogSession, compactor: Compactor, relid: int, running: RunningStatement
) -> int:
    """Return how many rows a tiered table has in PostgreSQL that its journal has not, and back.

    Only keys that are hot are looked at; where none can be there are to be no rows.
    """
    session.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        keys = resident_upkeep.answered_keys(session, relid)
        if keys is None:
            return _noted(relid, resident_upkeep.rows_left(session, relid))
        result = session.snapshot([SnapshotRequest(relid)])
        held = resident_upkeep.held_rows(session, relid)
    finally:
        session.rollback()
    snapshot = result.snapshots[relid]
    table = snapshot.table
    answered = {key_of(table, texts) for texts in keys}
    tail = settle(snapshot, captured(table, result.tails[relid]), lambda: None)
    journal = compactor.live_rows(replace(snapshot, tail_rows=tail.num_rows), running, tail)
    names = [f"c{attnum}" for attnum in table.key]
    chosen = [key in answered for key in plain_keys.tuples(journal, names)]
    rows = tail_table(table, [[*row, 0, None, 0] for row in held])
    difference = Counter(images(table, rows))
    difference.subtract(images(table, journal.filter(pa.array(chosen, pa.bool_()))))
    return _noted(relid, sum(abs(count) for count in difference.values()))


def differences(
    session: CatalogSession, compactor: Compactor, relid: int, running: RunningStatement
) -> int:
    """Return how many rows a resident table has and its journal has not, and the other way round.

    Both are read in one snapshot of an administrator's session.
    """
    session.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        found = resident_upkeep.check_tail(session, relid)
        if found is not None:
            return _noted(relid, found)
        result = session.snapshot([SnapshotRequest(relid)])
        snapshot = result.snapshots[relid]
        held = resident_upkeep.held_rows(session, relid)
    finally:
        session.rollback()

    def stored() -> Any:
        return compactor.live_rows(replace(snapshot, tail_rows=0), running)

    tail = settle(snapshot, captured(snapshot.table, result.tails[relid]), stored)
    journal = compactor.live_rows(replace(snapshot, tail_rows=tail.num_rows), running, tail)
    rows = tail_table(snapshot.table, [[*row, 0, None, 0] for row in held])
    difference = Counter(images(snapshot.table, rows))
    difference.subtract(images(snapshot.table, journal))
    return _noted(relid, sum(abs(count) for count in difference.values()))


def _noted(relid: int, found: int) -> int:
    if found:
        logger.error("table %d differs from its journal in %d rows", relid, found)
    return found
