"""EXPLAIN of statements that Spark has a part in: who runs them, why, and by which plans."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from time import perf_counter

from catalog.errors import GatewayError
from catalog.results import Row
from pgwire_gateway.dml import (
    extracted_reads,
    extracted_writes,
    extracts,
    inserts,
    partitions,
    reads,
    temporary_rows,
    thawed_reads,
    thawed_writes,
    upserts,
)
from pgwire_gateway.dml.applied_changes import AppliedChange
from pgwire_gateway.dml.extraction import Extraction, Tell
from pgwire_gateway.hot import hot_runs
from pgwire_gateway.partitions import changed_leaves, partitioned_writes, upserted_leaves
from pgwire_gateway.planning.plans import Plan, Route, WrittenLeaves
from pgwire_gateway.session import binding
from pgwire_gateway.session.explanation import ExplainOptions, Explanation, Measured, lines
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult, format_codes
from pgwire_gateway.session.results import CatalogRows, field_descriptions
from rewrite import pipeline
from rewrite.command import Command, command
from rewrite.context import RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.results import SparkQuery
from rewrite.tree import Node

Execute = Callable[[Invocation], StatementResult]

SAVEPOINT = "pgwire_explain"

OVER_TABLES = frozenset({Route.INSERT, Route.THAW, Route.PARTS, Route.CATALOG})
"""Statements that PostgreSQL runs as they are, over tables that hold no more than they need."""

QUERIES = frozenset({Route.READ, Route.INSERT_QUERY})
"""Statements that PostgreSQL runs where Spark cannot compute them."""

_Planner = Callable[[Invocation, Tell], Extraction | AppliedChange]

OVER_EXTRACTS: Mapping[Route, _Planner] = {
    Route.EXTRACT: Extraction,
    Route.APPLY: AppliedChange,
}
"""What plans the statements that PostgreSQL runs over extracts, and tells of each of these."""


def explain(call: Invocation, execute: Execute) -> StatementResult:
    """Tell how a statement would be run; with ANALYZE run it, and tell what that took.

    Raises:
        GatewayError: What the statement itself would raise; PostgreSQL's own errors for options.
    """
    plan = call.plan.explained
    if plan is None:
        raise TypeError(call.plan.route)
    piece = call.statement.details["query"]
    _check_options(call, piece.offset)
    options = ExplainOptions.of(call.statement.details["options"])
    if plan.analysis and plan.analysis.parameter_oids and not call.values:
        _refuse_parameters(call, options)
    try:
        explanation = _explanation(replace(call, plan=plan, result_formats=()), options, execute)
    except GatewayError as error:
        # Of what EXECUTE names the text is another one.
        is_own = call.statement.details["inner"] != "ExecuteStmt"
        error.position = error.position + piece.offset if is_own and error.position else None
        raise
    columns = call.columns or ()
    rows: list[Row] = [[call.session.encoded(line)] for line in lines(explanation, options)]
    codes = format_codes(call.result_formats, 1)
    told = CatalogRows(
        rows, [columns[0].type_oid], codes, are_held=True, encoding=call.session.encoding
    )
    return StatementResult(field_descriptions(columns, codes), told, lambda _: "EXPLAIN")


def _check_options(call: Invocation, length: int) -> None:
    """Let PostgreSQL look at the options, which are all there is before the query."""
    for _ in call.session.catalog.execute(f"{call.statement.text[:length]}SELECT 1").rows:
        pass


def _refuse_parameters(call: Invocation, options: ExplainOptions) -> None:
    """Refuse parameters that have no values: Spark plans with these."""
    if options.generic_plan:
        raise UnsupportedError(
            "GENERIC_PLAN of a statement on tiered tables with parameters is not supported",
            hint="Give values instead of the parameters.",
        )
    # There is no parameter $1 in a query string, says PostgreSQL.
    for _ in call.session.catalog.execute(call.statement.text).rows:
        pass


def _explanation(call: Invocation, options: ExplainOptions, execute: Execute) -> Explanation:
    started = perf_counter()
    whole = call
    if call.plan.route is Route.CHANGE and call.plan.leaves is not None:
        call = _of_leaves(call, call.plan.leaves)
    elif call.plan.route is Route.THAW:
        call = _decided(call)
    if call.plan.leaves is not None and call.plan.route in {Route.CHANGE, Route.MERGE}:
        # One for all of them.
        call = partitions.of_leaf(call, call.plan.leaves.tiered[0])
        return replace(
            _explanation(call, replace(options, analyze=False), execute),
            measured=_measured(whole, execute) if options.analyze else None,
        )
    if call.plan.route in {Route.CHANGE, Route.MERGE} and call.plan.arbiter is None:
        call = _decided(call)
    if call.plan.route in OVER_EXTRACTS:
        planned = partial(_planned_over_extracts, call, OVER_EXTRACTS[call.plan.route])
        texts = _plans_over_extracts(call, planned, verbose=options.verbose)
    elif call.plan.route in OVER_TABLES:
        texts = _postgres_plan(call)
    else:
        call, texts = _planned(call, verbose=options.verbose)
    ended = perf_counter()
    return Explanation(
        "PostgreSQL" if call.plan.route in {*OVER_TABLES, *OVER_EXTRACTS} else "Spark",
        call.plan.executor,
        call.plan.reason,
        {name: text.strip("\n") for name, text in texts.items()},
        (ended - started) * 1000,
        _measured(whole if whole.plan.route in QUERIES else call, execute)
        if options.analyze
        else None,
    )


def _of_leaves(call: Invocation, leaves: WrittenLeaves) -> Invocation:
    """Return an UPDATE or a DELETE of several leaves with the route it would take."""
    if partitioned_writes.is_for_hot_rows(call):
        return _decided(_thawing(call))
    if changed_leaves.reads_itself(call, leaves):
        with suppress(UnsupportedError):
            return _decided(_thawing(call))
    return call


def _decided(call: Invocation) -> Invocation:
    """Return a statement that writes tiered tables with the route it would take."""
    try:
        thaws = thawed_writes.applies(call)
    except UnsupportedError:
        merged = upserted_leaves.merged(call) or upserts.merged(call)
        if merged is None:
            raise
        return merged
    return _thawing(call) if thaws else call


def _thawing(call: Invocation) -> Invocation:
    return replace(call, plan=replace(call.plan, route=Route.THAW, reason=hot_runs.REASON))


def _planned(call: Invocation, *, verbose: bool) -> tuple[Invocation, dict[str, str]]:
    """Return Spark's plans for a statement; or PostgreSQL's, which runs what Spark cannot."""
    try:
        return call, _spark_plan(call, verbose=verbose)
    except UnsupportedError as error:
        thawing = _thawing(call)
        if call.plan.route in {*QUERIES, Route.FILL} and call.plan.locks is None:
            return _query_planned(call, error, verbose=verbose)
        if call.plan.route not in {Route.CHANGE, Route.MERGE}:
            raise
        try:
            thawed_writes.applies(thawing)
        except UnsupportedError:
            raise error from None
        return thawing, _postgres_plan(thawing)


def _query_planned(
    call: Invocation, refused: UnsupportedError, *, verbose: bool
) -> tuple[Invocation, dict[str, str]]:
    """Return PostgreSQL's plans for a query that Spark cannot compute: on hot rows, or extracts."""
    if call.plan.route in QUERIES:
        thawing = _thawing(call)
        try:
            thawed_reads.require_possible(thawing, refused)
        except UnsupportedError as error:
            refused = error
        else:
            return thawing, _postgres_plan(thawing)
    plan = replace(call.plan, route=Route.EXTRACT, reason=extracted_reads.REASON)
    if call.plan.route is Route.READ:
        planned = partial(extracted_reads.over_extracts, call, refused)
        return replace(call, plan=plan), _plans_over_extracts(call, planned, verbose=verbose)
    if not extracted_writes.is_possible(call):
        raise refused
    with extracts.told(refused):
        planned = partial(_planned_over_extracts, call, Extraction)
        return replace(call, plan=plan), _plans_over_extracts(call, planned, verbose=verbose)


