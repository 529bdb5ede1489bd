"""INSERT of many rows, which PostgreSQL computes, into an empty resident table.

The table would become tiered as soon as it has them, and they would be moved out of PostgreSQL one
by one. So it becomes tiered before, where PostgreSQL expects that many.
"""

import time
from typing import Final

from catalog.session import residency
from pgwire_gateway.hot import insert_sizes
from pgwire_gateway.planning.plans import Route
from pgwire_gateway.rows.journal_writes import begin_load
from pgwire_gateway.session import replanning
from pgwire_gateway.session.invocation import Invocation

ASKED_S: Final = 1.0
"""How long a table that was found with rows is taken for one that has some."""


def planned(call: Invocation) -> Invocation:
    """Return an INSERT as it is run where the table has become tiered for its rows.

    Raises:
        GatewayError: What PostgreSQL finds wrong when it plans the statement.
    """
    relid = call.plan.loaded
    if call.plan.route is not Route.CATALOG or relid is None or not _begins_load(call, relid):
        return call
    return replanning.locked(call)


def _begins_load(call: Invocation, relid: int) -> bool:
    session, bounds = call.session, call.services.catalog.bounds
    now = time.monotonic()
    if not bounds.rows or now - session.filled.get(relid, -ASKED_S) < ASKED_S:
        return False
    session.transaction.begin_implicit()
    if not residency.is_loadable(session.catalog, relid):
        session.filled.keep(relid, now)
        return False
    if insert_sizes.expected_rows(call) <= bounds.rows:
        return False
    return begin_load(session, relid, "INSERT")
