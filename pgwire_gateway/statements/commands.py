"""Statements with work of the gateway's own around what PostgreSQL does."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.errors import CatalogError, GatewayError
from catalog.pg.sqlstate import (
    FOREIGN_KEY_VIOLATION,
    INVALID_PARAMETER_VALUE,
    NO_ACTIVE_SQL_TRANSACTION,
)
from catalog.results import Relation, RelationKind
from catalog.server import database_names
from catalog.session import names, residency
from catalog.statements.splitting import RelationName, StatementKind
from catalog.upkeep import vacuum as catalog_vacuum
from pgwire_gateway.references import added_references, deferred_keys
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import PORTAL_NUMBERS, NoRows, StatementResult
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.statements import copy_mode, prepared_statements
from pgwire_gateway.tables import maintenance
from rewrite.errors import UnsupportedError

OUTSIDE_TRANSACTIONS = re.compile(
    r"(CREATE|DROP|ALTER)\s+(DATABASE|TABLESPACE|SYSTEM|SUBSCRIPTION)\b|CLUSTER\b|REINDEX\b"
    r"|(CREATE\s+(UNIQUE\s+)?|DROP\s+)INDEX\s+CONCURRENTLY\b"
    r"|ALTER\s+TABLE\b.*\bDETACH\s+PARTITION\b.*\b(CONCURRENTLY|FINALIZE)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Definitions PostgreSQL refuses inside a transaction block, or may."""

OF_DATABASES = re.compile(r"(CREATE|DROP|ALTER)\s+DATABASE\b", re.IGNORECASE)

DROPPING_DATABASE = re.compile(r"DROP\s+DATABASE\b", re.IGNORECASE)

LOCKING_NOTHING = re.compile(r"(GRANT|REVOKE|COMMENT)\b", re.IGNORECASE)
"""Definitions that wait for no writer."""

VALIDATING = re.compile(r"(ALTER|CREATE)\s+TABLE\b", re.IGNORECASE)
"""Definitions that may have PostgreSQL look for what rows reference."""

COMMITTING = frozenset({"commit", "prepare"})
"""Transaction commands that end a transaction well."""

ENDING = COMMITTING | {"rollback"}
"""Transaction commands that end a transaction."""

RESIDENCY = "residency"
"""The parameter that says who answers for a table."""

BOUNDS = frozenset({"hot_rows", "hot_age_s", "thaw_rows"})
"""Parameters of tables that the server has settings of the same names for."""

CREATES = re.compile(r"\s*CREATE\b", re.IGNORECASE)
"""Definitions of something new."""

WEAK_LOCK = re.compile(
    r"\bIN\s+(ACCESS\s+SHARE|ROW\s+SHARE|ROW\s+EXCLUSIVE)\s+MODE\b|\bNOWAIT\b", re.IGNORECASE
)
"""In LOCK TABLE: locks that small writers do not conflict with, or that are not waited for."""


def run(call: Invocation) -> StatementResult:
    """Run a statement of one of the kinds in ``COMMANDS``.

    Raises:
        GatewayError: PostgreSQL's own errors, 25001 for commands that cannot be in a transaction.
    """
    return COMMANDS[call.statement.kind](call)


_OF_BLOCKS: Final = {
    "savepoint": "SAVEPOINT",
    "release": "RELEASE SAVEPOINT",
    "rollback_to": "ROLLBACK TO SAVEPOINT",
}
"""What needs a transaction that the client has begun, as PostgreSQL calls it."""


def transaction(call: Invocation) -> StatementResult:
    """Begin and end transactions and savepoints in the catalog."""
    session, details = call.session, call.statement.details
    session.shortcuts.read_committed = False
    session.transaction.note_run()
    begins, was_open = details["action"] in {"begin", "start"}, session.transaction.open
    # Inside a query string the transaction of the string becomes the client's own.
    if begins and session.transaction.begin_explicit() and not details["options"]:
        return StatementResult(None, NoRows(), lambda _: "BEGIN")
    if session.transaction.implicit and details["action"] in {"commit", "rollback"}:
        _warn_of_no_transaction(session, details)
    if session.transaction.implicit and details["action"] in _OF_BLOCKS:
        raise GatewayError(
            f"{_OF_BLOCKS[details['action']]} can only be used in transaction blocks",
            sqlstate=NO_ACTIVE_SQL_TRANSACTION,
        )
    commits = details["action"] in COMMITTING
    if commits:
        if details["action"] == "prepare" and session.keeps_cursors:
            session.catalog.transaction.rollback()
            session.transaction.settle()
            raise UnsupportedError(
                "cannot PREPARE a transaction that has created a cursor WITH HOLD"
            )
        session.keep_cursors(call.statement.text)
        session.transaction.prepare_commit()
    if details["action"] in ENDING:
        session.catalog.transaction.end_guard()
    with session.catalog.transaction.doubting() if commits else nullcontext():
        result = local_queries.pass_on(session, call.statement.text)
    if commits and result.tag(0) != "ROLLBACK":
        session.outlast_cursors()
    note_transaction(session, details)
    if begins and not was_open:
        session.transaction.note_begun(call.statement.text)
    return result


