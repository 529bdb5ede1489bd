"""How many rows an INSERT brings that PostgreSQL evaluates."""

import json
from typing import Any

from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.state import ClientSession
from rewrite.command import inserted_rows


def is_small(call: Invocation) -> bool:
    """Return whether an INSERT lists few rows, or reads what PostgreSQL expects to be few.

    What is expected may be wrong: this tells the quicker way, not the right one. Of a table that
    nobody has analysed, as temporary ones are, some thousand rows are expected at least.

    Raises:
        CatalogError: What PostgreSQL finds wrong when it plans the statement.
    """
    listed = inserted_rows(call.query)
    number = expected_rows(call) if listed is None else listed
    return number <= call.services.config.thaw_rows


def expected_rows(call: Invocation) -> int:
    """Return how many rows PostgreSQL expects an INSERT to get from what it reads.

    Raises:
        CatalogError: What PostgreSQL finds wrong when it plans the statement.
    """
    explained = call.session.catalog.analyses.explain(
        call.statement.text, call.values, parameter_oids=call.parameter_oids, formats=call.formats
    )
    # Nothing comes out of an INSERT without RETURNING; below it are the rows it gets.
    parts = _plan(explained)["Plans"]
    (source,) = (part for part in parts if part["Parent Relationship"] == "Outer")
    return int(source["Plan Rows"])


def expected_rows_of(session: ClientSession, query: str) -> int:
    """Return how many rows PostgreSQL expects a query to yield.

    Raises:
        CatalogError: What PostgreSQL finds wrong when it plans the query.
    """
    return int(_plan(session.catalog.analyses.explain(query))["Plan Rows"])


def _plan(explained: bytes) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(explained)[0]["Plan"]
    return plan
