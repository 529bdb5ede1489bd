"""COPY FROM STDIN and COPY TO STDOUT.

Follows "COPY Operations" of PostgreSQL's protocol chapter. Lines coming in are read by PostgreSQL,
whose errors the client sees; rows going out of journals are encoded here.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any

from catalog.errors import CatalogError, GatewayError, OutdatedPlanError
from catalog.pg import sqlstate as codes
from catalog.results import Relation, RelationKind
from catalog.session import names, residency
from catalog.statements.splitting import RelationName, Statement, split
from pgwire_gateway.dml import external_writes, extracted_reads, partitions, reads, small_copies
from pgwire_gateway.dml.copied_data import Held, begin, pass_on, receive
from pgwire_gateway.messages.copy_data import CopyData, CopyDone, CopyOutResponse
from pgwire_gateway.partitions import captured_leaves, partitioned_writes
from pgwire_gateway.planning import answerable, router
from pgwire_gateway.planning.answerable import Answerable
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.references import parents
from pgwire_gateway.rows.journal_writes import JournalWriter, begin_load
from pgwire_gateway.session import replanning
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.wire_types.client_encodings import require_convertible
from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions
from rewrite.errors import UnsupportedError


def copy(call: Invocation) -> StatementResult:
    """Run a COPY statement to its end."""
    if not call.statement.details["is_from"]:
        return _copy_to(call)
    result, session = _copy_from(call), call.session
    relid = names.relation_oid(session.catalog, RelationName(*call.statement.details["relation"]))
    if session.catalog.observations.relations([relid])[relid].seeks:
        parents.confirm(call)
    return result


def _copy_from(call: Invocation) -> StatementResult:
    session = call.session
    name = RelationName(*call.statement.details["relation"])
    freezes = "freeze" in call.statement.details["options"]
    held: Held | None = None
    tree = _tree(session, name)
    if tree is not None and tree.kind is RelationKind.JOURNALED:
        return _copy_into_leaves(call, tree)
    if small_copies.is_external(session, name):
        external_writes.require_allowed(call)
    if not freezes and small_copies.is_tiered(session, name):
        held = small_copies.hold(call)
        done = small_copies.copy(call, name, held)
        if done is not None:
            return done
    relid = _lock_target(session, name)
    session.transaction.begin_implicit()
    if held is None and relid is None and session.catalog.has_resident_tables and not freezes:
        loaded = names.relation_oid(session.catalog, name)
        if residency.is_loadable(session.catalog, loaded):
            return _load(call, loaded)
    if held is None:
        incoming = begin(session, call.statement.text)
        return _captured(call, relid, receive(session, incoming, call.running))
    incoming = session.catalog.copy_in(call.statement.text)
    return _captured(call, relid, pass_on(session, incoming, held, call.running))


def _tree(session: ClientSession, name: RelationName) -> Relation | None:
    """Return a table that is partitioned; None for another relation."""
    relid = names.relation_oid(session.catalog, name)
    relation = session.catalog.observations.relations([relid])[relid]
    return relation if relation.tree is not None else None


def _copy_into_leaves(call: Invocation, relation: Relation) -> StatementResult:
    """Copy into a partitioned table, all of whose tiered leaves are locked: any may get rows."""
    session, tree = call.session, relation.tree
    if tree is None:
        raise TypeError(relation.name)
    tiered = [leaf.relid for leaf in tree.leaves if leaf.is_tiered]
    resident = [leaf.relid for leaf in tree.leaves if not leaf.is_tiered]
    partitioned_writes.lock(call, relation.relid, tiered, resident)
    incoming = begin(session, call.statement.text)
    tag = receive(session, incoming, call.running)
    captured_leaves.capture(call, tiered)
    return StatementResult(None, NoRows(), lambda _: tag)


def _captured(call: Invocation, relid: int | None, tag: str) -> StatementResult:
    """Have the journal of a tiered table take the rows that were copied."""
    session = call.session
    if relid is not None:
        receipt = session.catalog.journals.capture(relid, *call.inline)
        if not receipt.captured:
            session.watch_from_now(call.running, call.statement.text)
        JournalWriter(session, relid, call.running).settle(receipt)
        if session.catalog.observations.relations([relid])[relid].is_external:
            external_writes.append(call, relid)
    return StatementResult(None, NoRows(), lambda _: tag)


def _load(call: Invocation, relid: int) -> StatementResult:
    """Copy into an empty resident table; when that is much, into files from the beginning."""
    session, catalog, text = call.session, call.session.catalog, call.statement.text
    savepoint = "pgwire_load"
    session.catalog.transaction.savepoint(savepoint)
    incoming = begin(session, text)
    bounds = call.services.catalog.bounds
    held = Held(bounds.rows, bounds.bytes)
    held.fill(session, incoming, call.running)
    tiered = False
    if not held.ended:
        with suppress(CatalogError):
            incoming.fail("the rows go another way")
        session.catalog.transaction.roll_back_to(savepoint)
        tiered = begin_load(session, relid, "COPY FROM")
        incoming = catalog.copy_in(text)
    tag = pass_on(session, incoming, held, call.running)
    result = _captured(call, relid if tiered else None, tag)
    session.catalog.transaction.release(savepoint)
    return result


def _lock_target(session: ClientSession, name: RelationName) -> int | None:
    """Lock a journaled table for writing and return its OID; None for a table of PostgreSQL."""
    catalog, transaction = session.catalog, session.transaction
    was_open = transaction.open
    while True:
        relid = names.relation_oid(catalog, name)
        if catalog.observations.relations([relid])[relid].kind is not RelationKind.JOURNALED:
            return None
        transaction.expect_implicit()
        with suppress(OutdatedPlanError):
            catalog.writes.begin_write([relid], command="COPY FROM")
            if names.relation_oid(catalog, name) == relid:
                return relid  # from now on nobody else can give the name to another table
        if not was_open:  # let go of the lock of what bears another name now
            catalog.transaction.rollback()
        transaction.settle()


def _copy_to(call: Invocation) -> StatementResult:
    session = call.session

    def plan() -> Plan:
        # What the query's analysis locks stays what its names mean.
        session.transaction.begin_implicit()
        return _plan(session, call.statement)

    send = replanning.as_defined(plan, partial(_source, call))
    return send()


def _source(call: Invocation, plan: Plan) -> Callable[[], StatementResult]:
    """Return what sends the rows of a COPY TO.

    Raises:
        UnsupportedError: 0A000 for what changes journaled tables, and for what nobody computes.
    """
    session, statement = call.session, call.statement
    reading = replace(call, plan=plan)
    if plan.route is Route.CATALOG:
        return partial(_pass_on, session, statement.text, plan.answerable)
    if plan.route is not Route.READ:
        raise UnsupportedError("COPY of a statement that changes journaled tables is not supported")
    # What is wrong with the options, and with the columns they name, is PostgreSQL's to tell.
    _check_options(call)
    reading = partitions.narrowed(reading)
    if reading.plan.route is Route.CATALOG:
        return partial(_pass_on, session, statement.text, reading.plan.answerable)
    options = _options(session, statement.details["options"])
    session.watch(call.running, statement.text, plan.limits)
    try:
        compiled = reads.compiled(reading, reads.observed(reading))
    except UnsupportedError as refused:
        if statement.details["query"] is None:
            raise
        return _over_extracts(reading, statement, refused)
    return partial(_computed, reading, options, compiled)


def _computed(
    reading: Invocation, options: CopyOptions, compiled: reads.CompiledRead
) -> StatementResult:
    """Send the rows that Spark computes."""
    session, columns, query = reading.session, reading.columns or (), compiled.query
    code = int(options.format == "binary")
    rows = 0
    with closing(compiled):
        # As in PostgreSQL what goes wrong with rows comes after it.
        session.send(CopyOutResponse(code, (code,) * len(columns)))
        batches = compiled.start()
    with batches:
        encoder = CopyEncoder(
            reads.wire_columns(query.columns, [0] * len(columns)),
            [column.name for column in columns],
            options,
            reads.encoding_settings(session, query.columns),
        )
        session.frontend.send_encoded(encoder.header())
        for batch in batches:
            rows += batch.num_rows
            for data in encoder.chunks(batch):
                session.frontend.send_encoded(data)
    session.frontend.send_encoded(encoder.trailer())
    session.send(CopyDone())
    return StatementResult(None, NoRows(), lambda _: f"COPY {rows}")


def _over_extracts(
    reading: Invocation, statement: Statement, refused: UnsupportedError
) -> Callable[[], StatementResult]:
    """Make extracts; return what sends the rows that PostgreSQL computes over them."""
    session = reading.session
    with ExitStack() as stack:
        plan = stack.enter_context(extracted_reads.over_extracts(reading, refused))
        text = extracted_reads.spliced(statement, plan.statement.text)
        made = stack.pop_all()

    def send() -> StatementResult:
        with made:
            try:
                return _pass_on(session, text, plan.answerable)
            except GatewayError as error:
                error.position = None  # that of other text
                raise

    return send


def _check_options(call: Invocation) -> None:
    query, text = call.statement.details["query"], _without_rows(call.statement)
    try:
        for _ in call.session.catalog.copy_out(text).chunks:
            pass
    except GatewayError as error:
        if query is not None and error.position and error.position > query.offset:
            error.position -= len(text) - len(call.statement.text)
        raise


def _without_rows(statement: Statement) -> str:
    """Return a COPY TO that evaluates nothing: the catalog table may have some of the rows."""
    query = statement.details["query"]
    if query is None:
        return statement.text
    nothing = f"SELECT * FROM ({query.text}\n) pgwire_rows LIMIT 0"  # noqa: S608 - the client's own
    return extracted_reads.spliced(statement, nothing)


def _plan(session: ClientSession, statement: Statement) -> Plan:
    """Plan the query whose rows a COPY TO writes; its errors are those of the COPY."""
    query = statement.details["query"]
    try:
        return router.plan(session.catalog, _copied_query(session, statement), (), "")
    except GatewayError as error:
        if query is not None:
            error.position = error.position and error.position + query.offset
            raise
        error.position = None
        if error.sqlstate == codes.UNDEFINED_COLUMN:
            relation = f' of relation "{statement.details["relation"][1]}"'
            error.message = error.message.replace(" does not exist", f"{relation} does not exist")
            error.hint = None
        raise


def _copied_query(session: ClientSession, statement: Statement) -> Statement:
    """Return the query whose rows a COPY TO writes."""
    details = statement.details
    if details["query"] is not None:
        return split(details["query"].text)[0]
    copied = details["columns"] or names.copied_columns(
        session.catalog, RelationName(*details["relation"])
    )
    columns = ", ".join(map(names.quoted, copied))
    relation = names.quoted(*(part for part in details["relation"] if part))
    return split(f"SELECT {columns} FROM {relation}")[0]  # noqa: S608 - names are quoted


def _options(session: ClientSession, given: Mapping[str, Any]) -> CopyOptions:
    """Return the options of COPY TO; PostgreSQL has validated them already."""
    options = {name: value for name, value in given.items() if name in OPTIONS}
    unknown = sorted(set(given) - OPTIONS)
    if unknown:
        raise UnsupportedError(f"option {unknown[0]} of COPY TO is not supported")
    if "header" in options:
        options["header"] = str(options["header"]).lower() in {"true", "on", "1"}
    if "force_quote" in options:
        forced = options["force_quote"]  # None stands for all
        options["force_quote"] = forced is None or frozenset(forced)
    if "encoding" in options:
        options["encoding"] = encoding = names.encoding(session.catalog, str(options["encoding"]))
        require_convertible(encoding)
    require_convertible(session.encoding)
    return CopyOptions(**options)


OPTIONS = frozenset(field.name for field in fields(CopyOptions))
"""Options of COPY TO that are known here."""


def _pass_on(session: ClientSession, text: str, found: Answerable | None) -> StatementResult:
    outgoing = session.catalog.copy_out(text)
    session.send(CopyOutResponse(outgoing.overall_format, outgoing.formats))
    for data in outgoing.chunks:
        session.send(CopyData(data))
    answerable.prove(session.catalog, found)
    session.send(CopyDone())
    tag = outgoing.command_tag or "COPY"
    return StatementResult(None, NoRows(), lambda _: tag)
