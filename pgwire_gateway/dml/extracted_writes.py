"""Statements that write tables by what journaled ones hold, computed by PostgreSQL.

PostgreSQL runs them over extracts (:mod:`pgwire_gateway.dml.extraction`): defaults, constraints,
triggers and RETURNING are its own.
"""

from dataclasses import replace
from functools import partial

from catalog.errors import GatewayError, OutdatedPlanError
from pgwire_gateway.dml import extracts, inserts
from pgwire_gateway.dml.extraction import Extraction, is_refusal
from pgwire_gateway.planning import forced
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from rewrite.errors import UnsupportedError


def run(call: Invocation) -> StatementResult:
    """Run a statement over extracts of the journaled tables it reads.

    Raises:
        GatewayError: PostgreSQL's own errors, 0A000 for what neither Spark nor PostgreSQL can do.
        OutdatedPlanError: Definitions have changed since it was planned; nothing was done.
    """
    call.session.transaction.begin_implicit()
    extraction = Extraction(call)
    try:
        plan = extraction.plan()
    except OutdatedPlanError:
        extraction.drop()
        raise
    except GatewayError as error:
        error.position = None  # that of other text
        raise
    result = local_queries.run_in_place(call, plan)
    return replace(result, prove=partial(extracts.finish, result, extraction.drop))


def fill(call: Invocation) -> StatementResult:
    """Run an INSERT of rows of journaled tables; over extracts where Spark has no rows for it.

    Where PostgreSQL is kept from computing, it does not compute those either.

    Raises:
        GatewayError: As ``run``.
    """
    try:
        return inserts.fill(call)
    except GatewayError as error:
        failed = call.session.transaction.failed
        if not is_refusal(error) or failed or forced.is_forced(call.plan):
            raise
        refusal = error
    try:
        return run(call)
    except UnsupportedError as error:
        raise refusal from error


def insert(call: Invocation) -> StatementResult:
    """Run an INSERT of rows of journaled tables into a tiered one; over extracts as ``fill``.

    The target is locked as a whole then.

    Raises:
        GatewayError: As of ``run``.
    """
    try:
        return inserts.insert_query(call)
    except UnsupportedError as error:
        if call.session.transaction.failed or not is_possible(call):
            raise
        refused = error
    call.session.transaction.begin_implicit()
    extraction = Extraction(call)
    try:
        with extracts.told(refused):
            plan = extraction.plan()
        try:
            result = inserts.insert_many(replace(call, plan=plan))
        except GatewayError as error:
            error.position = None  # that of other text
            raise
    except OutdatedPlanError:
        extraction.drop()
        raise
    return replace(result, prove=partial(extracts.finish, result, extraction.drop))


def is_possible(call: Invocation) -> bool:
    """Return whether an INSERT that Spark cannot compute may run over extracts."""
    is_kept = forced.is_forced(call.plan) or call.plan.is_external
    return not is_kept and call.target not in call.plan.trees
