"""Which rows of a tiered table a statement can touch, and what these rows are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

import pyarrow as pa

from catalog.model import JournalTable
from catalog.names import quoted
from catalog.results import RelationKind
from pgwire_gateway.session import forced, source_rows
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.plans import Route
from pgwire_gateway.session.source_rows import SourceRows
from pgwire_gateway.session.text_rows import key_row, text_rows
from pgwire_gateway.session.value_search import rows_with
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import input_rows
from pgwire_gateway.wire_types.changed_rows import TextRow
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from rewrite.context import ParameterValue
from rewrite.keys import compile_stored_rows
from rewrite.needs.definitions import Definitions, Relation, UniqueKey
from rewrite.needs.keys import (
    NO_CONTENTS,
    Contents,
    Key,
    draws,
    keys,
    named,
    named_and_others,
    types_of,
)
from rewrite.needs.results import Need, Needs, Refusal
from rewrite.needs.search import Condition, condition, search
from rewrite.needs.sources import Source, sources
from rewrite.needs.statement import needs
from rewrite.pipeline import compile_query, parse_tree, relations
from rewrite.tree import Node

MOST_BYTES: Final = 64 << 20
"""Values of the rows that a statement makes hot."""


@dataclass(frozen=True, slots=True)
class NeededRows:
    """What a statement needs of the one tiered table it writes, or locks rows of."""

    needs: Needs
    table: JournalTable
    conditions: tuple[Condition, ...]
    """What is asked for by conditions, where no keys name it."""
    template: Node | None
    """The query of all rows of the table, where there are conditions."""
    sources: frozenset[Source]
    """What is to be looked at before, as it tells keys."""
    draws: bool
    """Whether it may insert rows whose keys are known only when it has run."""
    most: int
    """How many keys there may be. More of them Spark changes as a whole, where it can."""

    def keys(
        self, bound: tuple[ParameterValue, ...], contents: Contents = NO_CONTENTS
    ) -> list[Key]:
        """Return the keys of the rows, in an order of their own.

        Raises:
            Refusal: They are not named by their keys, or are too many.
        """
        found = keys(self.needs, self.table, bound, most=self.most, contents=contents)
        return sorted(found, key=repr)

    def wanted(
        self, bound: tuple[ParameterValue, ...], contents: Contents = NO_CONTENTS
    ) -> "WantedRows":
        """Return the rows by what names them with these parameters, and what sources hold.

        Raises:
            Refusal: All rows are needed, or more than a statement on single rows can have.
        """
        keyed, others = named_and_others(
            self.needs,
            self.table,
            bound,
            most=self.most,
            contents=contents,
            drawn=self.draws,
        )
        searched: list[Need] = []
        held: list[tuple[tuple[int, ...], frozenset[Key]]] = []
        for need in others:
            by_value = self._by_value(need, bound, contents)
            if by_value is not None:
                held.append(by_value)
            elif need.conditions or need.enough is not None:
                searched.append(need)
            else:
                raise Refusal("values that are not plain constants are not supported")
        asked = [
            (condition, (condition.digest, repr([bound[n - 1] for n in condition.parameters])))
            for condition in self.conditions
            if any(condition.need is need for need in searched)
        ]
        return WantedRows(sorted(keyed, key=repr), asked, held)

    def _by_value(
        self, need: Need, bound: tuple[ParameterValue, ...], contents: Contents
    ) -> tuple[tuple[int, ...], frozenset[Key]] | None:
        """Return the unique key that names the rows of a need, and its values; None for none."""
        types = types_of(self.table)
        for key in self.table.unique_keys:
            if key.computed is not None:
                continue
            values = named(need, key.columns, types, bound, most=self.most, contents=contents)
            if values is not None:
                return key.columns, values
        return None


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Rows of a table by their keys, and by conditions."""

    keys: list[Key]
    conditions: Sequence[tuple[Condition, object]]
    """Each with what is equal only for equal conditions with equal parameters."""
    values: Sequence[tuple[tuple[int, ...], frozenset[Key]]]
    """Columns of unique keys, and values they have together."""


