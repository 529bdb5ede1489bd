"""Run compiled queries on Spark and hand out their rows as Arrow batches, cancellably."""

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from catalog.model import TableSnapshot
from pgwire_gateway.spark.api import Driver, Rows
from pgwire_gateway.spark.batches import Batches
from pgwire_gateway.spark.engine import Sessions, SparkEngine
from pgwire_gateway.spark.errors import SparkLostError, storage_failures, translate
from pgwire_gateway.spark.relations import Relation, Relations, substitute
from pgwire_gateway.spark.result_plans import ResultPlan, plan_result
from pgwire_gateway.spark.row_values import NotEvaluatedError
from pgwire_gateway.spark.scans import FileScan, file_scan
from pgwire_gateway.spark.selected_rows import SelectedRows, Selections, TooManyRowsError
from pgwire_gateway.spark.statements import RunningStatement
from rewrite.results import Scan, Selection, SparkQuery

__all__ = ["Batches", "Executor", "RunningStatement", "failures"]

_BLANK_LINES: Final = re.compile(r"\n(?:[ \t]*\n){2,}")


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """How Spark runs a query, for people."""

    sql: str
    """The query as compiled, with views named by table and part of the journal."""
    physical: str
    """Spark's physical plan; says so where it is not used."""
    logical: str
    """Spark's logical plans: parsed, analysed, optimized."""


