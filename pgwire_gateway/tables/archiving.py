"""CALL gateway.archive(…): superseded row versions in journals of others get their successor."""

from collections.abc import Callable

from catalog.errors import GatewayError
from catalog.extensions.grammar import Tokens
from catalog.pg import sqlstate as codes
from catalog.session import names
from catalog.statements import procedure_calls
from catalog.statements.splitting import RelationName, Statement
from catalog.upkeep import candidates as upkeep
from pgwire_gateway.dml import external_writes
from pgwire_gateway.messages.responses import NoticeResponse
from pgwire_gateway.session import procedure_arguments
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.spark import databases
from pgwire_gateway.spark.executor import failures
from pgwire_gateway.spark.external_frames import JDBC
from rewrite.errors import UnsupportedError


def applies(statement: Statement) -> bool:
    """Tell whether a statement archives a journal."""
    return procedure_calls.calls(statement.details, procedure_calls.ARCHIVE)


def archive(call: Invocation, run: Callable[[str], StatementResult]) -> StatementResult:
    """Run CALL gateway.archive; the statement is made of no other.

    Raises:
        GatewayError: 42501 for others than the owner, 42809 for a table that is no journal of
            others, 25001 in a transaction block, HV000 for what the other database refuses.
        UnsupportedError: 0A000 for files, whose row versions stay as they are.
    """
    del run
    session, catalog = call.session, call.session.catalog
    given = procedure_arguments.read(call)
    procedure_arguments.require(given, "target")
    tokens = Tokens(given["target"])
    name = RelationName(*tokens.relation())
    tokens.expect_end()
    external_writes.require_allowed(call)
    session.watch(call.running, call.statement.text)
    session.transaction.begin_implicit()
    relid = names.relation_oid(catalog, name)
    if not catalog.observations.relations([relid])[relid].is_external:
        raise GatewayError(
            f'"{name.name}" is not an external journal', sqlstate=codes.WRONG_OBJECT_TYPE
        )
    if not upkeep.may_maintain(catalog, relid):
        raise GatewayError(
            f"permission denied for table {name.name}", sqlstate=codes.INSUFFICIENT_PRIVILEGE
        )
    catalog.writes.begin_write([relid], command="CALL")
    table = Observer(session).observe([relid]).result.snapshots[relid].table
    external = table.external
    if external is None:
        raise TypeError(table)
    if external.is_plain:
        raise GatewayError(f'"{name.name}" is not a journal', sqlstate=codes.WRONG_OBJECT_TYPE)
    if external.format != JDBC:
        raise UnsupportedError(
            "archiving a journal in files is not supported",
            hint="Their row versions stay as they are. CONVERT makes a table of the latest ones.",
        )
    key = [table.column(attnum).storage_name for attnum in table.key]
    spark = session.services.engine.sessions(call.running.check).small
    with failures(session.services.engine, spark.driver, call.running):
        rows = databases.archive(spark, external, key)
    fields = {"S": "NOTICE", "V": "NOTICE", "C": codes.SUCCESSFUL_COMPLETION}
    said = f"{rows} superseded row versions were told their successor"
    session.send(NoticeResponse.of(fields | {"M": said}))
    return StatementResult(None, NoRows(), lambda _: "CALL")
