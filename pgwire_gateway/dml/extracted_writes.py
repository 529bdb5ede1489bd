"""Statements that write tables of PostgreSQL by what journaled ones hold.

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
