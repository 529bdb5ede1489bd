"""Plans whose time may be over: definitions have changed since, or could before they are run."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from catalog.errors import GatewayError, OutdatedPlanError
from catalog.pg.sqlstate import FEATURE_NOT_SUPPORTED, SERIALIZATION_FAILURE
from catalog.results import Basis
from catalog.statements.splitting import StatementKind
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.session.invocation import Invocation

T = TypeVar("T")

ATTEMPTS = 100
"""How often a statement is planned while others change definitions."""

UNLOCKED_ATTEMPTS = 5
"""How often what only reads is planned before its relations stay locked from then on."""


def as_defined(make: Callable[[], Plan], run: Callable[[Plan], T]) -> T:
    """Run what only reads by a plan, which is made again as often as definitions change.

    Raises:
        GatewayError: What either raises; 40001 when definitions change too often.
    """
    for _ in range(ATTEMPTS):
        try:
            return run(make())
        except OutdatedPlanError:
            continue
    raise outdated_too_often()


def outdated_too_often() -> GatewayError:
    """Return the error for a statement whose plans were outdated each time (40001)."""
    return GatewayError(
        "definitions change faster than they can be read", sqlstate=SERIALIZATION_FAILURE
    )


def refreshed(call: Invocation) -> Invocation:
    """Plan again what was prepared, when names or definitions mean something else now.

    What was planned for this call alone is compared with what it sees when it has seen that.

    Raises:
        GatewayError: 0A000 when the columns of the result are not those announced any more.
    """
    catalog, plan = call.session.catalog, call.plan
    if plan.prepared and plan.statement.kind in {StatementKind.EXPLAIN, StatementKind.DECLARE}:
        return planned_again(call)
    if not plan.prepared or plan.basis is None:
        return call
    basis, limits = catalog.observations.grounds(router.named(plan.statement))
    if basis != plan.basis:
        return planned_again(call)
    return replace(call, limits=limits)


def locked(call: Invocation) -> Invocation:
    """Analyse a statement in the transaction that runs it, which locks the relations it names.

    Others could replace them by journaled ones, in which PostgreSQL would find no rows.

    Raises:
        GatewayError: 0A000 when the columns of the result are not those announced any more.
    """
    catalog, plan, transaction = call.session.catalog, call.plan, call.session.transaction
    was_open = transaction.open
    transaction.begin_implicit()
    catalog.analyses.deallocate_later(LOCKED)
    new = router.plan(catalog, plan.source, call.parameter_oids, LOCKED)
    _require_same_row_type(plan, new)
    if new.route is not Route.CATALOG and not was_open:
        transaction.end_implicit()  # what touches journals begins its own
    return replace(call, plan=new)


def planned_again(call: Invocation) -> Invocation:
    """Plan a statement again by the definitions there are now.

    Raises:
        GatewayError: 0A000 when the columns of the result are not those announced any more.
    """
    catalog, plan = call.session.catalog, call.plan
    # What the catalog keeps under the name is lost, even if the definitions come back by ROLLBACK.
    outdated = replace(plan, basis=NEVER)
    call.session.replace_plan(plan, outdated)
    if plan.prepared:
        catalog.analyses.deallocate(plan.prepared)
    new = router.plan(catalog, plan.source, call.parameter_oids, plan.prepared)
    _require_same_row_type(plan, new)
    call.session.replace_plan(outdated, new)
    return replace(call, plan=new, finds_out=False)


LOCKED = "pgwire_locked"
"""Name the catalog has for the statement whose relations are locked."""

NEVER = Basis(0, "never")
"""What no analysis rests on."""


def _require_same_row_type(announced: Plan, new: Plan) -> None:
    """Refuse other columns than those of a prepared statement, as PostgreSQL does.

    Drivers know it by the routine, and prepare the statement anew.
    """
    if announced.prepared and row_type(new) != row_type(announced):
        raise changed_row_type()


def changed_row_type() -> GatewayError:
    """Return the error for a prepared statement whose columns are others now (0A000)."""
    return GatewayError(
        "cached plan must not change result type",
        sqlstate=FEATURE_NOT_SUPPORTED,
        fields={"F": "plancache.c", "R": "RevalidateCachedQuery"},
    )


def row_type(plan: Plan) -> list[tuple[str, int, int]] | None:
    """Return name, type and type modifier of each column; None for a statement without rows."""
    columns = plan.analysis.columns if plan.analysis else None
    if columns is None:
        return None
    return [(column.name, column.type_oid, column.typmod) for column in columns]
