"""Who executes a statement: PostgreSQL alone, Spark, or the gateway itself.

The decision rests on PostgreSQL's analysis: which relations the statement touches after names are
resolved and views expanded. What would read a journaled table inside PostgreSQL is refused.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace

from catalog.bookkeeping.moments import Seen, TimeOuts
from catalog.bookkeeping.snapshots import StaleDefinitionError
from catalog.connection.unwaited import LockedTableError
from catalog.errors import CatalogError, GatewayError
from catalog.pg import sqlstate as codes
from catalog.pg.types import TEXT
from catalog.results import Analysis, Basis, Relation, RelationKind, SnapshotRequest
from catalog.session import journal_names, starred_merges
from catalog.session.connections import CatalogSession
from catalog.session.names import have_defaults, qualified, quoted, relation_name
from catalog.statements.splitting import Statement, StatementKind, split
from pgwire_gateway.planning import (
    filled_tables,
    forced,
    hidden_queries,
    own_statements,
    unlocking,
)
from pgwire_gateway.planning.answerable import Answerable
from pgwire_gateway.planning.plans import ASKED_FOR, Plan, Route
from rewrite import pipeline
from rewrite.command import (
    Command,
    changes_columns,
    command,
    inserts,
    source_relations,
    target_relation,
    written_relations,
)
from rewrite.errors import UnsupportedError
from rewrite.idle_merges import is_idle
from rewrite.row_locks import row_locks, without_row_locks
from rewrite.tree import Node, walk

EXECUTORS = frozenset({"", "postgres"}) | forced.SPARK_EXECUTORS
"""Values of ``gateway.executor``, auto left out."""

QUERIES = {
    StatementKind.SELECT,
    StatementKind.INSERT,
    StatementKind.UPDATE,
    StatementKind.DELETE,
    StatementKind.MERGE,
}
"""Statements PostgreSQL gives a tree for."""

COMMANDS = {
    StatementKind.TRANSACTION,
    StatementKind.COPY,
    StatementKind.LOCK,
    StatementKind.TRUNCATE,
    StatementKind.VACUUM,
    StatementKind.CREATE_TABLE_AS,
    StatementKind.SELECT_INTO,
    StatementKind.DEFINITION,
    StatementKind.DISCARD,
    StatementKind.DEALLOCATE,
    StatementKind.PREPARE,
    StatementKind.EXECUTE,
    StatementKind.CONVERT,
    StatementKind.CREATE_TABLE_USING,
    StatementKind.SET_CONSTRAINTS,
}
"""Statements with a function of their own in ``commands``."""

WITHOUT_TREE = {
    StatementKind.SET,
    StatementKind.SHOW,
    StatementKind.FETCH,
    StatementKind.CLOSE,
    StatementKind.LISTEN,
    StatementKind.NOTIFY,
    StatementKind.UNLISTEN,
    StatementKind.DO,
}
"""Statements that hold no query. Asking for their trees would only begin the transaction's
snapshot, after which SET TRANSACTION comes too late."""


def plan(
    catalog: CatalogSession,
    statement: Statement,
    parameter_oids: Sequence[int],
    prepared: str,
    requests: Sequence[SnapshotRequest] = (),
) -> Plan:
    """Analyse a statement and decide its route; the catalog keeps it under ``prepared``.

    Of a query string that is its own transaction, tables that it is likely to read can be seen
    with its analysis.

    Raises:
        CatalogError: What PostgreSQL finds wrong with the statement.
        GatewayError: 0A000 for what is not offered.
    """
    sent, starred = statement, starred_merges.named(catalog, statement)
    if starred is not None:
        statement = starred.statement
    named = journal_names.resolve(catalog, statement) or starred
    if named is None:
        with own_statements.refused_elsewhere(statement):
            return _plan(catalog, statement, parameter_oids, prepared, requests)
    try:
        with own_statements.refused_elsewhere(statement):
            planned = _plan(catalog, named.statement, parameter_oids, prepared)
    except GatewayError as error:
        raise named.translate(error) from error
    return replace(planned, named=named, sent=sent)


def _plan(
    catalog: CatalogSession,
    statement: Statement,
    parameter_oids: Sequence[int],
    prepared: str,
    requests: Sequence[SnapshotRequest] = (),
) -> Plan:
    _require_same_reading(catalog, statement)
    _require_offered(catalog, statement)
    own = _plan_own(statement)
    if own is not None:
        return own
    if statement.kind in COMMANDS:
        executes = statement.kind is StatementKind.EXECUTE
        return Plan(
            statement, Route.COMMAND, catalog.analyses.analyse(statement.text) if executes else None
        )
    if statement.kind in _AROUND_QUERIES:
        return _AROUND_QUERIES[statement.kind](catalog, statement, parameter_oids, prepared)
    plain = statement.all_qualified_system and statement.kind is StatementKind.SELECT
    if not prepared and (plain or statement.kind in WITHOUT_TREE):
        return Plan(statement, Route.CATALOG)
    rests_on, limits, seen, answerable = None, None, None, None
    if statement.kind in QUERIES and not statement.all_qualified_system:
        # Looked at before the analysis: what changes meanwhile makes the plan an outdated one.
        with _naming_tables(statement):
            rests_on, limits, analysis, seen = _analysed(
                catalog, statement, parameter_oids, prepared, requests
            )
    else:
        tree = statement.kind not in WITHOUT_TREE
        analysis = catalog.analyses.analyse(
            statement.text, parameter_oids, name=prepared, tree=tree
        )
    if statement.kind is StatementKind.UNKNOWN:
        raise GatewayError("syntax error", sqlstate=codes.SYNTAX_ERROR)
    if statement.kind is StatementKind.SELECT and analysis.columns is None:
        # libpq does not tell rows without columns from no rows.
        analysis = replace(analysis, columns=())
    local = Plan(
        statement,
        Route.CATALOG,
        analysis,
        basis=rests_on,
        limits=limits,
        seen=seen,
        prepared=prepared,
        answerable=answerable,
    )
    if analysis.tree is None or rests_on is None:
        return local
    return _plan_query(catalog, local, rests_on)


@contextmanager
def _naming_tables(statement: Statement) -> Iterator[None]:
    """Name the tables of a statement that does not wait for who writes one of them as a whole."""
    try:
        yield
    except LockedTableError as error:
        raise error.named(*(relation.name for relation in statement.relations)) from error


def _analysed(
    catalog: CatalogSession,
    statement: Statement,
    parameter_oids: Sequence[int],
    prepared: str,
    requests: Sequence[SnapshotRequest],
) -> tuple[Basis, TimeOuts, Analysis, Seen | None]:
    """Analyse a query, and see the tables that are asked for with it, if any are."""
    names = named(statement)
    try:
        if requests:
            return catalog.observations.analyse_seeing(names, statement.text, requests)
    except CatalogError as error:
        # What is wrong may be with tables that it does not read.
        if error.sqlstate == codes.QUERY_CANCELED:
            raise
    except StaleDefinitionError:
        pass
    return *unlocking.analyse(catalog, statement, parameter_oids, prepared, names), None


def _plan_own(statement: Statement) -> Plan | None:
    """Return the plan of what the gateway itself answers; None for all else."""
    if own_statements.is_own(statement):
        return Plan(statement, Route.OWN, own_statements.analysis(statement))
    if "procedure_call" in statement.details:
        texts = (TEXT,) * statement.parameter_count
        return Plan(statement, Route.COMMAND, Analysis(texts, None, None))
    return None


def _plan_explain(
    catalog: CatalogSession, statement: Statement, parameter_oids: Sequence[int], prepared: str
) -> Plan:
    """Let PostgreSQL explain what it would run alone."""
    explained = _explained(catalog, statement, parameter_oids)
    if explained is None:
        answerable = hidden_queries.refuse_journaled(catalog, statement, parameter_oids)
    else:
        answerable = explained.answerable
    analysis = catalog.analyses.analyse(statement.text, parameter_oids, name=prepared)
    if explained is None or explained.route in _POSTGRESQLS:
        is_run = bool(statement.details["analyze"])
        return Plan(
            statement,
            Route.CATALOG,
            analysis,
            prepared=prepared,
            answerable=answerable if is_run else None,
            replaceable=is_run and (explained is None or explained.replaceable),
        )
    return Plan(statement, Route.EXPLAIN, analysis, prepared=prepared, explained=explained)


def _plan_declare(
    catalog: CatalogSession, statement: Statement, parameter_oids: Sequence[int], prepared: str
) -> Plan:
    """Let PostgreSQL keep the cursors of queries that it runs alone."""
    read = _explained(catalog, statement, parameter_oids)
    is_ours = read is not None and read.route is Route.READ and read.locks is None
    answerable = None
    if read is not None and read.route is Route.CATALOG:
        answerable = read.answerable
    elif not is_ours:
        answerable = hidden_queries.refuse_journaled(catalog, statement, parameter_oids)
    analysis = catalog.analyses.analyse(statement.text, parameter_oids, name=prepared)
    if is_ours:
        return Plan(statement, Route.CURSOR, analysis, prepared=prepared, explained=read)
    return Plan(
        statement,
        Route.CATALOG,
        analysis,
        prepared=prepared,
        answerable=answerable,
        # Without WITH HOLD it takes a block, which has locked what was analysed in it.
        replaceable=statement.details["hold"] and (read is None or read.replaceable),
    )


_AROUND_QUERIES = {
    StatementKind.EXPLAIN: _plan_explain,
    StatementKind.DECLARE: _plan_declare,
}
"""What plans statements that are about a query."""


def _explained(
    catalog: CatalogSession, statement: Statement, parameter_oids: Sequence[int]
) -> Plan | None:
    """Return the plan of the query in EXPLAIN or DECLARE; None where another statement is in it."""
    piece = statement.details["query"]
    (query,) = split(piece.text)
    if query.kind is StatementKind.EXECUTE:
        return _executed(catalog, query)
    if query.kind not in QUERIES or "own_call" in query.details:
        return None
    if query.all_qualified_system:
        return Plan(query, Route.CATALOG)
    catalog.analyses.deallocate_later(EXPLAINED)
    try:
        return _plan(catalog, query, parameter_oids, EXPLAINED)
    except GatewayError as error:
        error.position = error.position and error.position + piece.offset
        raise


def _executed(catalog: CatalogSession, statement: Statement) -> Plan | None:
    """Return the plan of the query that an EXECUTE in EXPLAIN names; None for another one."""
    named = hidden_queries.prepared_query(catalog, statement.details["name"])
    if named is None or named.statement.kind not in QUERIES:
        return None
    catalog.analyses.deallocate_later(EXPLAINED)
    try:
        return _plan(catalog, named.statement, named.parameter_oids, EXPLAINED)
    except GatewayError as error:
        error.position = None
        raise


_POSTGRESQLS = {Route.CATALOG, Route.REFERENCED}
"""Routes of statements that PostgreSQL runs as they came, and can explain."""

EXPLAINED = "pgwire_explained"
"""Name the catalog has for the query in EXPLAIN and DECLARE."""


def _require_same_reading(catalog: CatalogSession, statement: Statement) -> None:
    """Refuse text the server reads differently from the grammar statements are split with (0A000).

    What looks like one statement could be several there, and what looks like text another table.
    """
    if "\\" not in statement.text:
        return
    if catalog.parameter_statuses().get("standard_conforming_strings") == "off":
        raise UnsupportedError(
            "backslashes are not supported while standard_conforming_strings is off",
            hint="SET standard_conforming_strings TO on first.",
        )


def _require_offered(catalog: CatalogSession, statement: Statement) -> None:
    """Refuse kinds of statements that are not offered, whatever they touch (0A000 mostly)."""
    if statement.kind is StatementKind.REFUSED:
        details = statement.details
        raise GatewayError(
            details["message"],
            sqlstate=details["sqlstate"],
            hint=details.get("hint"),
            position=details.get("position"),
        )
    if statement.kind is StatementKind.DO and not catalog.has_resident_tables:
        raise UnsupportedError("DO is not supported", hint="Send the statements one by one.")


def basis(catalog: CatalogSession, statement: Statement) -> Basis | None:
    """Return what the analysis of a statement rests on, None when nothing can change it."""
    if statement.kind not in QUERIES or statement.all_qualified_system:
        return None
    return catalog.observations.basis(named(statement))


def named(statement: Statement) -> list[str]:
    """Return the relations a statement names, as it is and as it was sent, as SQL."""
    return [qualified(name) for name in (*statement.relations, *statement.looked_up)]


def _plan_query(catalog: CatalogSession, local: Plan, rests_on: Basis) -> Plan:
    """Return the plan for PostgreSQL alone, or another one when it touches journaled tables."""
    analysis = local.analysis
    queries = pipeline.parse_tree((analysis and analysis.tree) or "")
    relations = catalog.observations.relations(
        pipeline.relations(queries), definitions=rests_on.definitions
    )
    journaled = {
        relid for relid, relation in relations.items() if relation.kind is RelationKind.JOURNALED
    }
    journals = {
        relid: relation.journal_of
        for relid, relation in relations.items()
        if relation.kind is RelationKind.JOURNAL and relation.journal_of is not None
    }
    resident = {
        relid for relid, relation in relations.items() if relation.kind is RelationKind.RESIDENT
    }
    executor = rests_on.executor
    if executor not in EXECUTORS:
        raise GatewayError(
            f'invalid value for parameter "gateway.executor": "{executor}"',
            sqlstate=codes.INVALID_PARAMETER_VALUE,
            hint="Available values: auto, spark, files, postgres.",
        )
    local = replace(
        local,
        seeks=any(_seeks(query, relations) for query in queries),
        takes=any(takes_away(query, relations) for query in queries),
    )
    on_spark = executor in forced.SPARK_EXECUTORS
    if on_spark:
        forced.require_no_heirs(relations)
        for query in queries:
            forced.require_applicable(query, relations)
    if not journaled and not journals and not (resident and on_spark):
        reason = "resident tables only" if resident else "no journaled table"
        return replace(
            local,
            route=Route.REFERENCED if local.seeks or local.takes else Route.CATALOG,
            replaceable=not all(relation.is_lasting for relation in relations.values()),
            answerable=Answerable.of(rests_on.definitions, relations.values()),
            loaded=None if executor else _loaded(queries, relations),
            reason=reason,
        )
    if executor == "postgres":
        raise UnsupportedError(
            "a statement on tiered tables is not supported by gateway.executor = postgres",
            hint=forced.HINT,
        )
    trees = {
        relid: relation.tree for relid, relation in relations.items() if relation.tree is not None
    }
    if len(queries) != 1:
        raise UnsupportedError("a statement that rules turn into several is not supported")
    plan = replace(
        local,
        route=Route.READ,
        query=queries[0],
        tables=frozenset((journaled | resident | set(journals.values())) - trees.keys()),
        trees=trees,
        journals=journals,
        temporary=_temporary(queries[0], relations),
        reason="tiered tables" if journaled else "a journal" if journals else ASKED_FOR,
    )
    if is_idle(queries[0]) and not journaled.intersection(written_relations(queries[0])):
        return replace(local, route=Route.CATALOG, replaceable=True, reason="nothing is done")
    if not written_relations(queries[0]):
        return _locking(plan, queries[0], relations)
    writing = _writing(catalog, plan, local, relations)
    target = relations.get(writing.target or 0)
    if target is not None and target.is_external:
        return replace(writing, is_external=True, reason="an external journal")
    return writing


def _loaded(queries: Sequence[Node], relations: Mapping[int, Relation]) -> int | None:
    """Return the resident table that an INSERT could fill as it fills a tiered one."""
    relid = filled_tables.filled_table(queries, relations)
    return None if relid is None or _returns_row_place(queries[0]) else relid


def _temporary(query: Node, relations: Mapping[int, Relation]) -> tuple[Relation, ...]:
    """Return the temporary tables that a query reads."""
    found = [relation for relation in relations.values() if relation.is_temporary]
    read = source_relations(query) if found else frozenset()
    return tuple(relation for relation in found if relation.relid in read)


_CHANGING = frozenset({Command.INSERT, Command.UPDATE, Command.DELETE, Command.MERGE})


def takes_away(query: Node, relations: Mapping[int, Relation]) -> bool:
    """Return whether a statement may take away what rows reference, their own or others tiered."""
    for node, _ in walk(query):
        if node.tag != "QUERY" or node["commandType"] not in _CHANGING:
            continue
        relation = relations.get(target_relation(node))
        if relation is None or not relation.referenced:
            continue
        if changes_columns(node, relation.referenced):
            return True
    return False


def _seeks(query: Node, relations: Mapping[int, Relation]) -> bool:
    """Return whether rows that a statement writes may reference rows of tiered tables."""
    for node, _ in walk(query):
        if node.tag != "QUERY" or node["commandType"] not in _CHANGING:
            continue
        relation = relations.get(target_relation(node))
        if relation is None or not relation.seeks:
            continue
        if inserts(node) or changes_columns(node, relation.seeking, deletes=0 in relation.seeking):
            return True
    return False


def _locking(plan: Plan, query: Node, relations: Mapping[int, Relation]) -> Plan:
    """Plan a query that may lock rows."""
    locks = row_locks(query)
    if locks is None:
        return plan
    resident: set[int] = set()
    for relation in map(relations.__getitem__, locks.relids):
        if relation.is_external:
            raise UnsupportedError(f"{locks.strength} of external journals is not supported")
        if relation.kind is RelationKind.RESIDENT and relation.tree is None:
            resident.add(relation.relid)
        elif relation.kind is not RelationKind.JOURNALED and relation.tree is None:
            raise UnsupportedError(
                f'{locks.strength} of "{relation.name}", which is not tiered, is not supported in '
                "a statement on tiered tables",
                hint="Name the tables whose rows are to be locked: FOR UPDATE OF ...",
            )
    locks = replace(locks, relids=locks.relids - resident, resident=frozenset(resident))
    return replace(plan, query=without_row_locks(query), locks=locks, locking=query)


def _writing(
    catalog: CatalogSession, plan: Plan, local: Plan, relations: dict[int, Relation]
) -> Plan:
    """Decide who executes a statement that writes; ``local`` is the plan for PostgreSQL alone."""
    query, journals = plan.query, plan.journals
    journaled = {
        relid for relid, relation in relations.items() if relation.kind is RelationKind.JOURNALED
    }
    if query is None:
        raise TypeError(plan.route)
    target = relations.get(target_relation(query)) if query["resultRelation"] else None
    if target is not None and target.is_leaf:
        bound = target.routed_by
        plan = replace(plan, bound_columns=None if bound is None else frozenset(bound))
    written = written_relations(query)
    for relid in written & journals.keys():
        raise GatewayError(
            f"permission denied for table {relations[relid].name}",
            sqlstate=codes.INSUFFICIENT_PRIVILEGE,
        )
    if forced.is_applied(plan, relations):
        return replace(plan, route=Route.APPLY, target=target_relation(query))
    if written.isdisjoint(journaled):
        reads = source_relations(query) & (plan.tables | plan.trees.keys() | journals.keys())
        if not reads:
            return replace(local, reason="no journaled table is read")
        return _extracting(catalog, plan, query, relations)
    if query.get("hasModifyingCTE"):
        return _thawing(plan, query, written & journaled)
    if command(query) in {Command.UPDATE, Command.DELETE}:
        return _changing(plan, query, target_relation(query))
    return _inserting(catalog, plan, query, relations)


def _changing(plan: Plan, query: Node, target: int) -> Plan:
    """Plan an UPDATE or a DELETE of a tiered table, in which rows may be locked, too."""
    locks = row_locks(query)
    if plan.takes:
        return _thawing(plan, query, {target})
    if locks and locks.waits and locks.relids == {target}:  # writing locks them all
        query = without_row_locks(query)
    elif locks:
        return _thawing(plan, query, {target})
    return replace(plan, query=query, route=Route.CHANGE, target=target)


def _inserting(
    catalog: CatalogSession, plan: Plan, query: Node, relations: dict[int, Relation]
) -> Plan:
    """Decide who evaluates the rows of an INSERT or a MERGE into a tiered table."""
    target = target_relation(query)
    kind = command(query)
    if kind is Command.MERGE and not plan.takes:
        return replace(plan, route=Route.MERGE, target=target)
    if kind is not Command.INSERT or query.get("onConflict") is not None:
        return _thawing(plan, query, {target})
    if _returns_row_place(query):
        raise UnsupportedError(
            "system columns other than tableoid are not supported in RETURNING",
            hint="They would be those of a row that is in the catalog for a moment.",
        )
    reads = source_relations(query) & (plan.tables | plan.trees.keys() | set(plan.journals))
    if not forced.is_forced(plan):
        reads -= {relid for relid in reads if relations[relid].kind is RelationKind.RESIDENT}
    views = [relid for relid in relations if relations[relid].kind is RelationKind.VIEW]
    if reads and views and have_defaults(catalog, views):
        raise UnsupportedError(
            "INSERT ... SELECT with views whose columns have defaults is not supported",
            hint="Name the table instead of the view.",
        )
    return replace(plan, route=Route.INSERT_QUERY if reads else Route.INSERT, target=target)


def _thawing(plan: Plan, query: Node, targets: Set[int]) -> Plan:
    """Plan a statement that only PostgreSQL can run, and that writes these tiered tables."""
    construct = "INSERT ... ON CONFLICT"
    if query.get("hasModifyingCTE"):
        construct = "a data-modifying statement in WITH"
    elif plan.takes:
        construct = "taking away rows that others may reference"
    elif command(query) in {Command.UPDATE, Command.DELETE}:
        construct = "locking rows in a subquery"
    if forced.is_forced(plan):
        raise UnsupportedError(f"{construct} is not supported by Spark", hint=forced.HINT)
    top = target_relation(query) if query["resultRelation"] else 0
    return replace(plan, route=Route.THAW, target=top if top in targets else min(targets))


def _extracting(
    catalog: CatalogSession, plan: Plan, query: Node, relations: dict[int, Relation]
) -> Plan:
    """Plan a statement that writes tables of PostgreSQL, and reads journaled ones."""
    if (
        command(query) is not Command.INSERT
        or query.get("hasModifyingCTE")
        or query.get("onConflict") is not None
        or query.items("returningList")
    ):
        return replace(plan, route=Route.EXTRACT)
    target = relations[target_relation(query)]
    # What is known of a temporary table stays the same when it gets another name.
    is_named = not target.is_temporary
    filled = (
        quoted(target.schema, target.name) if is_named else relation_name(catalog, target.relid)
    )
    return replace(plan, route=Route.FILL, filled=filled)


def _returns_row_place(query: Node) -> bool:
    """Return whether RETURNING asks where and by whom the catalog's row was written."""
    target = query.integer("resultRelation")
    return any(
        node.tag == "VAR"
        and node["varno"] == target
        and node["varlevelsup"] == level
        and TABLE_OID < node.integer("varattno") < 0
        for entry in query.items("returningList")
        for node, level in walk(entry)
    )


TABLE_OID = -6
"""TableOidAttributeNumber of PostgreSQL's access/sysattr.h, the one system column that is right."""
