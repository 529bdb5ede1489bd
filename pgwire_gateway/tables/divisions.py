"""How tables are divided into partitions: PARTITIONED BY, and CALL gateway.partition_by(…)."""

from collections.abc import Callable, Sequence

from catalog.errors import GatewayError
from catalog.extensions.bucket_clause import SortedColumns
from catalog.extensions.grammar import Tokens
from catalog.extensions.partition_fields import PartitionField, read
from catalog.pg.sqlstate import FEATURE_NOT_SUPPORTED
from catalog.results import RelationKind
from catalog.session import names
from catalog.statements import procedure_calls
from catalog.statements.splitting import RelationName, Statement
from catalog.upkeep import dividing
from pgwire_gateway.session import procedure_arguments
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.tables import maintenance


def applies(statement: Statement) -> bool:
    """Tell whether a statement divides a table that exists."""
    return procedure_calls.calls(statement.details, procedure_calls.PARTITION_BY)


def partition_by(call: Invocation, run: Callable[[str], StatementResult]) -> StatementResult:
    """Run CALL gateway.partition_by; the statement is made of no other.

    Raises:
        GatewayError: As :func:`catalog.upkeep.dividing.divide`, 42601 for no list of columns.
    """
    del run
    session = call.session
    given = procedure_arguments.read(call)
    procedure_arguments.require(given, "target")
    session.watch(call.running, call.statement.text)
    try:
        name, fields = _named(given["target"]), _listed(given.get("columns", ""))
        session.transaction.begin_implicit()
        names.require_unshadowed(session.catalog, name)
        divide(call, name, fields)
    except GatewayError as error:
        error.position = None  # that in an argument
        raise
    return StatementResult(None, NoRows(), lambda _: "CALL")


def _named(text: str) -> RelationName:
    tokens = Tokens(text)
    name = RelationName(*tokens.relation())
    tokens.expect_end()
    return name


def _listed(text: str) -> tuple[PartitionField, ...]:
    if not text.strip():
        return ()
    tokens = Tokens(f"({text})")
    fields = read(tokens)
    tokens.expect_end()
    return fields


def divide(call: Invocation, name: RelationName, fields: Sequence[PartitionField]) -> None:
    """Let a table be divided, and divide what its base has, where it is in files."""
    catalog = call.session.catalog
    relid = names.relation_oid(catalog, name)
    dividing.divide(catalog, relid, fields)
    if fields and catalog.observations.relations([relid])[relid].kind is RelationKind.JOURNALED:
        maintenance.compact(call.session, relid, call.running)


def require_sorted(call: Invocation, name: RelationName, claim: SortedColumns) -> None:
    """Refuse an order of rows that is not the one in which files have them (0A000).

    It is that of the key, whose first columns the order may name.
    """
    session = call.session
    relid = names.relation_oid(session.catalog, name)
    table = Observer(session).observe([relid]).result.snapshots[relid].table
    key = tuple(table.column(attnum).name for attnum in table.key)
    if key[: len(claim.columns)] == claim.columns:
        return
    listed = ", ".join(claim.columns)
    raise GatewayError(
        f"SORTED BY ({listed}) of a table whose primary key begins otherwise is not supported",
        sqlstate=FEATURE_NOT_SUPPORTED,
        hint="Rows are sorted by the primary key; leave the clause out.",
        position=claim.position,
    )
