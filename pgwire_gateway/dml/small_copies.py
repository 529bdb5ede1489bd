"""COPY FROM STDIN of few rows into a tiered table: beside other writers of it, as an INSERT.

Whether rows are few is known when all of them have arrived. Until then no more is held than a few.
"""

from contextlib import suppress
from typing import Final

from catalog.errors import CatalogError, OutdatedPlanError
from catalog.hot import hot_keys
from catalog.hot.hot_keys import Writing
from catalog.results import RelationKind
from catalog.session import names
from catalog.statements.splitting import RelationName
from pgwire_gateway.dml.copied_data import Held, begin, pass_on
from pgwire_gateway.hot import announcements, own_hot_rows
from pgwire_gateway.hot.announcements import NotHotError
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.state import ClientSession

MOST_BYTES: Final = 1 << 20
"""Data of more bytes than these are not held."""

MOST_BINARY_BYTES: Final = 1 << 16
"""The same of the binary format, whose rows are not counted."""

ATTEMPTS: Final = 3
"""How often the name of a table is looked up that others give to another one meanwhile."""

_SAVEPOINT: Final = "pgwire_copy"


def is_tiered(session: ClientSession, name: RelationName) -> bool:
    """Return whether a name stands for a tiered table."""
    return _tiered(session, name) is not None


def is_external(session: ClientSession, name: RelationName) -> bool:
    """Return whether a name stands for a journal of others."""
    relid = names.relation_oid(session.catalog, name)
    return session.catalog.observations.relations([relid])[relid].is_external


def _tiered(session: ClientSession, name: RelationName) -> int | None:
    relid = names.relation_oid(session.catalog, name)
    kind = session.catalog.observations.relations([relid])[relid].kind
    return relid if kind is RelationKind.JOURNALED else None


def hold(call: Invocation) -> Held:
    """Take the data that the client sends, until they end or are more than few.

    PostgreSQL begins the COPY for that and finds what is wrong with it; nothing of it stays.
    """
    session = call.session
    began = not session.transaction.open
    if began:
        session.transaction.begin_implicit()
    else:
        session.catalog.transaction.savepoint(_SAVEPOINT)
    incoming = begin(session, call.statement.text)
    most_bytes = MOST_BINARY_BYTES if incoming.overall_format else MOST_BYTES
    held = Held(call.services.config.thaw_rows, most_bytes)
    held.fill(session, incoming, call.running)
    with suppress(CatalogError):
        incoming.fail("the rows are held")
    if began:
        session.catalog.transaction.rollback()
        session.transaction.settle()
    else:
        session.catalog.transaction.abandon(_SAVEPOINT)
    return held


def copy(call: Invocation, name: RelationName, held: Held) -> StatementResult | None:
    """Copy rows that are few, by the side of other writers; nothing is committed.

    None where they are not, or where the table has to be locked for them: nothing is done then.

    Raises:
        GatewayError: PostgreSQL's own errors, and 23505 for a key the journal holds already.
    """
    if not held.ended:
        return None
    session = call.session
    try:
        announced = _announced(call, name)
    except NotHotError:
        return None
    if announced is None:
        return None
    relid, mark = announced
    incoming = session.catalog.copy_in(call.statement.text)
    tag = pass_on(session, incoming, held, call.running)
    function, values = hot_keys.searching(relid, mark)
    answer = session.catalog.call(function, *values)
    written = hot_keys.unsearched(answer)
    with own_hot_rows.conflicting(call, relid, written):
        JournalWriter(session, relid, call.running).require_kept(written)
    return StatementResult(None, NoRows(), lambda _: tag)


def _announced(call: Invocation, name: RelationName) -> tuple[int, int] | None:
    """Announce the rows; return the table and the mark they are found by, None for no table.

    Raises:
        NotHotError: The table has to be locked for them.
    """
    session = call.session
    for _ in range(ATTEMPTS):
        began = not session.transaction.open
        relid = _tiered(session, name)
        if relid is None:
            return None
        with suppress(OutdatedPlanError):
            announced = announcements.announce_insert(call, Writing(relid, own=True), began=began)
            # From now on nobody else can give the name to another table.
            if _tiered(session, name) == relid:
                return relid, announced.mark
        if began:
            session.catalog.transaction.rollback()
        session.transaction.settle()
    return None