def note_transaction(session: ClientSession, details: Mapping[str, Any]) -> None:
    """Keep savepoints and portals in step with a transaction command that succeeded."""
    match details["action"]:
        case "savepoint":
            session.transaction.savepoints.add(details["name"], next(PORTAL_NUMBERS))
        case "release":
            session.transaction.savepoints.release(details["name"])
        case "rollback_to":
            session.drop_portals(session.transaction.savepoints.roll_back(details["name"]))
        case "commit" | "rollback" | "prepare":
            if details["chain"]:
                session.transaction.defers = session.transaction.is_seen = False
                session.transaction.savepoints.clear()
            session.drop_portals()
        case _:
            pass
    session.transaction.settle()


def _warn_of_no_transaction(session: ClientSession, details: Mapping[str, Any]) -> None:
    """Tell that there is no transaction the client began; refuse to chain one to it (25P01)."""
    if details["chain"]:
        verb = details["action"].upper()
        raise GatewayError(
            f"{verb} AND CHAIN can only be used in transaction blocks",
            sqlstate=NO_ACTIVE_SQL_TRANSACTION,
        )
    session.warn("there is no transaction in progress", NO_ACTIVE_SQL_TRANSACTION)


def definition(call: Invocation) -> StatementResult:
    """Run DDL; the journal follows in the same transaction."""
    session = call.session
    if call.statement.details.get("relation") is not None:
        return set_option(call)
    if call.alone and OUTSIDE_TRANSACTIONS.match(call.statement.text):
        _refuse_unchecked(call)
        if OF_DATABASES.match(call.statement.text):
            return _of_databases(call)
        return local_queries.pass_on(session, call.statement.text)
    session.shortcuts.clear()
    session.passages.clear()
    session.transaction.begin_implicit()
    unvalidated = _told_unvalidated(call)
    keeps_writers = call.statement.details.get("keeps_writers", True)
    if keeps_writers and not LOCKING_NOTHING.match(call.statement.text):
        _close_gates(call)
    adds_reference = added_references.applies(call)
    text = added_references.begin(call) if adds_reference else _without_capture(call)
    with unvalidated:
        result = local_queries.pass_on(session, text)
    if adds_reference:
        added_references.validate(call)
    if call.statement.details.get("reassigns"):
        session.catalog.call(bookkeeping.FOLLOW_OWNERS)
    maintenance.complete_pending_constraints(session, call.running, call.statement.text)
    return result


def _told_unvalidated(call: Invocation) -> AbstractContextManager[None]:
    """Refuse what has PostgreSQL look for referenced rows that are not there (0A000)."""
    catalog, relids = call.session.catalog, []
    if VALIDATING.match(call.statement.text):
        relids = [
            relid for relid in names.relation_oids(catalog, call.statement.relations) if relid
        ]
    # They are asked for now: once gates are closed, the statement is to lock the tables at once.
    return _refusing(list(catalog.observations.relations(relids).values()) if relids else [])


@contextmanager
def _refusing(found: Sequence[Relation]) -> Iterator[None]:
    try:
        yield
    except CatalogError as error:
        tiered = any(one.seeks or one.kind is RelationKind.JOURNALED for one in found)
        if error.sqlstate != FOREIGN_KEY_VIOLATION or not tiered:
            raise
        raise UnsupportedError(
            "validating a foreign key to a tiered table is not supported in this statement",
            hint="Add it by ALTER TABLE ... ADD FOREIGN KEY, and nothing else in the statement.",
        ) from error


def _refuse_unchecked(call: Invocation) -> None:
    """Refuse unique indexes of tiered tables that are made outside of transactions (0A000).

    PostgreSQL would look at hot rows alone, and others could not be looked at before they count.
    """
    details, catalog = call.statement.details, call.session.catalog
    if not details.get("concurrently") or not details.get("unique", True):
        return
    if details.get("indexed") is not None:
        relid = names.relation_oid(catalog, RelationName(*details["indexed"]))
        found = catalog.observations.relations([relid])[relid].kind is RelationKind.JOURNALED
    else:
        tiered = "SELECT FROM pg_journal.tables WHERE residency = 'tiered' LIMIT 1"
        found = any(True for _ in catalog.execute(tiered).rows)
    if found:
        raise UnsupportedError(
            "CONCURRENTLY for unique indexes of tiered tables is not supported",
            hint="Leave CONCURRENTLY out.",
        )


