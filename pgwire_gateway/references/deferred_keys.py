"""Deferred foreign keys of tiered tables, and to them: looked at before the transaction ends.

Triggers note what a statement references, or takes away, by a key that is deferred then
(``catalog/sql``, deferred keys), and the session is told that there is something. PostgreSQL's own
triggers look at hot rows when the constraint is checked: by COMMIT, or by SET CONSTRAINTS. What
they need is made hot just before, and what they do not see is looked for. A transaction that has
deferred nothing pays nothing.
"""

import json
import time
from collections import defaultdict
from typing import Any, Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.connection import contexts
from catalog.errors import DATA_TYPE_NAME, CatalogError, GatewayError
from catalog.pg import sqlstate as codes
from catalog.statements.splitting import split
from pgwire_gateway.hot import announcements
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.references import parents, referencing_rows
from pgwire_gateway.references import taking_away as references
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.statements import RunningStatement
from rewrite.errors import UnsupportedError

SAVEPOINT: Final = "pgwire_deferred"

FAILURES: Final = 2
"""How often rows may fail to become hot before their table is locked."""

_COMMIT: Final = Plan(split("COMMIT")[0], Route.COMMAND)
"""What asks for it."""


def settle(session: ClientSession, fk: int | None = None) -> None:
    """See to it that PostgreSQL can check what is deferred of one foreign key, or of all.

    Raises:
        GatewayError: 23503 for a row that references what there is not, or for what is referenced
            by more rows than can be hot; 0A000 where rows cannot be.
    """
    asked = None if fk is None else _number(fk)
    call, before = Invocation(session, _COMMIT, RunningStatement()), session.running
    session.running = call.running
    try:
        told = json.loads(session.catalog.call(bookkeeping.END_DEFERRING, asked))
        if told["taken"] or told["seeks"]:
            session.watch(call.running, call.statement.text)
            _settle(call, told["taken"])
    finally:
        session.finish_watch()
        session.running = before


def set_constraints(call: Invocation) -> StatementResult:
    """Run SET CONSTRAINTS; what has to be checked by it is looked at before.

    Raises:
        GatewayError: As of `settle`; PostgreSQL's own errors.
    """
    session = call.session
    if not call.alone:
        session.transaction.begin_implicit()
    if not session.transaction.defers:
        return local_queries.pass_on(session, call.statement.text)
    settled: set[int] = set()
    while (fk := _tried(call)) is not None and fk not in settled:
        settle(session, fk)
        settled.add(fk)
    # Not behind a savepoint: when one is released, PostgreSQL forgets what to go back to by an
    # outer one.
    return local_queries.pass_on(session, call.statement.text)


def _tried(call: Invocation) -> int | None:
    """Run SET CONSTRAINTS, and undo it.

    Returns:
        A foreign key of which something has to be looked at before; None where there is none, or
        where the statement fails for something else.
    """
    session, fk = call.session, None
    session.catalog.transaction.savepoint(SAVEPOINT)
    try:
        local_queries.pass_on(session, call.statement.text)
    except CatalogError as error:
        fk = _unsettled(error)
    session.catalog.transaction.abandon(SAVEPOINT)
    return fk


def _unsettled(error: CatalogError) -> int | None:
    """Return the foreign key of which something has to be looked at; None for another error."""
    told = error.fields.get(DATA_TYPE_NAME, "")
    if error.sqlstate != codes.FEATURE_NOT_SUPPORTED or not contexts.is_sealed(told):
        return None
    try:
        found: dict[str, Any] = json.loads(told.partition(" ")[2])
        return int(found["unsettled"])
    except (ValueError, KeyError, TypeError):
        # Code of users can raise what looks like it.
        return None


def _settle(call: Invocation, told: list[tuple[int, int, list[int], list[list[str]]]]) -> None:
    """Look for what is referenced, and for what references what was taken away."""
    taken: dict[tuple[int, parents.Columns], list[parents.Texts]] = defaultdict(list)
    for _, relid, columns, held in told:
        taken[relid, tuple(columns)] += map(tuple, held)
    for (relid, by), texts in taken.items():
        _bring_back(call, relid, by, texts)
    parents.confirm(call)
    for fk in dict.fromkeys(fk for fk, *_ in told):
        _release(call, fk)


def _bring_back(
    call: Invocation, relid: int, columns: parents.Columns, texts: list[parents.Texts]
) -> None:
    """Have what a tiered table has again be where PostgreSQL looks for it."""
    if not texts or parents.make_hot(call, relid, columns, texts):
        return
    if parents.is_any_there(call, relid, columns, texts):
        raise UnsupportedError(
            "putting back many rows that a deferred foreign key references is not supported",
            hint="Put them back by statements on few rows, in a transaction that does not alter the"
            " table, or leave them where they are.",
        )


def _release(call: Invocation, fk: int) -> None:
    """Make rows hot that reference what was taken away, so that PostgreSQL's triggers see them.

    Where they cannot be hot, as this transaction has locked their table, they are looked for.

    Raises:
        GatewayError: 23503 where they are more than can be hot, or cannot be.
    """
    session, failures = call.session, 0
    while told := session.catalog.call(bookkeeping.TAKEN_REFERENCES, _number(fk)):
        call.running.check()
        referenced = references.Referenced.told_by(told.decode(), _refusal())
        if referenced is None:
            raise TypeError(told)
        session.catalog.transaction.savepoint(references.SAVEPOINT)
        try:
            released = references.release(call, referenced)
        except CatalogError as error:
            if error is not referenced.error:
                raise
            released, failures = None, FAILURES
        session.catalog.transaction.release(references.SAVEPOINT)
        if released is None and failures < FAILURES:
            failures += 1
            time.sleep(announcements.PAUSE_S * failures)
        elif released is None:
            _require_unreferenced(call, referenced)
        elif not released:
            session.catalog.call(bookkeeping.REFUSE_TAKEN, told, None)
            raise GatewayError(
                "could not serialize access due to concurrent update",
                sqlstate=codes.SERIALIZATION_FAILURE,
            )


def _require_unreferenced(call: Invocation, referenced: references.Referenced) -> None:
    """Lock a table as a whole, and refuse values by which its rows reference (23503)."""
    session, relid, told = call.session, referenced.relid, referenced.told.encode()
    session.catalog.writes.begin_write([relid])
    session.transaction.written.add(relid)
    found = referencing_rows.first_with(call, relid, referenced.columns, referenced.values)
    if found is not None:
        session.catalog.call(bookkeeping.REFUSE_TAKEN, told, json.dumps(found).encode())
    session.catalog.call(bookkeeping.RELEASE_REFERENCES, told)


def _refusal() -> CatalogError:
    return CatalogError(
        "changing rows that rows of a tiered table reference is not supported here",
        sqlstate=codes.FEATURE_NOT_SUPPORTED,
        hint="Change them in a transaction that changes few rows of the tiered table before.",
    )


def _number(number: int) -> bytes:
    return str(number).encode()