class Executor:
    """Runs compiled queries."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations
        self._selections = Selections(relations.warehouse)

    def run(
        self,
        query: SparkQuery,
        *,
        relations: Iterable[Relation],
        sessions: Sessions,
        statement: RunningStatement,
    ) -> Batches:
        """Start a query; results that are small are complete when this returns.

        Raises:
            GatewayError: 57014 when cancelled, 57P02 when Spark was lost, else what the query's
                evaluation met, also while iterating.
        """
        used = tuple(relations)
        engine = self._relations.engine
        driver = sessions.small.driver
        with failures(engine, driver, statement):
            plan = self._planned(query, used, driver)
            files = self._file_scan(query, used, plan.delivery.batch_rows)
            if query.scan is not None and files is not None:
                return _scanned(query.scan, files, statement)
            selected = self._selected(query, used)
            if query.selection is not None and selected is not None:
                answered = _answered(query.selection, selected, plan.delivery.batch_rows, statement)
                if answered is not None:
                    return answered
            group = statement.begin(driver)
            session = sessions.of_kind(plan.kind)
            session.enter(group)
            with self._relations.lease(used, session, plan.kind) as names:
                frame = session.query(substitute(plan.sql, names, plan.kind))
            found = frame.rows(
                plan.delivery, check=statement.check, enter=partial(session.enter, group)
            )
            if found.is_complete:
                statement.end(group)
                rows = _within(iter(found), plan.offset, plan.limit)
                return Batches(found.schema, rows, found.close)
        running = _Streaming(engine, driver, statement, group, found)
        rows = _within(iter(running), plan.offset, plan.limit)
        return Batches(found.schema, rows, running.close)

    def row_bytes(self, snapshot: TableSnapshot) -> int:
        """Return how large a row version of a table is in memory on average."""
        return self._relations.row_bytes(snapshot, self._relations.engine.driver)

    def explain(
        self,
        query: SparkQuery,
        *,
        relations: Iterable[Relation],
        sessions: Sessions,
        statement: RunningStatement,
    ) -> SparkPlan:
        """Return how a query would be run; nothing is.

        Raises:
            GatewayError: As :meth:`run`.
        """
        used = tuple(relations)
        engine = self._relations.engine
        driver = sessions.small.driver
        with failures(engine, driver, statement):
            plan = self._planned(query, used, driver)
            group = statement.begin(driver)
            session = sessions.of_kind(plan.kind)
            session.enter(group)
            with self._relations.lease(used, session, plan.kind) as names:
                told = session.explain(substitute(plan.sql, names, plan.kind))
            physical, logical = (
                self._without_place(text, used) for text in (told.physical, told.logical)
            )
            statement.end(group)
            files = self._file_scan(query, used, plan.delivery.batch_rows) or self._selected(
                query, used
            )
        if files is not None:
            physical = f"none: the gateway reads the rows from data files itself ({files.count})"
        sql = substitute(
            query.sql, {relation.source.view: _readable(relation) for relation in used}
        )
        return SparkPlan(sql, physical, logical)

    def _planned(self, query: SparkQuery, used: tuple[Relation, ...], driver: Driver) -> ResultPlan:
        width = max((self._relations.row_bytes(r.snapshot, driver) for r in used), default=0)
        return plan_result(query, width)

    def _without_place(self, plan: str, used: Iterable[Relation]) -> str:
        """Leave out where the data files are, which is nobody's business but the operator's."""
        places = [self._relations.warehouse.root]
        places += [
            external.location
            for relation in used
            if (external := relation.snapshot.table.external) is not None
        ]
        for place in (*places, *self._lenders(used)):
            plan = plan.replace(f"file:{place}/", "")
        return _BLANK_LINES.sub("\n\n", plan)

    def _lenders(self, used: Iterable[Relation]) -> set[str]:
        """Return the directories of others whose files are part of relations."""
        segments = [segment for relation in used for segment in relation.segments()]
        with storage_failures():
            found = [self._relations.warehouse.borrowed(segment) for segment in segments]
        files = [file for borrowed in found if borrowed is not None for file in borrowed.files]
        return {str(Path(file.path).parent) for file in files}

    def _selected(self, query: SparkQuery, relations: tuple[Relation, ...]) -> SelectedRows | None:
        if query.selection is None:
            return None
        return self._selections.rows(query.selection, relations)

    def _file_scan(
        self, query: SparkQuery, relations: tuple[Relation, ...], batch_rows: int
    ) -> FileScan | None:
        if query.scan is None:
            return None
        (relation,) = relations
        return file_scan(query.scan, relation, self._relations.warehouse, batch_rows)


def _readable(relation: Relation) -> str:
    table = relation.snapshot.table
    return f"{table.schema}.{table.name}_{relation.source.part.value}"


def _scanned(scan: Scan, files: FileScan, statement: RunningStatement) -> Batches:
    """Return the rows of a scan of files."""

    def checked() -> Iterator[pa.RecordBatch]:
        for batch in files:
            statement.check()
            yield batch

    statement.check()
    return Batches(files.schema, _within(checked(), scan.offset, scan.limit), files.close)


def _answered(
    selection: Selection, selected: SelectedRows, batch_rows: int, statement: RunningStatement
) -> Batches | None:
    """Return the rows of a selection; None where some are Spark's to look at.

    Rows that can be errors are all looked at before any is given away.
    """
    statement.check()
    found: Iterable[pa.RecordBatch]
    if selected.can_fail:
        try:
            found = selected.held(statement.check)
        except (NotEvaluatedError, TooManyRowsError):
            return None
    else:
        found = selected.batches(statement.check)
    batches = (
        batch.slice(start, batch_rows)
        for batch in found
        for start in range(0, batch.num_rows, batch_rows)
    )
    rows = _within(batches, selection.offset, selection.limit)
    return Batches(selected.schema, rows, rows.close)


def _within(
    batches: Iterator[pa.RecordBatch], offset: int, limit: int | None
) -> Generator[pa.RecordBatch]:
    """Yield the rows that OFFSET and LIMIT leave, reading no further than they need."""
    skip, left = offset, limit
    for whole in batches:
        batch = whole.slice(skip) if skip else whole
        skip -= min(skip, whole.num_rows)
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if batch.num_rows:
            yield batch
        if left == 0:
            return


class _Streaming:
    """A result that is being computed while it is read."""

    def __init__(
        self,
        engine: SparkEngine,
        driver: Driver,
        statement: RunningStatement,
        group: str,
        stream: Rows,
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._statement = statement
        self._group = group
        self._stream = stream
        self._complete = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        batches = iter(self._stream)
        while True:
            with failures(self._engine, self._driver, self._statement):
                self._statement.check()
                batch = next(batches, None)
            if batch is None:
                self._complete = True
                return
            yield batch

    def close(self) -> None:
        """End the work that is not done."""
        self._stream.close()
        if not self._complete:
            with failures(self._engine, self._driver, self._statement, silent=True):
                self._driver.cancel(self._group)
        self._statement.end(self._group)


@contextmanager
def failures(
    engine: SparkEngine,
    driver: Driver,
    statement: RunningStatement,
    *,
    silent: bool = False,
) -> Iterator[None]:
    """Turn failures of Spark into errors of the statement.

    Raises:
        GatewayError: See :func:`translate`; 57014 for whatever a cancelled statement meets.
    """
    try:
        yield
    except Exception as error:
        statement.fail()
        failure = translate(error, driver.told(error))
        if isinstance(failure, SparkLostError):
            engine.failed(driver)
        if silent:
            return
        statement.check()
        if failure is error:
            raise
        raise failure from error
