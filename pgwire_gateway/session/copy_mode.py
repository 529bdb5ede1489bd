"""COPY FROM STDIN and COPY TO STDOUT.

Follows "COPY Operations" of PostgreSQL's protocol chapter. Lines coming in are read by PostgreSQL,
whose errors the client sees; rows going out of journals are encoded here.
"""

from catalog import sqlstate as codes
from catalog.connections import CopyIn
from catalog.errors import GatewayError
from catalog.results import RelationKind
from catalog.statements import Statement
from pgwire_gateway.errors import UnsupportedError
from pgwire_gateway.messages.copy_data import (
    CopyData,
    CopyDone,
    CopyFail,
    CopyInResponse,
    CopyOutResponse,
)
from pgwire_gateway.messages.extended_query import Flush, Sync
from pgwire_gateway.messages.simple_query import Terminate
from pgwire_gateway.session import reads, router
from pgwire_gateway.session.journal_writes import JournalWriter
from pgwire_gateway.session.plans import Route
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions


def copy(
    session: ClientSession, statement: Statement, running: RunningStatement
) -> StatementResult:
    """Run a COPY statement to its end."""
    if statement.details["direction"] == "from":
        return _copy_from(session, statement, running)
    return _copy_to(session, statement, running)


def _copy_from(
    session: ClientSession, statement: Statement, running: RunningStatement
) -> StatementResult:
    services = session.services
    relid = session.catalog.relation_oid(statement.details["relation"])
    relation = session.catalog.relations([relid])[relid] if relid else None
    journaled = relation is not None and relation.kind is RelationKind.JOURNALED
    session.transaction.begin_implicit()
    writer = None
    if journaled and relid:
        writer = JournalWriter(session, services, relid, running)
        session.catalog.begin_write([relid])
    incoming = session.catalog.copy_in(statement.text)
    session.send(CopyInResponse(incoming.overall_format, incoming.formats))
    session.frontend.flush()
    tag = _receive(session, incoming, running)
    if writer is not None and relid:
        receipt = session.catalog.capture(relid, services.config.inline_rows)
        writer.settle(receipt)
    return StatementResult(None, NoRows(), lambda _: tag)


def _receive(session: ClientSession, incoming: CopyIn, running: RunningStatement) -> str:
    """Pass the client's data on until it says that there is no more; return the command tag."""
    try:
        while True:
            frame = session.frontend.receive()
            running.check()
            kind = frame.message_class
            if kind is CopyData:
                incoming.write(frame.body)
            elif kind is CopyDone:
                return incoming.finish()
            elif kind is CopyFail:
                message = frame.decode()
                assert isinstance(message, CopyFail)
                incoming.fail(f"COPY from stdin failed: {message.message}")
            elif kind not in {Flush, Sync}:
                if kind is Terminate:
                    raise EOFError
                raise GatewayError(
                    f"unexpected message type 0x{kind.type_byte[0]:02X} during COPY from stdin",
                    sqlstate=codes.PROTOCOL_VIOLATION,
                )
    except BaseException:
        incoming.abandon()
        raise


def _copy_to(
    session: ClientSession, statement: Statement, running: RunningStatement
) -> StatementResult:
    query = Statement(
        statement.details["query"], 0, statement.details["query_kind"], statement.relations
    )
    plan = router.plan(session.catalog, query, (), "")
    if plan.route is Route.CATALOG:
        return _pass_on(session, statement)
    if plan.route is not Route.READ:
        raise UnsupportedError("COPY of a statement that changes journaled tables is not supported")
    compiled, batches = reads.start(session, session.services, plan, (), running)
    assert plan.analysis is not None
    columns = plan.analysis.columns or ()
    encoder = CopyEncoder(
        reads.wire_columns(compiled.columns, [0] * len(columns)),
        [column.name for column in columns],
        CopyOptions(**statement.details["options"]),
        reads.encoding_settings(session, compiled.columns),
    )
    rows = 0
    with batches:
        code = encoder.format_code
        session.send(CopyOutResponse(code, (code,) * len(columns)))
        session.frontend.send_encoded(encoder.header())
        for batch in batches:
            rows += batch.num_rows
            for data in encoder.chunks(batch):
                session.frontend.send_encoded(data)
    session.frontend.send_encoded(encoder.trailer())
    session.send(CopyDone())
    return StatementResult(None, NoRows(), lambda _: f"COPY {rows}")


def _pass_on(session: ClientSession, statement: Statement) -> StatementResult:
    outgoing = session.catalog.copy_out(statement.text)
    session.send(CopyOutResponse(outgoing.overall_format, outgoing.formats))
    for data in outgoing.chunks:
        session.send(CopyData(data))
    session.send(CopyDone())
    tag = outgoing.command_tag or "COPY"
    return StatementResult(None, NoRows(), lambda _: tag)
