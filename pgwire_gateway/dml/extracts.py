"""Temporary tables of the gateway's own that hold rows for one statement of PostgreSQL."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.session import names, session_state
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.state import ClientSession
from rewrite.errors import UnsupportedError

NUMBERS = count(1)
"""Tell extracts apart."""


_REFUSALS: Final = frozenset(
    {
        codes.FEATURE_NOT_SUPPORTED,
        codes.INSUFFICIENT_PRIVILEGE,
        codes.READ_ONLY_SQL_TRANSACTION,
    }
)
"""What keeps extracts from being made: the query itself has got past its privileges."""


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


def columns_of(call: Invocation) -> list[str]:
    """Return names for the columns of an extract that holds the rows of a query."""
    return [f"c{number}" for number in range(1, len(call.columns or ()) + 1)]


def create(
    call: Invocation, extract: str, columns: Sequence[str], query: str, *, filled: bool = False
) -> None:
    """Make an extract with the columns of a query, and its rows where it is `filled`.

    Args:
        call: The statement whose parameters the query has.
        extract: The name of the extract, as SQL.
        columns: Names of its columns.
        query: The query.
        filled: Whether PostgreSQL computes the rows.
    """
    created = call.session.catalog.execute_parameters(
        f"CREATE TEMPORARY TABLE {extract} ({', '.join(columns)}) ON COMMIT DROP AS {query}\n"
        f"WITH {'' if filled else 'NO '}DATA",
        call.values,
        parameter_oids=call.parameter_oids,
        formats=call.formats,
    )
    for _ in created.rows:
        pass


def require_writable(call: Invocation) -> None:
    """Refuse to write in a read-only transaction (25006)."""
    if session_state.is_read_only(call.session.catalog):
        raise GatewayError(
            f"cannot execute {call.statement.kind.name} in a read-only transaction",
            sqlstate=codes.READ_ONLY_SQL_TRANSACTION,
        )


@contextmanager
def told(refused: UnsupportedError) -> Iterator[None]:
    """Tell of what keeps extracts from being made why Spark does not compute the query, too."""
    try:
        yield
    except GatewayError as reason:
        reason.position = None  # that of other text
        if reason.sqlstate not in _REFUSALS:
            raise
        refused.detail = (
            f"{refused.detail or ''} Nor does PostgreSQL answer it over extracts: {reason}."
        ).strip()
        raise refused from reason
