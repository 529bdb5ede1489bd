"""CREATE TABLE in Spark's form: PostgreSQL makes the table, from a translation of the statement."""

from collections.abc import Callable
from typing import Protocol

from catalog import names
from catalog import sqlstate as codes
from catalog.extensions.create_table import SparkTable
from catalog.statements import RelationName
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult


class Run(Protocol):
    """Runs another statement as part of one."""

    def __call__(self, text: str, place: Callable[[int], int] | None = None) -> StatementResult:
        """Run a statement; ``place`` tells where positions of errors are in the other one."""


def create(call: Invocation, run: Run) -> StatementResult:
    """Run CREATE TABLE … USING, with its comments, and with the key of an option.

    Raises:
        GatewayError: PostgreSQL's own errors, 23502 and 23505 for a key that rows do not fit.
    """
    session, details = call.session, call.statement.details
    table: SparkTable = details["table"]
    if "plain" in details and names.has_access_method(session.catalog, table.access_method):
        return run(details["plain"].text, lambda position: position)
    session.transaction.begin_implicit()
    names.require_unshadowed(session.catalog, RelationName(*table.relation))
    with session.notices() as notices:
        result = run(table.create.text, table.create.place)
    if any(fields.get("C") == codes.DUPLICATE_TABLE for fields in notices):
        return result
    if table.later_key:
        name = names.qualified(RelationName(*table.relation))
        listed = ", ".join(map(names.quoted, table.later_key))
        run(f"ALTER TABLE {name} ADD PRIMARY KEY ({listed})")
    for comment in table.comments:
        run(comment)
    return result
