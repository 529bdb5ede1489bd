"""How tables are divided into partitions: PARTITIONED BY, and CALL gateway.partition_by(…)."""

from collections.abc import Callable, Sequence

from catalog import dividing, names, procedure_calls
from catalog.extensions.grammar import Tokens
from catalog.extensions.partition_fields import PartitionField, read
from catalog.results import RelationKind
from catalog.statements import RelationName, Statement
from pgwire_gateway.session import maintenance, procedure_arguments
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult


def applies(statement: Statement) -> bool:
    """Tell whether a statement divides a table that exists."""
    return procedure_calls.calls(statement.details, procedure_calls.PARTITION_BY)


def partition_by(call: Invocation, run: Callable[[str], StatementResult]) -> StatementResult:
    """Run CALL gateway.partition_by; the statement is made of no other.

    Raises:
        GatewayError: As :func:`catalog.dividing.divide`, 42601 for no list of columns.
    """
    del run
    session = call.session
    given = procedure_arguments.read(call)
    procedure_arguments.require(given, "target")
    tokens = Tokens(given["target"])
    name = RelationName(*tokens.relation())
    tokens.expect_end()
    fields: tuple[PartitionField, ...] = ()
    if given.get("columns", "").strip():
        listed = Tokens(f"({given['columns']})")
        fields = read(listed)
        listed.expect_end()
    session.watch(call.running, call.statement.text)
    session.transaction.begin_implicit()
    names.require_unshadowed(session.catalog, name)
    divide(call, name, fields)
    return StatementResult(None, NoRows(), lambda _: "CALL")


def divide(call: Invocation, name: RelationName, fields: Sequence[PartitionField]) -> None:
    """Let a table be divided, and divide what its base has, where it is in files."""
    catalog = call.session.catalog
    relid = names.relation_oid(catalog, name)
    dividing.divide(catalog, relid, fields)
    if fields and catalog.relations([relid])[relid].kind is RelationKind.JOURNALED:
        maintenance.compact(call.session, relid, call.running)
