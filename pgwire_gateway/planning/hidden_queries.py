"""Queries inside statements that PostgreSQL runs as a whole, as EXPLAIN and DECLARE.

PostgreSQL would find the tables of journals empty, so none may be read there. What a hidden query
reads is not in the analysis of the statement around it; the query is analysed by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalog.errors import GatewayError
from catalog.pg import sqlstate
from catalog.results import Relation, RelationKind
from catalog.session import prepared
from catalog.session.connections import CatalogSession
from catalog.statements.splitting import Statement, StatementKind, split
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.answerable import Answerable
from rewrite import pipeline
from rewrite.command import written_relations
from rewrite.errors import UnsupportedError

CREATING = {StatementKind.CREATE_TABLE_AS, StatementKind.SELECT_INTO}
"""Statements that make a table of the rows of a query; also CREATE MATERIALIZED VIEW."""

CONSTRUCTS = {
    StatementKind.DECLARE: "DECLARE CURSOR over a journaled table",
    StatementKind.EXPLAIN: "EXPLAIN of a statement that is not a query, on a journaled table,",
}

HINTS = {
    StatementKind.EXPLAIN: "Explain the query by itself.",
    StatementKind.DECLARE: "Send the query by itself; drivers can read its rows in parts.",
}


@dataclass(frozen=True, slots=True)
class HiddenQuery:
    """A query, and where it stands in the statement sent."""

    statement: Statement
    parameter_oids: tuple[int, ...] = ()
    offset: int | None = 0
    """Characters before it; None when it is in another statement."""


def refuse_journaled(
    catalog: CatalogSession, statement: Statement, parameter_oids: Sequence[int] = ()
) -> Answerable | None:
    """Refuse a statement whose hidden query touches journaled tables, as its names are now.

    The answer is what PostgreSQL answers for in it, which may change until it does.

    Raises:
        UnsupportedError: 0A000.
        CatalogError: What PostgreSQL finds wrong with the hidden query.
    """
    query = _hidden(catalog, HiddenQuery(statement, tuple(parameter_oids)))
    if query is None or query.statement.all_qualified_system:
        return None
    definitions = catalog.observations.definitions()
    try:
        analysis = catalog.analyses.analyse(query.statement.text, query.parameter_oids)
    except GatewayError as error:
        if error.position is not None and query.offset is not None:
            error.position += query.offset
        raise
    if analysis.tree is None:
        return None
    touched = catalog.observations.relations(
        pipeline.relations(pipeline.parse_tree(analysis.tree)), definitions=definitions
    )
    if any(
        relation.kind in {RelationKind.JOURNALED, RelationKind.JOURNAL}
        for relation in touched.values()
    ):
        construct = CONSTRUCTS[statement.kind]
        raise UnsupportedError(f"{construct} is not supported", hint=HINTS.get(statement.kind))
    if _is_forced_write(catalog, analysis.tree, touched):
        construct = CONSTRUCTS[statement.kind].replace("journaled", "resident")
        raise UnsupportedError(
            f"{construct} is not supported by gateway.executor = spark", hint=forced.HINT
        )
    return Answerable.of(definitions, touched.values())


def _is_forced_write(catalog: CatalogSession, tree: str, touched: Mapping[int, Relation]) -> bool:
    """Return whether a query writes tables of PostgreSQL while that is kept from answering."""
    written = frozenset[int]().union(*map(written_relations, pipeline.parse_tree(tree)))
    lasting = all(touched[relid].is_lasting for relid in written)
    return not lasting and catalog.observations.basis().executor in forced.SPARK_EXECUTORS


def _hidden(catalog: CatalogSession, around: HiddenQuery) -> HiddenQuery | None:
    """Return the query in a statement; None when there is none that would be read."""
    statement = around.statement
    if statement.kind is StatementKind.EXECUTE:
        return prepared_query(catalog, statement.details["name"])
    if statement.kind is StatementKind.DECLARE or statement.kind in CREATING:
        inner = _inner(around)
        return _hidden(catalog, inner) if statement.details.get("executes") else inner
    if statement.kind is StatementKind.EXPLAIN:
        return _explained(catalog, statement, _inner(around))
    return None


def _explained(
    catalog: CatalogSession, statement: Statement, inner: HiddenQuery
) -> HiddenQuery | None:
    """Return the query PostgreSQL would plan; one that EXPLAIN holds itself is the router's."""
    kind = inner.statement.kind
    if kind in CREATING and statement.details["analyze"]:
        # PostgreSQL's event triggers would not see the table.
        raise UnsupportedError(
            "EXPLAIN ANALYZE of a statement that creates a table is not supported",
            hint="Explain the query by itself.",
        )
    if kind is StatementKind.DEFINITION:
        # REFRESH MATERIALIZED VIEW: no plan is made.
        return None
    nested = {StatementKind.DECLARE, StatementKind.EXECUTE} | CREATING
    return _hidden(catalog, inner) if kind in nested else inner


def _inner(around: HiddenQuery) -> HiddenQuery:
    piece = around.statement.details["query"]
    (statement,) = split(piece.text)
    offset = None if around.offset is None else around.offset + piece.offset
    return HiddenQuery(statement, around.parameter_oids, offset)


def prepared_query(catalog: CatalogSession, name: str) -> HiddenQuery | None:
    """Return the query PostgreSQL keeps under a name; None when there is no such name.

    Raises:
        GatewayError: 26000 for a name of the gateway's own.
    """
    if not prepared.is_of_clients(name):
        raise GatewayError(
            f'prepared statement "{name}" does not exist',
            sqlstate=sqlstate.INVALID_SQL_STATEMENT_NAME,
        )
    found = prepared.statement(catalog, name)
    if found is None:
        return None
    (statement,) = split(found.text)
    if statement.kind is StatementKind.PREPARE:
        (statement,) = split(statement.details["query"].text)
    return HiddenQuery(statement, found.parameter_oids, None)
