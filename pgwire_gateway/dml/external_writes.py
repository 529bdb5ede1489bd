"""Statements that write journals of others: what they have written is appended there at their end.

They run as on any tiered table. Their row versions are in the tail, or in a segment, of the
transaction, which nobody else has seen, when Spark appends them to the journal; the transaction
forgets them then. The lock of the table, which writers of ours wait for, is held until it ends.
"""

from catalog.errors import GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.pg import sqlstate as codes
from catalog.upkeep import external_journals
from pgwire_gateway.planning.plans import Route
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.transactions import IDLE
from pgwire_gateway.spark import external_appends

IMMEDIATE = "SET gateway.external_writes = immediate lets them, and ROLLBACK does not undo them."


def require_allowed(call: Invocation) -> None:
    """Refuse to write what a transaction block could not take back (25001)."""
    session = call.session
    if session.transaction.status == IDLE and call.alone:
        return
    if external_journals.are_writes_immediate(session.catalog):
        return
    raise GatewayError(
        "external journals cannot be written inside a transaction block",
        sqlstate=codes.ACTIVE_SQL_TRANSACTION,
        hint=IMMEDIATE,
    )


def append(call: Invocation, relid: int) -> None:
    """Append what a statement has written to the journal that a table stands for.

    Raises:
        GatewayError: 53100 when the disk is full, 58030 for other failures of storage, 57014 when
            cancelled, and what another database refuses. Nothing is appended then.
        UnknownOutcomeError: 40003 when the connection to the catalog is lost afterwards.
    """
    session = call.session
    observation = Observer(session).observe([relid])
    snapshot = observation.result.snapshots[relid]
    if not snapshot.tail_rows and not snapshot.segments:
        return
    tail = observation.tails.get(relid)
    relations = call.services.relations
    ends_rows = call.plan.route not in {Route.INSERT, Route.INSERT_QUERY, Route.COMMAND}
    require = session.catalog.require_connected
    external_appends.append(relations, snapshot, tail, call.running, require, ends_rows=ends_rows)
    session.transaction.is_seen = True
    reach(Failpoint.APPENDED)
    with session.catalog.transaction.doubting(is_seen=True):
        external_journals.forget_written(session.catalog, relid)
