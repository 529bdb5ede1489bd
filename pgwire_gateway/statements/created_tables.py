"""CREATE TABLE AS and SELECT INTO of what PostgreSQL cannot read by itself.

The table is created without rows, then filled by an INSERT of the same query, in one transaction.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

from catalog.errors import GatewayError, OutdatedAnswerError
from catalog.pg import sqlstate as codes
from catalog.pg.statement_tokens import Piece
from catalog.session import names
from catalog.statements.splitting import RelationName, Statement, split
from pgwire_gateway.hot import insert_sizes
from pgwire_gateway.planning import answerable, router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.session import local_queries, replanning
from pgwire_gateway.session.binding import BINARY
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.statements import prepared_statements
from rewrite.errors import UnsupportedError

Execute = Callable[[Invocation], StatementResult]
ExecuteText = Callable[[str], StatementResult]


def create(call: Invocation, execute: Execute, execute_text: ExecuteText) -> StatementResult:
    """Create a table of what a query yields.

    Args:
        call: CREATE TABLE AS or SELECT INTO.
        execute: Runs a planned statement in its place.
        execute_text: Runs a statement that is part of it.

    Raises:
        OutdatedAnswerError: In a transaction block, where a table of the query became tiered.
        UnsupportedError: 0A000 where the query changes tables.
    """
    session = call.session
    is_own = call.alone and not session.transaction.open
    creation = _Creation(call, execute, execute_text)
    for _ in range(replanning.ATTEMPTS):
        try:
            return creation.run()
        except OutdatedAnswerError:
            if not is_own:
                raise
            session.catalog.transaction.rollback()
            session.finish_watch()
            session.transaction.settle()
    raise replanning.outdated_too_often()


class _Creation:
    """One such statement, with what runs its parts."""

    def __init__(self, call: Invocation, execute: Execute, execute_text: ExecuteText) -> None:
        self._call = call
        self._session = call.session
        self._details = call.statement.details
        self._execute = execute
        self._execute_text = execute_text

    def run(self) -> StatementResult:
        """Create the table; by PostgreSQL alone where it can read what the query reads."""
        session, details = self._session, self._details
        if details.get("executes") and details["with_data"]:
            return self._of_prepared()
        # What the query's analysis locks stays what its names mean.
        session.transaction.begin_implicit()
        session.transaction.note_run()
        inner = self._inner_plan()
        if inner is not None and inner.route is Route.CATALOG and not self._is_large():
            tag = local_queries.tag_of(session, self._call.statement.text)
            answerable.prove(session.catalog, inner.answerable)
            return StatementResult(None, NoRows(), lambda _: tag)
        return self._created_and_filled(details["query"].text)

    def _inner_plan(self) -> Plan | None:
        """Return the plan of the query.

        None where PostgreSQL cannot run such a statement as it is, whatever the query.
        """
        catalog, details = self._session.catalog, self._details
        if not catalog.has_resident_tables or details.get("executes"):
            return None
        query = details["query"]
        with _placed_in(query):
            return router.plan(catalog, split(query.text)[0], (), "")

    def _is_large(self) -> bool:
        """Return whether more rows are expected than a resident table is to have."""
        session, details = self._session, self._details
        most_rows = self._call.services.catalog.bounds.rows
        if not most_rows or not details["with_data"] or details["materialized"]:
            return False
        # Whether there is such a table already is not known yet.
        if details["temporary"] or details["if_not_exists"]:
            return False
        query = details["query"]
        if _changes_tables(split(query.text)[0]):
            return False
        with _placed_in(query):
            return insert_sizes.expected_rows_of(session, query.text) > most_rows

    def _of_prepared(self) -> StatementResult:
        """Run CREATE TABLE AS EXECUTE: as it is where rows and table are PostgreSQL's."""
        session, details = self._session, self._details
        session.transaction.begin_implicit()
        (inner,) = split(details["query"].text)
        with session.unnamed() as name:
            named = prepared_statements.find(session, inner, name)
        is_kept = details["temporary"] or session.catalog.has_resident_tables
        if named is not None and (named.plan.route is not Route.CATALOG or not is_kept):
            session.transaction.note_run()
            query = named.query
            offset = details["query"].offset
            oids = query.parameter_oids
            given = partial(prepared_statements.arguments, self._call, inner, oids, offset)
            return self._created_and_filled(query.statement.text, oids, given)
        found = None if named is None else named.plan.answerable
        result = session.catalog.execute(self._call.statement.text)
        for _ in result.rows:
            pass
        answerable.prove(session.catalog, found)
        tag = result.command_tag or "SELECT 0"
        return StatementResult(None, NoRows(), lambda _: tag)

    def _created_and_filled(
        self,
        query: str,
        parameter_oids: Sequence[int] = (),
        arguments: Callable[[], Sequence[bytes | None]] = tuple,
    ) -> StatementResult:
        """Create a table of the columns of a query, then insert its rows, unless it exists.

        Args:
            query: What yields the rows.
            parameter_oids: Types of its parameters.
            arguments: Returns their values in binary, once they are needed.
        """
        session, details = self._session, self._details
        (source,) = split(query)
        # PostgreSQL itself refuses this of a materialized view.
        if _changes_tables(source) and not details["materialized"]:
            raise UnsupportedError(
                "CREATE TABLE AS of a query that changes tables in WITH is not supported"
            )
        with session.notices() as notices:
            created = local_queries.pass_on(session, details["create_sql"])
        exists = any(fields.get("C") == codes.DUPLICATE_TABLE for fields in notices)
        if exists:
            return created
        if details["materialized"]:
            raise UnsupportedError(
                "CREATE MATERIALIZED VIEW of rows that PostgreSQL does not have is not supported",
                hint="Create a table of them: CREATE TABLE ... AS.",
            )
        if not details["with_data"]:
            return created
        values = arguments()
        try:
            result = self._filled(source, parameter_oids, values)
        except GatewayError as error:
            error.position = None  # in a text that the client has not sent
            raise
        rows = result.status().rpartition(" ")[2]
        return StatementResult(None, NoRows(), lambda _: f"SELECT {rows}")

    def _filled(
        self,
        source: Statement,
        parameter_oids: Sequence[int],
        values: Sequence[bytes | None],
    ) -> StatementResult:
        """Insert the rows of a query with the given values for its parameters."""
        target = self._target()
        is_hidden = RelationName(None, target.name) in source.relations
        named = self._renamed(target) if is_hidden else nullcontext(target)
        prepared = self._session.unnamed() if values else nullcontext("")
        with named as table, prepared as name:
            (insert,) = split(f"INSERT INTO {names.qualified(table)} {source.text}")
            plan = router.plan(self._session.catalog, insert, parameter_oids, name)
            formats = (BINARY,) * len(values)
            running = self._call.running
            return self._execute(
                Invocation(self._session, plan, running, values, formats, alone=False)
            )

    def _target(self) -> RelationName:
        """Return the name of the new table, by which nothing else can be meant."""
        schema, name = self._details["target"]
        if schema is None and self._details["temporary"]:
            schema = "pg_temp"
        elif schema is None:
            schema = names.current_schema(self._session.catalog)
        return RelationName(schema, name)

    @contextmanager
    def _renamed(self, table: RelationName) -> Iterator[RelationName]:
        """Give a new table another name for a while, and yield it: it hides what had its own."""
        other = RelationName(table.schema, uuid.uuid4().hex)
        self._rename(table, other)
        yield other
        self._rename(other, table)

    def _rename(self, table: RelationName, other: RelationName) -> None:
        self._execute_text(
            f"ALTER TABLE {names.qualified(table)} RENAME TO {names.quoted(other.name)}"
        )


def _changes_tables(query: Statement) -> bool:
    return bool(query.details.get("modifying"))


@contextmanager
def _placed_in(query: Piece) -> Iterator[None]:
    """Tell where errors of a query are in the statement around it."""
    try:
        yield
    except GatewayError as error:
        error.position = error.position and error.position + query.offset
        raise