@contextmanager
def _planned_over_extracts(call: Invocation, planner: _Planner, tell: Tell) -> Iterator[Plan]:
    """Plan a statement that writes over extracts, which are there while the context lasts."""
    session = call.session
    session.transaction.begin_implicit()
    # Extracts that had been there would be a change of definitions to the statement itself.
    session.catalog.transaction.savepoint(SAVEPOINT)
    try:
        yield planner(call, tell).plan()
    finally:
        session.catalog.transaction.abandon(SAVEPOINT)


def _plans_over_extracts(
    call: Invocation,
    planned: Callable[[Tell], AbstractContextManager[Plan]],
    *,
    verbose: bool,
) -> dict[str, str]:
    """Return Spark's plans for each extract, then PostgreSQL's for the statement over them."""
    told: dict[str, dict[str, str]] = {}

    def tell(extract: str, part: Invocation) -> None:
        told[extract.partition(".")[2].strip('"')] = _spark_plan(part, verbose=verbose)

    with planned(tell) as plan:
        over = _postgres_plan(replace(call, plan=plan))
    texts: dict[str, str] = {}
    for number, (extract, plans) in enumerate(told.items(), start=1):
        shown = f"extract_{number}"
        over = {what: re.sub(rf"\b{extract}\b", shown, text) for what, text in over.items()}
        texts |= {f"{what} of {shown}": text for what, text in plans.items()}
    return texts | over


