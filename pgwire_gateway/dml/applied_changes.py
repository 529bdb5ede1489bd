"""UPDATE and DELETE of resident tables that Spark computes.

Spark reads the journals and yields the keys of the rows that change, with their new values, into a
temporary table. PostgreSQL makes the change by key: constraints, generated columns, triggers,
capture and the command tag are its own.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from catalog.errors import GatewayError
from catalog.model import JournalTable
from catalog.pg import sqlstate as codes
from catalog.session import names, session_state
from catalog.session.applied_statements import ChangeStatement
from catalog.session.statement_parts import UnfaithfulTextError
from catalog.statements.splitting import split
from pgwire_gateway.dml import extracts, inserts, temporary_rows
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.answerable import Answerable
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.session import binding, local_queries, replanning
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from rewrite import pipeline
from rewrite.command import Command, assigned_columns, command, source_relations
from rewrite.errors import UnsupportedError
from rewrite.results import OutputColumn, RowChange
from rewrite.returning import NEW, OLD, Returned, returned, without_written
from rewrite.tree import Node, walk

PREPARED = "pgwire_applied"
"""Name the catalog has for the statement that makes the change."""

STATES: dict[int, str] = {OLD: "old.", NEW: "new."}
"""What PostgreSQL calls the states of a row in RETURNING."""


def run(call: Invocation) -> StatementResult:
    """Have Spark compute a change of a resident table, and PostgreSQL make it.

    Raises:
        GatewayError: PostgreSQL's own errors, 0A000 for what Spark cannot compute.
        OutdatedPlanError: Definitions have changed since it was planned; nothing was done.
    """
    call.session.transaction.begin_implicit()
    change = AppliedChange(call)
    result = local_queries.run_in_place(call, change.plan())
    return replace(result, prove=partial(extracts.finish, result, change.drop))


@dataclass(frozen=True, slots=True)
class _Brought:
    """A column of the extract."""

    source: OutputColumn
    """Where Spark's result has it."""
    like: str
    """An expression of its type, over the table that is changed, as SQL."""


