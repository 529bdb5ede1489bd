"""Rows that transactions above READ COMMITTED make hot themselves, as they read by one snapshot.

Such a snapshot does not show what the gateway's own connection commits later. Who else wants one of
these keys waits for the transaction, or fails with 40001 where its own snapshot is older.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from catalog.bookkeeping.calls import Call
from catalog.errors import CatalogError, GatewayError
from catalog.hot import hot_keys
from catalog.hot.hot_keys import Thawed, Unsearched
from catalog.pg import sqlstate
from catalog.session import session_state
from pgwire_gateway.hot.announcements import thawing_of
from pgwire_gateway.rows import unique_keys
from pgwire_gateway.rows.needed_rows import NeededRows
from pgwire_gateway.rows.text_rows import key_row, key_types
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.wire_types.catalog_rows import key_values
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal

ARBITRATES: Final = "ON CONFLICT where a unique index on expressions or of some rows decides"
"""Why rows are not known before a statement is run."""

_SEEN: Final = "SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text"

_UNFIT: Final = frozenset({"22", "23", "54"})
"""Classes of errors of rows that a constraint refuses."""


def can_be(needed: NeededRows) -> bool:
    """Return whether a transaction may make the rows of a statement hot itself.

    Not where it takes several attempts to know the rows.
    """
    return not needed.needs.arbitrates


def require_possible(call: Invocation, needed: NeededRows) -> None:
    """Refuse a statement whose rows its transaction would have to make hot itself, and cannot.

    Raises:
        Refusal: It is above READ COMMITTED.
    """
    if can_be(needed) or not session_state.keeps_snapshot(call.session.catalog):
        return
    raise Refusal(ARBITRATES)


def heat(
    call: Invocation, relid: int, present: Sequence[TextRow], absent: Sequence[TextRow]
) -> Thawed:
    """Make keys hot in the session's own transaction.

    Raises:
        GatewayError: 40001 where others have made one hot since the transaction's snapshot; 0A000
            for a row that does not satisfy a constraint now.
    """
    return heat_by(call, hot_keys.heating(relid, present, absent))


def heat_by(call: Invocation, heating: Call) -> Thawed:
    """Make keys hot by a call of the bookkeeping.

    Raises:
        GatewayError: As of `heat`.
    """
    function, values = heating
    try:
        call.session.catalog.call(function, *values)
    except CatalogError as error:
        if error.sqlstate == sqlstate.UNIQUE_VIOLATION:
            # Others have inserted a row since.
            raise _changed() from error
        if error.sqlstate[:2] in _UNFIT:
            message = "rows that do not satisfy a constraint are not supported here"
            raise UnsupportedError(message, detail=str(error)) from error
        raise
    return Thawed.DONE


def _changed() -> CatalogError:
    return CatalogError(
        "could not serialize access due to concurrent update",
        sqlstate=sqlstate.SERIALIZATION_FAILURE,
    )


@contextmanager
def conflicting(call: Invocation, relid: int, written: Unsearched) -> Iterator[None]:
    """Tell keys and values that the journal holds from those it has held for an old snapshot.

    Args:
        call: The statement.
        relid: The table it has written.
        written: What is looked for in the journal inside.

    Raises:
        CatalogError: 40001 instead of 23505, where others may have taken them away since.
    """
    try:
        yield
    except CatalogError:
        raise
    except GatewayError as error:
        if error.sqlstate != sqlstate.UNIQUE_VIOLATION:
            raise
        if session_state.keeps_snapshot(call.session.catalog):
            _require_unchanged(call, relid, written, error)
        raise


def _require_unchanged(
    call: Invocation, relid: int, written: Unsearched, error: GatewayError
) -> None:
    table = Observer(call.session).observe([relid]).result.snapshots[relid].table
    types = key_types(table)
    heat(call, relid, (), [key_row(table, key_values(types, key)) for key in written.keys])
    if error.fields.get("n") == unique_keys.primary(table).name:
        return
    ((seen,),) = call.session.catalog.execute(_SEEN).rows
    if thawing_of(call).is_unseen(relid, (seen or b"").decode()):
        raise _changed()