@dataclass(frozen=True, slots=True)
class SingleRows:
    """Rows of a tiered table that are looked up by their keys."""

    present: tuple[TextRow, ...]
    """Those there are: PostgreSQL's texts of all columns, and None."""
    absent: tuple[TextRow, ...]
    """Keys without a row; the other columns are None."""
    sources: SourceRows = source_rows.NO_ROWS
    """What tables that tell keys have held."""


def needed_rows(call: Invocation) -> NeededRows:
    """Return what a statement needs; found out once for its text and what that means.

    Raises:
        Refusal: PostgreSQL cannot run it on single rows.
        GatewayError: 42501 when the role may not run it.
        OutdatedPlanError: Definitions have changed since it was planned.
    """
    kept, place = call.session.needed_rows, _place(call)
    found = kept.get(place)
    if found is None:
        try:
            found = _found_out(call)
        except Refusal as refusal:
            found = refusal
        kept.keep(place, found)
    if isinstance(found, Refusal):
        raise found
    return found


def known_rows(call: Invocation) -> NeededRows | None:
    """Return what a statement is known to need; None where it cannot be told, or not yet."""
    found = call.session.needed_rows.get(_place(call))
    return found if isinstance(found, NeededRows) else None


def _place(call: Invocation) -> object:
    plan = call.plan
    locked = plan.locks and plan.locks.relids
    # Constants of the same text are others in other time zones, or tomorrow.
    tree = plan.analysis and plan.analysis.tree
    digest = sha256((tree or "").encode("utf-8", "surrogateescape")).digest()
    return plan.statement.text, digest, call.parameter_oids, plan.basis, plan.target, locked


def _found_out(call: Invocation) -> NeededRows:
    plan, catalog, config = call.plan, call.session.catalog, call.services.config
    query = plan.locking or call.query
    if forced.is_forced(plan):
        raise Refusal("gateway.executor keeps PostgreSQL from running it")
    if plan.journals:
        raise Refusal("reading journals in a statement on single rows is not supported")
    known = plan.basis and plan.basis.definitions
    tables = catalog.relations(relations((query,)) | plan.tables, definitions=known)
    tiered = frozenset(r for r in plan.tables if tables[r].kind is RelationKind.JOURNALED)
    if any(not tiered.isdisjoint(leaves.relids) for leaves in plan.partitioned.values()):
        raise Refusal("reading several tiered partitions in a statement on single rows")
    locked = plan.locks.relids if plan.locks else frozenset({call.target})
    if len(locked) != 1:
        raise Refusal("locking rows of several tables in a statement on single rows")
    (relid,) = locked
    table = Observer(call.session).observe([relid], call.plan).result.snapshots[relid].table
    generated = frozenset(column.attnum for column in table.columns if column.generated)
    # An index tells who has a value among hot rows only.
    others = tuple(
        UniqueKey(key.columns, computed=key.computed is not None, kept_afterwards=True)
        for key in table.unique_keys
    )
    relation = Relation(((UniqueKey(table.key),) if table.key else ()) + others, generated)
    volatility = call.session.volatilities.of
    readable = source_rows.readable(tables)
    definitions = Definitions(tiered, volatility, {relid: relation}, readable=readable)
    found = needs([query], definitions)
    named_by = (table.key, *(key.columns for key in table.unique_keys if key.computed is None))
    asked = sources((need for one in found.occurrences for need in one.needs), named_by)
    most = config.inline_rows if plan.route is Route.CHANGE else config.thaw_rows
    conditions = tuple(
        condition(need, volatility)
        for occurrence in found.occurrences
        for need in occurrence.needs
        if need.conditions or need.enough is not None
    )
    template = _template(call, table) if conditions else None
    # Spark may know a way for an UPDATE.
    drawn = plan.route in {Route.THAW, Route.MERGE} and draws(found, table)
    return NeededRows(found, table, conditions, template, asked, drawn, most)


def _template(call: Invocation, table: JournalTable) -> Node:
    name = quoted(table.schema, table.name)
    analysis = call.session.catalog.analyse(f"SELECT * FROM ONLY {name}")  # noqa: S608 - quoted
    (query,) = parse_tree(analysis.tree or "")
    return query