def _close_gates(call: Invocation, *, keeps_cold: bool = True) -> list[int]:
    """Let rows of tables that a statement is about go cold, before it locks the tables.

    Writers that hold such a lock, or wait for one, would keep rows from being made hot for others.
    Rows that become hot in between would have their writers wait for the lock, and it for them.

    Returns:
        The tables that the role may lock, without their leaves.
    """
    session = call.session
    details = call.statement.details
    dropped = [RelationName(*name) for name in details.get("dropped", ())]
    named = names.relation_oids(session.catalog, (*call.statement.relations, *dropped))
    if schemas := details.get("schemas"):
        named += names.tables_in(session.catalog, schemas)
    allowed = names.lockable(session.catalog, named) if any(named) else []
    if allowed:
        # What is made beside leaves locks none of them but a default one, which may not be tiered.
        held = list(allowed)
        if not CREATES.match(call.statement.text):
            held += _leaves(session, session.catalog.observations.relations(allowed).values())
        session.catalog.writes.hold(held, hot_only=True, keeps_cold=keeps_cold)
    return allowed


def _without_capture(call: Invocation) -> str:
    """Return a statement about all triggers of a table so that it leaves those of the journal.

    Where PostgreSQL has triggers of its own on the table it is to refuse them, which come first.
    """
    details = call.statement.details
    table = details.get("triggers_of")
    if table is None or names.has_system_triggers(call.session.catalog, RelationName(*table)):
        return call.statement.text
    return str(details["user_triggers"])


def set_option(call: Invocation) -> StatementResult:
    """Run ALTER TABLE … SET (gateway.residency = …), or another parameter, or RESET.

    Raises:
        GatewayError: 22023 for another parameter or value, 42501 for others than the owner.
    """
    session, details = call.session, call.statement.details
    name, value = details["setting"], details["value"]
    if name != RESIDENCY and name not in BOUNDS:
        raise GatewayError(
            f'unrecognized parameter "{name}"',
            sqlstate=INVALID_PARAMETER_VALUE,
            hint="The parameters of this namespace are gateway.residency, gateway.hot_rows,"
            " gateway.hot_age_s and gateway.thaw_rows.",
        )
    relid = names.relation_oid(session.catalog, RelationName(*details["relation"]))
    if name == RESIDENCY:
        residency.ask(session.catalog, relid, value or "auto")
    else:
        residency.ask_bound(session.catalog, relid, name, value)
    session.services.flusher.ask(session.database)
    return StatementResult(None, NoRows(), lambda _: "ALTER TABLE")


def lock(call: Invocation) -> StatementResult:
    """Lock tables; small writers of tiered ones stand aside before."""
    if call.session.transaction.open and not WEAK_LOCK.search(call.statement.text):
        # What is locked as a whole is written as a whole: rows are not to become hot beside that.
        call.session.transaction.written.update(_close_gates(call, keeps_cold=False))
    return local_queries.pass_on(call.session, call.statement.text)


def truncate(call: Invocation) -> StatementResult:
    """Empty the catalog tables (privileges, sequences), and end the rows of their journals.

    Raises:
        CatalogError: PostgreSQL's errors; 40001 when a table changed since the snapshot of a
            REPEATABLE READ transaction.
        GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails, XX001 when rows would
            end in the catalog table alone.
    """
    session, details = call.session, call.statement.details
    session.transaction.begin_implicit()
    listed = [RelationName(*name) for name in details["relations"]]
    named = [names.relation_oid(session.catalog, name) for name in listed]
    whole = [relid for relid, only in zip(named, details["only"], strict=True) if not only]
    emptied = partial(session.catalog.journals.emptied, named, whole, cascades=details["cascade"])
    # Before the tables: writers of hot rows are waited for at their gates.
    session.catalog.writes.hold(emptied(locks=False) or (), hot_only=True, keeps_cold=True)
    # Before their journals: writers that wait for one of these hold weaker locks on the table.
    locked = emptied(locks=True)
    kinds = session.catalog.observations.relations(locked or ())
    tiered = [
        relid
        for relid, relation in sorted(kinds.items())
        if relation.kind is RelationKind.JOURNALED and relation.tree is None
    ]
    if not tiered:  # or PostgreSQL refuses it
        return local_queries.pass_on(session, call.statement.text)
    session.watch(call.running, call.statement.text)
    observer = Observer(session)
    session.transaction.written.update(tiered)
    requests = observer.requests(tiered)
    versions, found = session.catalog.writes.begin_write(tiered, requests, command="TRUNCATE TABLE")
    observation = observer.complete(requests, found)
    result = local_queries.pass_on(session, call.statement.text)
    for relid in tiered:
        snapshot, tail = observation.result.snapshots[relid], observation.tails[relid]
        ended = session.services.compactor.end(snapshot, tail, versions[relid], call.running)
        tail_read = 0 if tail is None else tail.num_rows
        session.catalog.journals.truncate(relid, versions[relid], ended, tail_read=tail_read)
    return result


