"""Upkeep of journals: VACUUM compacts them, a key added later re-keys them."""

from collections.abc import Sequence
from dataclasses import replace

from catalog.results import RelationKind
from catalog.statements import RelationName
from pgwire_gateway.session.journal_writes import JournalWriter
from pgwire_gateway.session.observation import Observation, Observer
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.executor import RunningStatement


def vacuum(
    session: ClientSession, names: Sequence[RelationName], running: RunningStatement
) -> None:
    """Compact the journals named, or all of the database the role may maintain.

    Each table is compacted in a transaction of its own, as PostgreSQL does.

    Raises:
        GatewayError: PostgreSQL's errors for names and privileges.
    """
    catalog = session.catalog
    relids = [catalog.relation_oid(name) for name in names]
    for relid in relids if names else catalog.maintainable_tables():
        kinds = catalog.relations([relid])
        if relid in kinds and kinds[relid].kind is RelationKind.JOURNALED:
            catalog.require_maintain(relid)
            session.transaction.begin_implicit()
            compact(session, relid, running)
            session.transaction.end_implicit()


def compact(session: ClientSession, relid: int, running: RunningStatement) -> None:
    """Merge deltas and tail of a table into a new base and fill its archive.

    Writers of the table wait until the transaction ends; readers do not.
    """
    observation = _observe_locked(session, relid)
    snapshot = observation.result.snapshots[relid]
    compaction = session.services.compactor.compact(snapshot, observation.tails[relid], running)
    session.catalog.replace(relid, compaction.added, compaction.retired, compaction.tail_version)


def complete_pending_keys(session: ClientSession, running: RunningStatement) -> None:
    """Check the rows of tables that this transaction gave a primary key, and sort them by it.

    Raises:
        GatewayError: 23505 or 23502 when the rows do not fit the key.
    """
    for relid, key in session.catalog.pending_keys().items():
        JournalWriter(session, session.services, relid, running).require_unique(key)
        compact(session, relid, running)
        snapshot = Observer(session, session.services).observe([relid]).result.snapshots[relid]
        keyed = replace(snapshot, table=replace(snapshot.table, key=key))
        rekeyed = session.services.compactor.compact(keyed, None, running)
        session.catalog.replace(relid, rekeyed.added, rekeyed.retired, rekeyed.tail_version)
        session.catalog.set_key(relid)


def _observe_locked(session: ClientSession, relid: int) -> Observation:
    observer = Observer(session, session.services)
    requests = observer.requests([relid])
    session.transaction.written.add(relid)
    _, result = session.catalog.begin_write([relid], requests)
    return observer.complete(requests, result)
