"""Temporary tables of the gateway's own that hold rows for one statement of PostgreSQL."""

from collections.abc import Callable, Sequence
from itertools import count

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.session import names, session_state
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.state import ClientSession

NUMBERS = count(1)
"""Tell extracts apart."""


def finish(result: StatementResult, drop: Callable[[], None]) -> None:
    """End a statement over extracts."""
    result.prove()
    drop()


def drop(session: ClientSession, extracts: Sequence[str]) -> None:
    """Remove extracts, as far as the transaction has not done it already."""
    if extracts and session.catalog.transaction_status == "T":
        local_queries.pass_on(session, f"DROP TABLE {', '.join(extracts)}")


def new_extract() -> str:
    """Return a name for an extract, as SQL."""
    return names.quoted("pg_temp", f"pgwire_extract_{next(NUMBERS)}")


def require_writable(call: Invocation) -> None:
    """Refuse to write in a read-only transaction (25006)."""
    if session_state.is_read_only(call.session.catalog):
        raise GatewayError(
            f"cannot execute {call.statement.kind.name} in a read-only transaction",
            sqlstate=codes.READ_ONLY_SQL_TRANSACTION,
        )