def _postgres_plan(call: Invocation) -> dict[str, str]:
    """Return PostgreSQL's plan for the rows of an INSERT, or for a statement over extracts."""
    result = call.session.catalog.execute_parameters(
        f"EXPLAIN (COSTS OFF) {call.statement.text}",
        call.values,
        parameter_oids=call.parameter_oids,
        formats=call.formats,
    )
    codec = call.session.frontend.encoding
    return {"PostgreSQL Plan": "\n".join((row[0] or b"").decode(codec) for row in result.rows)}


def _spark_plan(call: Invocation, *, verbose: bool) -> dict[str, str]:
    """Compile a statement against what it sees now; return Spark's SQL and plans for it."""
    bound = binding.bind(call)
    observer = Observer(call.session)
    observation = observer.observe(call.plan.tables, call.plan)
    if call.plan.route in {Route.READ, Route.CHANGE, Route.MERGE, Route.APPLY}:
        observation = observer.narrowed(call.plan, observation, bound)
    context = observer.context(call.plan, observation, bound)
    if call.plan.route is Route.INSERT_QUERY:
        inserts.require_returnable(call, observation, bound)
    with ExitStack() as ends:
        observation, context = temporary_rows.brought(call, observation, context, ends)
        query = COMPILERS[command(call.query)](call.query, context)
        planned = observer.explain(query, observation, call.running)
    if call.plan.route is Route.READ and reads.single_row(call, query, observation) is not None:
        planned = replace(planned, physical=BY_KEY)
    texts = {"Spark SQL": planned.sql, "Spark Plan": planned.physical}
    return texts | {"Spark Logical Plans": planned.logical} if verbose else texts


BY_KEY = "none: the gateway reads the row by its key itself"
"""What stands for a physical plan where there is none."""

COMPILERS: dict[Command, Callable[[Node, RewriteContext], SparkQuery]] = {
    Command.SELECT: pipeline.compile_query,
    Command.INSERT: pipeline.compile_insert_source,
    Command.UPDATE: lambda query, context: pipeline.compile_update(query, context).query,
    Command.DELETE: lambda query, context: pipeline.compile_delete(query, context).query,
    Command.MERGE: lambda query, context: pipeline.compile_merge(query, context).query,
}
"""What makes the query of each kind of statement that Spark is to run."""


def _measured(call: Invocation, execute: Execute) -> Measured:
    """Run a statement to its end."""
    started = perf_counter()
    first, taken = 0.0, 0
    result = execute(call)
    for _, rows in result.stream.take(0):
        first = first or perf_counter() - started
        taken += rows
    result.prove()
    total = perf_counter() - started
    rows = int(result.tag(taken).rpartition(" ")[2])
    return Measured((first or total) * 1000, total * 1000, rows)
