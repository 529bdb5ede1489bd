"""DECLARE, FETCH, MOVE and CLOSE of cursors over what Spark reads; all others are PostgreSQL's.

MOVE and CLOSE of portals that Bind has made, too.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
from typing_extensions import override

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.session import session_state
from catalog.statements.splitting import Statement, StatementKind
from pgwire_gateway.dml import extracted_cursors, reads
from pgwire_gateway.planning.plans import Plan
from pgwire_gateway.session.cursors import Cursor, CursorRows
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import (
    NoRows,
    Portal,
    PortalState,
    PreparedStatement,
    StatementResult,
)
from pgwire_gateway.session.results import SparkRows
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.wire_types.row_encoder import RowEncoder
from rewrite.errors import UnsupportedError

Begin = Callable[[ClientSession, Portal, Plan], StatementResult]

KINDS: Final = frozenset({StatementKind.DECLARE, StatementKind.FETCH, StatementKind.CLOSE})
"""Statements about cursors."""


def needs_block(statement: Statement) -> bool:
    """Return whether a statement declares a cursor that ends with a transaction begun before."""
    return statement.kind is StatementKind.DECLARE and not statement.details["hold"]


def run(call: Invocation, begin: Begin) -> StatementResult | None:
    """Run FETCH, MOVE or CLOSE of a portal of ours; None where PostgreSQL is to run a statement.

    Args:
        call: The statement.
        begin: Runs the statement of a portal.

    Raises:
        GatewayError: 25P01 for a cursor that would end at once, 42P03 for one declared a second
            time; what its rows raise.
    """
    session, name = call.session, call.statement.details["name"]
    if call.statement.kind is StatementKind.CLOSE and name is None:
        for one in list(session.portals):
            session.forget_portal(one)
        return None
    if call.statement.kind is StatementKind.DECLARE:
        _require_block(call)
    portal = session.portals.get(name)
    if portal is None:
        return None
    if call.statement.kind is StatementKind.DECLARE:
        raise _declared_before(name)
    if call.statement.kind is StatementKind.CLOSE:
        session.forget_portal(name)
        return StatementResult(None, NoRows(), lambda _: "CLOSE CURSOR")
    return _fetch(call, portal) if isinstance(portal, Cursor) else _move(call, portal, begin)


def declare(call: Invocation) -> StatementResult:
    """Declare a cursor; what its query sees is what there is now.

    Raises:
        GatewayError: 42P03 as PostgreSQL; what reading raises.
    """
    session, details = call.session, call.statement.details
    plan, name, piece = call.plan.explained, details["name"], details["query"]
    if plan is None:
        raise TypeError(call.plan.route)
    if name in session.portals or session_state.has_cursor(session.catalog, name):
        raise _declared_before(name)
    if details["scroll"]:
        return extracted_cursors.declare(call, _backwards())
    try:
        compiled = reads.prepare(replace(call, plan=plan, result_formats=()))
    except GatewayError as error:
        error.position = error.position and error.position + piece.offset
        if isinstance(error, UnsupportedError):
            return extracted_cursors.declare(call, error)
        raise
    batches = _begun(compiled)
    cursor = Cursor(
        name,
        PreparedStatement("", plan),
        running=call.running,
        binary=details["binary"],
        hold=details["hold"],
        no_scroll=details["no_scroll"],
        rows=CursorRows(batches, partial(_leave, batches, compiled)),
        consists_of=compiled.query.columns,
    )
    session.portals[name] = cursor
    if cursor.hold and (session.transaction.implicit or not session.transaction.open):
        cursor.keep()
    return StatementResult(None, NoRows(), lambda _: "DECLARE CURSOR")


def _require_block(call: Invocation) -> None:
    """Refuse a cursor that ends with its transaction where nothing comes after it there."""
    if needs_block(call.statement) and not call.session.transaction.open:
        raise GatewayError(
            "DECLARE CURSOR can only be used in transaction blocks",
            sqlstate=codes.NO_ACTIVE_SQL_TRANSACTION,
        )


def _backwards() -> UnsupportedError:
    return UnsupportedError(
        "SCROLL of a cursor over journaled tables is not supported",
        hint="Declare it with NO SCROLL, and fetch its rows forward.",
    )


def _declared_before(name: str) -> GatewayError:
    return GatewayError(f'cursor "{name}" already exists', sqlstate=codes.DUPLICATE_CURSOR)


def _fetch(call: Invocation, cursor: Cursor) -> StatementResult:
    details, rows = call.statement.details, cursor.rows
    cursor.require_usable()
    motion = cursor.motion(details["direction"], details["count"])
    if motion is None and rows.is_on_row and not details["is_move"]:
        raise cursor.backwards()
    call.session.resume_cursor(cursor, call.statement.text)
    taken: Iterator[pa.RecordBatch] = iter(())
    if motion is not None:
        for _ in rows.take(motion.skipped):
            pass
        taken = rows.take(motion.taken)
    if details["is_move"]:
        count = rows.is_on_row if motion is None else sum(batch.num_rows for batch in taken)
        return StatementResult(None, NoRows(), lambda _: f"MOVE {count:d}")
    formats = call.result_formats if call.plan.prepared else cursor.formats
    if len(formats) > 1 and len(formats) != len(cursor.consists_of):
        raise GatewayError(
            "the cursor has other columns than when the statement was bound",
            sqlstate=codes.PROTOCOL_VIOLATION,
        )
    encoder = reads.encoder(call.session, cursor.consists_of, formats)
    cursor.fetching = _FetchedRows(cursor, taken, encoder)
    return StatementResult(cursor.described(formats), cursor.fetching, "FETCH {}".format)


def _move(call: Invocation, portal: Portal, begin: Begin) -> StatementResult:
    """Skip rows of a portal that Bind has made."""
    session, details, plan = call.session, call.statement.details, portal.statement.plan
    if not details["is_move"]:
        raise UnsupportedError(
            "FETCH from a portal of the extended query protocol is not supported",
            hint="Take its rows by Execute, or declare a cursor.",
        )
    portal.require_rows()
    if plan is None or plan.analysis is None or plan.analysis.columns is None:
        raise UnsupportedError("MOVE of a portal that returns no rows is not supported")
    motion = portal.motion(details["direction"], details["count"])
    if motion is None:
        is_on_row = portal.state is PortalState.SUSPENDED
        return StatementResult(None, NoRows(), lambda _: f"MOVE {is_on_row:d}")
    before = portal.taken
    try:
        if portal.result is None:
            begin(session, portal, plan)
        else:
            session.resume(portal)
        for _ in session.take(portal, motion.skipped + (motion.taken or 0)):
            pass
    except GatewayError:
        session.forget_portal(portal.name)
        raise
    count = max(portal.taken - before - motion.skipped, 0)
    return StatementResult(None, NoRows(), lambda _: f"MOVE {count}")


def _begun(compiled: reads.CompiledRead) -> Generator[pa.RecordBatch]:
    """Yield batches that are computed from when the first one is taken."""
    with compiled.start() as batches:
        yield from batches


def _leave(batches: Generator[pa.RecordBatch], compiled: reads.CompiledRead) -> None:
    """Leave a query whose rows may never have been asked for."""
    batches.close()
    compiled.close()


class _FetchedRows(SparkRows):
    """Rows that a FETCH takes, all of them before another one can."""

    def __init__(
        self, cursor: Cursor, taken: Iterator[pa.RecordBatch], encoder: RowEncoder
    ) -> None:
        super().__init__(_Taken(taken), encoder)
        self._cursor = cursor
        self._whole: CursorRows | None = None

    @override
    def take(self, limit: int) -> Iterator[tuple[bytes | memoryview, int]]:
        try:
            if limit and self._whole is None:
                self._whole = CursorRows(self._iterator)
                self._whole.keep()
                self._iterator = self._whole.take(None)
            yield from super().take(limit)
        except Exception:
            self._cursor.fail()
            raise

    @override
    def close(self) -> None:
        super().close()
        if self._whole is not None:
            self._whole.close()


class _Taken:
    """Batches of a cursor, which goes on after them."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def close(self) -> None:
        """Release nothing."""
