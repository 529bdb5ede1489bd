"""Cursors over queries that Spark cannot compute, which PostgreSQL keeps.

Over extracts a cursor would read while it is fetched from, and until the transaction ends. In READ
COMMITTED nobody could write their tables so long. So the rows are computed at once there, and kept
in a temporary table, where that can be.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from tempfile import TemporaryFile
from typing import Final

from catalog.errors import CatalogError, OutdatedPlanError
from catalog.session import journal_names, names, session_state
from catalog.statements.splitting import split
from pgwire_gateway.dml import extracts, thawed_reads
from pgwire_gateway.dml.extracted_reads import over_extracts, spliced
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.spark.errors import storage_failures
from rewrite.errors import UnsupportedError

_SAVEPOINT: Final = "pgwire_cursor"

_OF_ROWS: Final = frozenset({"22", "42"})
"""Classes of errors of rows that a cursor may never come to, or that no table can have."""

_FORM: Final = "(FORMAT binary, ENCODING 'UTF8')"
"""How rows are kept, whatever encoding the client has."""

_CHUNK_BYTES: Final = 1 << 20


def declare(call: Invocation, refused: UnsupportedError) -> StatementResult:
    """Have PostgreSQL keep a cursor: on hot rows, else over extracts.

    Args:
        call: DECLARE CURSOR.
        refused: Why Spark does not compute its query.

    Raises:
        UnsupportedError: That, where neither is possible.
        GatewayError: PostgreSQL's own errors.
    """
    try:
        return thawed_reads.declare(call, refused)
    except UnsupportedError as error:
        refused = error
    if call.plan.explained is None:
        raise TypeError(call.plan.route)
    reading = replace(call, plan=call.plan.explained)
    if _would_lock(reading):
        kept = _kept(reading, refused)
        if kept is not None:
            return _declared(replace(call, values=(), formats=()), kept)
    with over_extracts(reading, refused, stay=True) as plan:
        return _declared(call, plan)


def _declared(call: Invocation, query: Plan) -> StatementResult:
    """Declare the cursor over another query that yields the same."""
    if not call.session.catalog.has_other_cursors:
        # The list of cursors is another one from now on.
        call.session.catalog.has_other_cursors = True
        call.session.shortcuts.clear()
        call.session.passages.clear()
    text = spliced(call.statement, query.statement.text)
    statement = replace(call.statement, text=journal_names.with_sent(text, call.statement.text))
    analysis = query.analysis and replace(query.analysis, columns=None)
    plan = replace(query, statement=statement, analysis=analysis, prepared="")
    return local_queries.run_in_place(call, plan)


def _would_lock(reading: Invocation) -> bool:
    """Return whether extracts that stay would keep writers of their tables out."""
    session = reading.session
    is_block = session.transaction.open and not session.transaction.implicit
    return is_block and not session_state.keeps_snapshot(session.catalog)


def _kept(reading: Invocation, refused: UnsupportedError) -> Plan | None:
    """Compute the rows of a query, keep them in a table, and return a query for them.

    None where they are to be computed when they are fetched: a function may have effects, or a row
    cannot be computed, or be one of a table.
    """
    columns = extracts.columns_of(reading)
    if not columns or thawed_reads.has_effects(reading):
        return None
    catalog = reading.session.catalog
    catalog.transaction.savepoint(_SAVEPOINT)
    try:
        with TemporaryFile() as file:
            with over_extracts(reading, refused) as plan:
                extract = extracts.new_extract()
                extracts.create(reading, extract, columns, plan.statement.text, filled=True)
                for data in catalog.copy_out(f"COPY {extract} TO STDOUT {_FORM}").chunks:
                    with storage_failures():
                        file.write(data)
            # As the extracts are gone, by the query as it was sent.
            kept = extracts.new_extract()
            extracts.create(reading, kept, columns, reading.statement.text)
            file.seek(0)
            _load(reading, kept, iter(lambda: file.read(_CHUNK_BYTES), b""))
    except (OutdatedPlanError, UnsupportedError):
        catalog.transaction.abandon(_SAVEPOINT)
        raise
    except CatalogError as error:
        if error.sqlstate[:2] not in _OF_ROWS:
            raise
        catalog.transaction.abandon(_SAVEPOINT)
        return None
    catalog.transaction.release(_SAVEPOINT)
    named = zip(columns, reading.columns or (), strict=True)
    shown = ", ".join(f"{column} AS {names.quoted(one.name)}" for column, one in named)
    query = f"SELECT {shown} FROM {kept}"  # noqa: S608 - quoted
    return router.plan(catalog, split(query)[0], (), "")


def _load(reading: Invocation, table: str, rows: Iterable[bytes]) -> None:
    """Copy rows of the binary format into a table."""
    incoming = reading.session.catalog.copy_in(f"COPY {table} FROM STDIN {_FORM}", is_own=True)
    try:
        for data in rows:
            incoming.write(data)
    except BaseException:
        with suppress(CatalogError):
            incoming.fail("the rows could not be read")
        raise
    incoming.finish()
