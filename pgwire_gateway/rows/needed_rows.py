"""Which rows of a tiered table a statement can touch, and what these rows are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

from catalog.model import JournalTable
from catalog.results import RelationKind
from catalog.session import names
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.plans import Plan, Route, WrittenLeaves
from pgwire_gateway.rows import source_rows
from pgwire_gateway.rows.leaf_queries import Division, divisions
from pgwire_gateway.rows.leaf_queries import queries as leaf_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from rewrite.command import written_relations
from rewrite.context import ParameterValue
from rewrite.key_constants import is_readable
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
from rewrite.needs.search import Condition, condition
from rewrite.needs.sources import DRAWN, Source, sources
from rewrite.needs.statement import needs
from rewrite.pipeline import parse_tree, relations
from rewrite.tree import Node, parse_item, walk


@dataclass(frozen=True, slots=True)
class NeededRows:
    """What a statement needs of a tiered table: the first one it writes, or locks rows of."""

    needs: Needs
    table: JournalTable
    conditions: tuple[Condition, ...]
    """What is asked for by conditions, where no keys name it."""
    template: Node | None
    """The query of all rows of the table, where there are conditions."""
    sources: frozenset[Source]
    """What is to be looked at before, as it tells keys."""
    draws: bool
    """Whether it may write unique keys that are known only when it has run."""
    most: int
    """How many keys there may be. More of them Spark changes as a whole, where it can."""
    takes: bool = True
    """Whether it writes or locks the rows; else it only reads them."""
    is_upsert: bool = False
    """Whether rows in conflict with others are not inserted: ON CONFLICT."""
    further: tuple["NeededRows", ...] = ()
    """What it needs of other tiered tables."""
    beside: tuple[int, ...] = ()
    """These tables, and the first one, but for this one."""
    trees: tuple[WrittenLeaves, ...] = ()
    """What is written by the names of partitioned tables."""

    @property
    def drawn(self) -> frozenset[tuple[int, ...]]:
        """The columns of the unique keys that are known only when it has run."""
        return frozenset(recorded.columns for recorded in self.needs.recorded)

    @property
    def tells_late(self) -> bool:
        """Whether what it has written tells which other rows it would have met."""
        return self.draws or (self.needs.arbitrates and bool(self.needs.written))

    @property
    def is_queue(self) -> bool:
        """Whether it locks rows of a table one after the other until it has enough of them."""
        conditions = (one for part in (self, *self.further) for one in part.conditions)
        return any(one.need.queue is not None for one in conditions)

    @property
    def all_sources(self) -> frozenset[Source]:
        """What is to be looked at before, as it tells keys of any of the tables."""
        return self.sources.union(*(part.sources for part in self.further))

    def keys(
        self, bound: tuple[ParameterValue, ...], contents: Contents = NO_CONTENTS
    ) -> list[Key]:
        """Return the keys of the rows, in an order of their own.

        Raises:
            Refusal: They are not named by their keys, or are too many, or not all of one table.
        """
        self.require_alone()
        found = keys(self.needs, self.table, bound, most=self.most, contents=contents)
        return sorted(found, key=repr)

    def require_alone(self) -> None:
        """Refuse a statement that needs rows of several tables."""
        if self.further:
            raise Refusal("reading other tiered tables in a statement on single rows")

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
            elif any(asked.need is need for asked in self.conditions):
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
        found = _found_out(call, _seen)
        kept.keep(place, found)
    if isinstance(found, Refusal):
        raise found
    return found


def known_rows(call: Invocation) -> NeededRows | None:
    """Return what a statement needs, without a look at its tables; None where it cannot be told.

    Whether the role may run it is not asked.
    """
    kept, place = call.session.needed_rows, _place(call)
    found = kept.get(place)
    if found is None:
        try:
            found = _found_out(call, _known)
        except _UnseenError:
            return None
        kept.keep(place, found)
    return found if isinstance(found, NeededRows) else None


class _UnseenError(Exception):
    """A table has not been looked at since definitions have changed."""


def _place(call: Invocation) -> object:
    plan = call.plan
    locked = plan.locks and plan.locks.relids
    leaves = [(relid, read.relids) for relid, read in plan.partitioned.items()]
    # Constants of the same text are others in other time zones, or tomorrow.
    tree = plan.analysis and plan.analysis.tree
    digest = sha256((tree or "").encode("utf-8", "surrogateescape")).digest()
    asked = plan.statement.text, digest, call.parameter_oids, plan.tables
    return *asked, plan.basis, plan.target, plan.route, locked, plan.leaves, tuple(leaves)


_Tables = Callable[[Invocation, frozenset[int]], dict[int, JournalTable]]
"""Returns how tables are defined."""


def _found_out(call: Invocation, tables_of: _Tables) -> NeededRows | Refusal:
    try:
        return _told(call, tables_of)
    except Refusal as refusal:
        return refusal


def _told(call: Invocation, tables_of: _Tables) -> NeededRows:
    plan, catalog = call.plan, call.session.catalog
    query = plan.locking or call.query
    if forced.is_forced(plan):
        raise Refusal("gateway.executor keeps PostgreSQL from running it")
    if plan.journals:
        raise Refusal("reading journals in a statement on single rows is not supported")
    known = plan.basis and plan.basis.definitions
    tables = catalog.observations.relations(relations((query,)) | plan.tables, definitions=known)
    tiered = frozenset(r for r in plan.tables if tables[r].kind is RelationKind.JOURNALED)
    divided = divisions(plan, query, tables)
    leaves = frozenset(leaf for one in divided for leaf in (*one.reached, *one.others))
    tiered |= leaves
    known_tables = tables_of(call, tiered)
    volatility = call.session.volatilities.of
    definitions = Definitions(
        tiered,
        volatility,
        {relid: _relation(table) for relid, table in known_tables.items()},
        is_known=lambda value: value.tag == DRAWN or is_readable(value),
        domain_checks=partial(_domain_checks, call),
        signature=partial(names.function, catalog),
        readable=source_rows.readable(tables),
    )
    parts: dict[int, NeededRows] = {}
    for chosen, divided_query in leaf_queries(query, divided):
        found = _parts(call, divided_query, definitions, known_tables)
        apart = leaves - chosen
        parts = {relid: part for relid, part in found.items() if relid not in apart} | parts
    # Where new rows have keys that are known, these are looked for there.
    getting = {leaf for one in divided for leaf in one.others}.intersection(parts)
    parts |= {leaf: _only_written(parts[leaf]) for leaf in getting if parts[leaf].draws}
    is_upsert = any(node.tag == "ONCONFLICTEXPR" for node, _ in walk(query))
    return _joined(plan, parts, divided, is_upsert=is_upsert)


def _parts(
    call: Invocation, query: Node, definitions: Definitions, tables: Mapping[int, JournalTable]
) -> dict[int, NeededRows]:
    """Return what a statement needs of each tiered table."""
    plan = call.plan
    written = written_relations(query) & definitions.tiered
    taken = plan.locks.relids if plan.locks else written
    if not taken <= definitions.tiered:
        raise Refusal("locking rows of several partitions in a statement on single rows")
    found = needs([query], definitions)
    if found.arbitrates and len(taken) > 1:
        raise Refusal("ON CONFLICT where a unique index on expressions or of some rows decides")
    touched = {occurrence.relid for occurrence in found.occurrences} | taken
    return {
        relid: _part(call, found.of(relid), tables[relid], takes=relid in taken)
        for relid in touched
    }


def _only_written(part: NeededRows) -> NeededRows:
    """Return what is needed of a leaf that can get rows, and of which nothing else is reached."""
    return replace(
        part, needs=replace(part.needs, occurrences=()), conditions=(), sources=frozenset()
    )


def _joined(
    plan: Plan, parts: Mapping[int, NeededRows], divided: Sequence[Division], *, is_upsert: bool
) -> NeededRows:
    """Return what a statement needs: first what it needs of the table it writes."""
    taken = [relid for relid, part in parts.items() if part.takes]
    if not parts or (not taken and plan.target is not None):
        raise Refusal("a statement on rows of resident partitions alone")
    leaves = {leaf for one in divided if one.relid == plan.target for leaf in one.leaves.tiered}
    first = {*leaves, plan.target}.intersection(taken) or set(sorted(taken)[:1])
    order = sorted(parts, key=lambda relid: (relid not in first, relid))
    listed = [
        replace(parts[relid], beside=tuple(other for other in order if other != relid))
        for relid in order
    ]
    trees = tuple(one.leaves for one in divided if one.is_written)
    return replace(listed[0], further=tuple(listed[1:]), trees=trees, is_upsert=is_upsert)


def _seen(call: Invocation, relids: frozenset[int]) -> dict[int, JournalTable]:
    """Look at tables, which the role has to be allowed to read as the statement does."""
    observation = Observer(call.session).observe(sorted(relids), call.plan)
    tables = {relid: observation.result.snapshots[relid].table for relid in relids}
    if call.plan.basis:
        for relid, table in tables.items():
            call.session.tables.keep((call.plan.basis.definitions, relid), table)
    return tables


def _known(call: Invocation, relids: frozenset[int]) -> dict[int, JournalTable]:
    """Return tables as they were seen, or raise _UnseenError."""
    definitions = call.plan.basis.definitions if call.plan.basis else 0
    found = {relid: call.session.tables.get((definitions, relid)) for relid in relids}
    tables = {relid: table for relid, table in found.items() if table is not None}
    if len(tables) < len(relids):
        raise _UnseenError
    return tables


def _domain_checks(call: Invocation, domain: int) -> list[Node]:
    """Return the checks of a domain as PostgreSQL keeps them."""
    found = map(parse_item, names.domain_constraints(call.session.catalog, domain))
    return [check for check in found if isinstance(check, Node)]


def _relation(table: JournalTable) -> Relation:
    generated = frozenset(column.attnum for column in table.columns if column.generated)
    # An index tells who has a value among hot rows only.
    others = tuple(
        UniqueKey(key.columns, computed=key.computed is not None, kept_afterwards=True)
        for key in table.unique_keys
    )
    return Relation(((UniqueKey(table.key),) if table.key else ()) + others, generated)


def _part(call: Invocation, found: Needs, table: JournalTable, *, takes: bool) -> NeededRows:
    """Return what a statement needs of one table."""
    plan, config, volatility = call.plan, call.services.config, call.session.volatilities.of
    named_by = (table.key, *(key.columns for key in table.unique_keys if key.computed is None))
    asked = sources((need for one in found.occurrences for need in one.needs), named_by)
    most = config.inline_rows if plan.route is Route.CHANGE else config.thaw_rows
    # More than single rows Spark changes as a whole, where it can.
    whole = plan.route in {Route.THAW, Route.READ}
    conditions = tuple(
        condition(need, volatility)
        for occurrence in found.occurrences
        for need in occurrence.needs
        if need.conditions or need.enough is not None or (whole and need.all_rows)
    )
    template = _template(call, table) if conditions else None
    drawn = plan.route in {Route.THAW, Route.MERGE, Route.CHANGE} and draws(found, table)
    return NeededRows(found, table, conditions, template, asked, drawn, most, takes)


def _template(call: Invocation, table: JournalTable) -> Node:
    kept, basis = call.session.templates, call.plan.basis
    place = (basis.definitions, table.relid) if basis else None
    found = place and kept.get(place)
    if found:
        return found
    # An older definition may tell a name that is another table's by now.
    name = names.relation_name(call.session.catalog, table.relid)
    analysis = call.session.catalog.analyses.analyse(f"SELECT * FROM ONLY {name}")  # noqa: S608 - quoted
    (query,) = parse_tree(analysis.tree or "")
    if place:
        kept.keep(place, query)
    return query