def find(  # noqa: PLR0913 - the condition, and what it is searched in
    call: Invocation,
    needed: NeededRows,
    wanted: Condition,
    observation: Observation,
    bound: tuple[ParameterValue, ...],
    *,
    most: int,
    few: bool,
) -> list[TextRow]:
    """Have Spark find the current rows that a condition asks for.

    Args:
        call: The statement.
        needed: What it needs.
        wanted: The condition.
        observation: The table as it is.
        bound: Values of the statement's parameters.
        most: How many rows may become hot.
        few: Whether only so many are wanted as are enough.

    Raises:
        Refusal: They are more than may be hot for a statement.
        UnsupportedError: Spark cannot evaluate the condition.
    """
    observer = Observer(call.session)
    if needed.template is None:
        raise TypeError(call.plan.route)
    context = observer.context(call.plan, observation, bound)
    query = compile_query(search(needed.template, wanted.need, few=few), context)
    columns = [
        ResultColumn(column.type_oid, column.typmod, 0, column.column, column.scale)
        for column in query.columns
    ]
    found: list[TextRow] = []
    size = 0
    with observer.run(query, observation, call.running) as batches:
        for batch in batches:
            size += batch.nbytes
            _require_few_bytes(size)
            if len(found) + batch.num_rows > most:
                raise Refusal(f"a condition that more than {most} rows satisfy is not supported")
            found += ([*row, None] for row in input_rows(batch, columns))
    return found


def holders(
    call: Invocation,
    observation: Observation,
    table: JournalTable,
    columns: tuple[int, ...],
    values: frozenset[Key],
) -> list[TextRow]:
    """Find the current rows that have one of some values of a unique key.

    Raises:
        Refusal: The files can only be read by Spark.
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    rows = rows_with(observation, table.relid, columns, values, call.services.lookups)
    if rows is None:
        raise Refusal("the files of the table are read by Spark only")
    _require_few_bytes(rows.nbytes)
    return text_rows(table, rows)


class Finder(Protocol):
    """What finds rows by a condition, as `find` does."""

    def __call__(  # noqa: PLR0913 - as there
        self,
        call: Invocation,
        needed: NeededRows,
        wanted: Condition,
        observation: Observation,
        bound: tuple[ParameterValue, ...],
        *,
        most: int,
        few: bool,
    ) -> list[TextRow]:
        """Return the rows."""


def stored_rows(
    call: Invocation, observation: Observation, table: JournalTable, found: Iterable[Key]
) -> SingleRows:
    """Have Spark look rows of a table up by their keys."""
    keys = list(found)
    if not keys:
        return SingleRows((), ())
    types = [table.column(attnum).type_oid for attnum in table.key]
    wanted = [tuple(map(ParameterValue, types, key)) for key in keys]
    query = compile_stored_rows(observation.result.snapshots[table.relid], wanted)
    with Observer(call.session).run(query, observation, call.running) as batches:
        rows = pa.Table.from_batches(list(batches), schema=batches.schema)
    return _single_rows(table, rows, keys)


def look_up(
    lookups: Lookups, observation: Observation, relid: int, found: Iterable[Key]
) -> SingleRows:
    """Look rows of a table up in tail and files, without Spark.

    Raises:
        Refusal: The files can only be read by Spark.
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    keys = list(found)
    if not keys:
        return SingleRows((), ())
    rows = observation.current_rows(relid, keys, lookups)
    if rows is None:
        raise Refusal("the files of the table are read by Spark only")
    return _single_rows(observation.result.snapshots[relid].table, rows, keys)


def _require_few_bytes(size: int) -> None:
    """Refuse rows that are too many bytes to be made hot: they travel as one text."""
    if size > MOST_BYTES:
        raise Refusal(f"single rows of more than {MOST_BYTES >> 20} MB are not supported")


def _single_rows(table: JournalTable, rows: pa.Table, keys: Sequence[Key]) -> SingleRows:
    _require_few_bytes(rows.nbytes)
    there = set(plain_keys.tuples(rows, [f"c{attnum}" for attnum in table.key]))
    return SingleRows(
        tuple(text_rows(table, rows)),
        tuple(key_row(table, key) for key in keys if key not in there),
    )