def _leaves(session: ClientSession, relations: Iterable[Relation]) -> dict[int, Relation]:
    """Return the tiered leaves of partitioned tables among these relations."""
    trees = [relation.tree for relation in relations if relation.tree is not None]
    relids = [leaf.relid for tree in trees for leaf in tree.leaves if leaf.is_tiered]
    return session.catalog.observations.relations(relids) if relids else {}


def vacuum(call: Invocation) -> StatementResult:
    """Let PostgreSQL vacuum the catalog tables, then compact their journals.

    VACUUM of all tables compacts the journals and leaves the catalog's own tables to PostgreSQL's
    autovacuum. ANALYZE has nothing to gather of journals.

    Raises:
        CatalogError: PostgreSQL's errors for options, names and columns; 25001 in a transaction.
    """
    session, details = call.session, call.statement.details
    told: Collection[str] = ()
    if call.statement.relations or not details["is_vacuum"]:
        with session.notices() as notices:
            result = local_queries.pass_on(session, call.statement.text)
        told = {fields["M"] for fields in notices}
    else:
        maintenance.check_options(session, call.statement.text)
        result = StatementResult(None, NoRows(), lambda _: "VACUUM")
    if details["is_vacuum"]:
        session.watch(call.running, call.statement.text)
        manner = maintenance.manner_of(details, told)
        maintenance.vacuum(session, call.statement.relations, call.running, manner)
    return result


def deallocate(call: Invocation) -> StatementResult:
    """Forget prepared statements here as PostgreSQL forgets them there."""
    session, name = call.session, call.statement.details.get("name")
    known = session.statements.get(name) if name else None
    if name and known is not None:
        session.forget_statement(name)
        if known.plan is None or not known.plan.prepared:
            # It was kept here alone; PostgreSQL may have another one of that name.
            session.catalog.analyses.deallocate(name)
        return StatementResult(None, NoRows(), lambda _: "DEALLOCATE")
    result = local_queries.pass_on(session, call.statement.text)
    if not name:
        for one in [one for one in session.statements if one]:
            del session.statements[one]
    return result


def _of_databases(call: Invocation) -> StatementResult:
    """Run what is only done while nobody, ourselves included, is connected to a database."""
    session, text = call.session, call.statement.text
    session.watch(call.running, text)
    concerns = partial(database_names.may_name, text)
    with session.services.flusher.paused(concerns, call.running.check):
        session.services.catalog.release()
        if DROPPING_DATABASE.match(text):
            return _drop_database(call)
        return local_queries.pass_on(session, text)


def _drop_database(call: Invocation) -> StatementResult:
    """Let PostgreSQL drop a database, whose files nobody would know any more."""
    before = catalog_vacuum.databases(call.session.catalog)
    result = local_queries.pass_on(call.session, call.statement.text)
    for database in before - catalog_vacuum.databases(call.session.catalog):
        call.services.warehouse.remove_database(database)
    return result


def discard(call: Invocation) -> StatementResult:
    """Forget what PostgreSQL forgets: its prepared statements only with all the rest."""
    if call.statement.details["target"] == "all":
        result = deallocate(call)
        for name in call.session.cursors:
            call.session.forget_portal(name)
        return result
    return local_queries.pass_on(call.session, call.statement.text)


COMMANDS: Mapping[StatementKind, Callable[[Invocation], StatementResult]] = {
    StatementKind.TRANSACTION: transaction,
    StatementKind.DEFINITION: definition,
    StatementKind.LOCK: lock,
    StatementKind.TRUNCATE: truncate,
    StatementKind.VACUUM: vacuum,
    StatementKind.COPY: copy_mode.copy,
    StatementKind.SET_CONSTRAINTS: deferred_keys.set_constraints,
    StatementKind.DEALLOCATE: deallocate,
    StatementKind.DISCARD: discard,
    StatementKind.PREPARE: prepared_statements.prepare,
}
"""The function of each kind."""