class AppliedChange:
    """The change one statement makes."""

    def __init__(
        self, call: Invocation, tell: Callable[[str, Invocation], None] | None = None
    ) -> None:
        """Prepare the change of a call.

        Args:
            call: The statement.
            tell: Given the extract and the call of the query that would fill it, which stays empty
                then, and nobody is kept from writing.
        """
        self._session = call.session
        self._catalog = call.session.catalog
        self._tell = tell
        try:
            self._statement = ChangeStatement(call.statement.text)
        except UnfaithfulTextError as error:
            raise _unreadable() from error
        self._columns: tuple[Returned, ...] | None = None
        reads_others = self._statement.names_others or _holds_subquery(call.query)
        if call.columns is not None and reads_others:
            if self._statement.names_states:
                raise _unsupported("RETURNING WITH, in a statement on several relations,")
            self._columns = returned(call.query)
        self._announced = call
        query = call.query
        # What PostgreSQL returns need not be known to Spark.
        query = (
            query.replace(returningList=None) if self._columns is None else without_written(query)
        )
        self._call = replace(call, plan=replace(call.plan, query=query))
        self._extract = extracts.new_extract()
        self._brought: list[_Brought] = []

    def plan(self) -> Plan:
        """Compute the change; plan the statement that makes it.

        Raises:
            GatewayError: 42501 when the role may not run it, 25006 in a read-only transaction,
                0A000 for what is not supported.
        """
        extracts.require_writable(self._call)
        self._require_plain_target()
        if self._tell is None:
            self._keep_writers_out()
        bound = binding.bind(self._call)
        observer = Observer(self._session)
        plan = self._call.plan
        observation = observer.observe(plan.tables, plan)
        table = observation.result.snapshots[self._call.target].table
        if not table.key:
            raise _unsupported(f'changing "{table.name}", which has no primary key Spark compares,')
        observation = observer.narrowed(plan, observation, bound)
        context = observer.context(plan, observation, bound)
        with ExitStack() as ends:
            observation, context = temporary_rows.brought(self._call, observation, context, ends)
            compiled = COMPILERS[command(self._call.query)](self._call.query, context)
            text = self._text(table, compiled)
            if self._tell is None:
                self._fill(table, compiled, observation)
            else:
                self._create(table)
                self._tell(self._extract, self._call)
        return self._planned(text)

    def drop(self) -> None:
        """Remove the extract, as far as the transaction has not done it already."""
        extracts.drop(self._session, [self._extract])

    # before ---------------------------------------------------------------------------------------

    def _require_plain_target(self) -> None:
        """Refuse targets by other names than their own, and those whose rows others may hold."""
        relid = self._call.target
        named = self._statement.relation
        if names.relation_oids(self._catalog, [named]) != [relid]:
            raise _unsupported(f'changing a table through "{named.name}"')
        if names.is_in_tree(self._catalog, relid):
            raise _unsupported(f'changing "{named.name}", a partition or an inheriting table,')

    def _keep_writers_out(self) -> None:
        """Let nobody change the table between Spark's snapshot and that of the statement.

        Where these are one, PostgreSQL refuses to change rows that others have changed since.
        """
        if session_state.keeps_snapshot(self._catalog):
            return
        relid = self._call.target
        relation = self._catalog.observations.relations([relid])[relid]
        if not names.may_lock(self._catalog, relid):
            Observer(self._session).observe((), self._call.plan)
            raise _unsupported(f'changing "{relation.name}" by privileges for columns only')
        # Not a weaker mode: who has locked rows to change them next would wait for us, and we for
        # those rows.
        table = names.quoted(relation.schema, relation.name)
        local_queries.pass_on(self._session, f"LOCK TABLE ONLY {table} IN EXCLUSIVE MODE")

    # the extract ----------------------------------------------------------------------------------

    def _text(self, table: JournalTable, compiled: RowChange) -> str:
        """Return the statement over the extract, and note what that has to hold."""
        query = self._call.query
        outputs = {column.column: column for column in compiled.query.columns}
        old = "k" if compiled.changes_key else "n"
        keys = {}
        for attnum in table.key:
            name = table.column(attnum).name
            keys[name] = self._bring(outputs[f"{old}{attnum}"], names.quoted(name))
        values = {}
        for attnum in _assigned(query):
            name = table.column(attnum).name
            values[name] = self._bring(outputs[f"n{attnum}"], names.quoted(name))
        if command(query) is Command.UPDATE and not values:
            raise _unsupported("SET of generated columns only")
        try:
            return self._statement.over(
                self._extract, keys, values, self._returned(compiled.returning)
            )
        except UnfaithfulTextError as error:
            raise _unreadable() from error

    def _bring(self, source: OutputColumn, like: str) -> str:
        """Have the extract hold a column; return it as SQL."""
        self._brought.append(_Brought(source, like))
        extract = self._extract.partition(".")[2]
        return f"{extract}.{names.quoted(_column(len(self._brought)))}"

    def _returned(self, computed: Sequence[OutputColumn]) -> list[str] | None:
        """Return what RETURNING is to name; None for what it names itself."""
        if self._columns is None:
            return None
        named = []
        others = iter(computed)
        for entry in self._columns:
            if entry.column is not None:
                state = STATES.get(entry.state, f"{names.quoted(self._statement.alias)}.")
                value = f"{state}{names.quoted(entry.column)}"
            else:
                source = next(others)
                kind = names.type_name(self._catalog, source.type_oid, source.typmod)
                value = self._bring(source, f"NULL::{kind}")
            named.append(f"{value} AS {names.quoted(entry.name)}")
        return named

    def _fill(self, table: JournalTable, compiled: RowChange, observation: Observation) -> None:
        query = replace(compiled.query, columns=tuple(column.source for column in self._brought))
        with Observer(self._session).run(query, observation, self._call.running) as batches:
            self._create(table)
            inserts.copy(self._session, query, batches, self._extract, self._names())

    def _create(self, table: JournalTable) -> None:
        listed = ", ".join(map(names.quoted, self._names()))
        kinds = ", ".join(column.like for column in self._brought)
        local_queries.pass_on(
            self._session,
            f"CREATE TEMPORARY TABLE {self._extract} ({listed}) ON COMMIT DROP AS SELECT {kinds}"  # noqa: S608 - quoted
            f" FROM ONLY {names.quoted(table.schema, table.name)} WITH NO DATA",
        )

    def _names(self) -> list[str]:
        return [_column(number) for number in range(1, len(self._brought) + 1)]

    # after ----------------------------------------------------------------------------------------

    def _planned(self, text: str) -> Plan:
        """Plan the statement that makes the change.

        Raises:
            UnsupportedError: 0A000, PostgreSQL would read other tables, or return other columns.
        """
        announced = self._announced.plan
        (statement,) = split(text)
        self._catalog.analyses.deallocate(PREPARED)
        try:
            analysis = self._catalog.analyses.analyse(
                text, self._call.parameter_oids, name=PREPARED
            )
        except GatewayError as error:
            raise _unreadable() from error
        (query,) = pipeline.parse_tree(analysis.tree or "")
        relid = self._call.target
        found = self._catalog.observations.relations({*source_relations(query), relid})
        plan = replace(
            announced,
            statement=statement,
            route=Route.CATALOG,
            analysis=analysis,
            basis=None,
            prepared=PREPARED,
            answerable=Answerable.of(self._catalog.observations.definitions(), found.values()),
            named=None,
        )
        others = [r for r in found.values() if r.relid != relid and not r.is_lasting]
        if others or replanning.row_type(plan) != replanning.row_type(announced):
            raise _unreadable()
        try:
            Observer(self._session).observe((), plan)
        except GatewayError as error:
            if error.sqlstate != codes.INSUFFICIENT_PRIVILEGE:
                raise
            raise _unsupported("changing a table whose key one may not read") from error
        return plan


COMPILERS = {Command.UPDATE: pipeline.compile_update, Command.DELETE: pipeline.compile_delete}


def _column(number: int) -> str:
    """Return the name of a column of the extract; the blank keeps it from being a client's."""
    return f"computed {number}"


def _assigned(query: Node) -> list[int]:
    if command(query) is Command.DELETE:
        return []
    return assigned_columns(query)


def _holds_subquery(query: Node) -> bool:
    return any(node.tag == "SUBLINK" for e in query.items("returningList") for node, _ in walk(e))


def _unsupported(construct: str) -> UnsupportedError:
    return UnsupportedError(
        f"{construct} is not supported by gateway.executor = spark", hint=forced.HINT
    )


def _unreadable() -> UnsupportedError:
    return _unsupported("this form of a statement that changes a resident table")
