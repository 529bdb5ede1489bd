"""Extracts: what Spark computes of a statement that PostgreSQL runs.

Each part of the statement that reads journaled tables becomes a temporary table, the *extract*, and
is replaced by it. What a part is, is `catalog.session.statement_parts`' business.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from catalog.errors import GatewayError, OutdatedPlanError
from catalog.pg import sqlstate as codes
from catalog.results import Relation, RelationKind
from catalog.session import names, session_state
from catalog.session.restrictions import Kept, Named, Restrictions, is_counted, restrictions
from catalog.session.statement_parts import Part, StatementTree, UnfaithfulTextError, Yielded
from catalog.statements.splitting import RelationName, split
from pgwire_gateway.dml import extracts, inserts, partitions, reads
from pgwire_gateway.dml.extract_bounds import ExtractCount, ExtractSize, ExtractTooLargeError
from pgwire_gateway.dml.thawed_reads import has_effects
from pgwire_gateway.planning import forced, router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.session import replanning
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from rewrite import pipeline
from rewrite.command import (
    WHOLE_ROW,
    Command,
    called_functions,
    command,
    functions_named,
    selected_attributes,
    written_relations,
)
from rewrite.errors import UnsupportedError
from rewrite.query.constant_values import text_columns
from rewrite.row_locks import row_locks
from rewrite.tree import Node

SAVEPOINT = "pgwire_extract"

PREPARED = "pgwire_extract"
"""Name the catalog has for the query or statement that is about to run."""


_TYPE_TELLING: Final = functions_named("pg_typeof")
"""To these a row of an extract is not one of the relation."""

Tell = Callable[[str, Invocation], None]
"""Is given each extract, and the call of the query that would fill it; all stay empty then."""


class Extraction:
    """The extracts of one statement."""

    def __init__(
        self,
        call: Invocation,
        tell: Tell | None = None,
        *,
        most: ExtractSize | None = None,
    ) -> None:
        """Prepare the extracts of a call.

        Args:
            call: The statement.
            tell: Told of each extract, in place of filling it.
            most: How much all extracts may hold together; None for any size.
        """
        self._call = call
        self._tell = tell
        stands_for_row = _TYPE_TELLING.isdisjoint(called_functions(call.query))
        self._first_attribute = WHOLE_ROW if stands_for_row else WHOLE_ROW + 1
        self._session = call.session
        self._catalog = call.session.catalog
        # Of the tables that are named: leaves may stand for partitioned ones in the query.
        (named,) = pipeline.parse_tree((call.plan.analysis and call.plan.analysis.tree) or "")
        self._selected = dict(selected_attributes(named))
        columns = call.plan.analysis.columns if call.plan.analysis else None
        self._writes_nothing = command(named) is Command.SELECT
        is_simple = _returns_each_row(named) and not has_effects(call)
        self._result = [column.name for column in columns or ()] if is_simple else None
        self._keeps_snapshot = session_state.keeps_snapshot(self._catalog)
        self._held = False
        self._relations: dict[RelationName, Relation] = {}
        self._extracts: list[str] = []
        self._count = ExtractCount(most)

    def plan(self) -> Plan:
        """Make the extracts and plan the statement over them.

        Raises:
            GatewayError: 42501 when the role may not run it, 25006 in a read-only transaction,
                0A000 for what is not supported.
        """
        plan = self._call.plan
        extracts.require_writable(self._call)
        # Reads no table: privileges and definitions are looked at.
        Observer(self._session).observe((), plan)
        self._refuse_row_locks()
        try:
            self._tree = tree = StatementTree(plan.statement.text)
            self._classify(tree.parts)
            if not tree.reads_source_only:
                self._hold()
            for part in tree.parts:
                self._bring(part, None, alone=tree.reads_source_only)
            text = tree.text
        except UnfaithfulTextError as error:
            raise UnsupportedError(
                "this form of a statement that reads journaled tables is not supported"
            ) from error
        return self._replanned(text)

    def drop(self) -> None:
        """Remove the extracts, as far as the transaction has not done it already."""
        made, self._extracts = self._extracts, []
        extracts.drop(self._session, made)

    # before ---------------------------------------------------------------------------------------

    def _refuse_row_locks(self) -> None:
        """Refuse FOR UPDATE of rows that are not PostgreSQL's."""
        plan = self._call.plan
        locks = row_locks(self._call.query)
        locked = self._catalog.observations.relations(locks.relids if locks else ())
        for relid, relation in locked.items():
            if relid in plan.journals or relation.kind is RelationKind.JOURNALED:
                raise UnsupportedError("FOR UPDATE and FOR SHARE are not supported")

    def _hold(self) -> None:
        """Have extracts show what the statement itself will see.

        In READ COMMITTED each of them is computed by a snapshot of its own, and the statement runs
        by another one. So the tables must not change, and a part that reads others as well is no
        extract.
        """
        if self._held or self._keeps_snapshot:
            return
        plan = self._call.plan
        self._catalog.writes.hold(sorted(plan.tables))
        if router.basis(self._catalog, plan.statement) != plan.basis:
            raise OutdatedPlanError("definitions have changed")
        self._held = True

    def _classify(self, parts: Iterable[Part]) -> None:
        """Find out what the relations are that parts name."""
        named = sorted({name for part in parts for name in part.names}, key=str)
        relids = names.relation_oids(self._catalog, named)
        known = self._catalog.observations.relations(relids)
        self._relations |= {n: known[r] for n, r in zip(named, relids, strict=True) if r}

    # parts ----------------------------------------------------------------------------------------

    def _bring(self, part: Part, reason: GatewayError | None, *, alone: bool = False) -> None:
        """Replace a part by an extract, or else the parts in it.

        Args:
            part: The part.
            reason: Why Spark refused what the part is in.
            alone: Whether nothing else of the statement reads a relation.

        Raises:
            GatewayError: Neither is possible.
        """
        if not any(map(self._may_need_spark, part.names)):
            return
        if part.relation is not None:
            self._bring_relation(part, reason)
            return
        if part.closed:
            refused = self._try(part, part.query, alone=alone)
            if refused is None:
                return
            if reason is None and is_refusal(refused) and not isinstance(refused, MixedError):
                reason = refused
        if forced.is_forced(self._call.plan):
            raise reason or _not_by_itself()
        self._hold()
        for inner in part.inner:
            self._bring(inner, reason)

    def _may_need_spark(self, name: RelationName) -> bool:
        """Return whether a relation is, or may read, what Spark is to read."""
        relation = self._relations.get(name)
        kinds = {RelationKind.JOURNALED, RelationKind.JOURNAL, RelationKind.VIEW}
        if forced.is_forced(self._call.plan):
            kinds.add(RelationKind.RESIDENT)
        return relation is not None and relation.kind in kinds

    def _bring_relation(self, part: Part, reason: GatewayError | None) -> None:
        """Replace a relation by the columns of it that the statement reads."""
        relation = self._relations[next(iter(part.names))]
        whole = self._planned(part.query)
        if whole.route is not Route.READ:
            return
        item, named = part.item, self._named_columns(part, whole)
        shown = self._columns(part, relation, whole, reason)
        concerned = Named(item, part.alias, frozenset(named))
        found = restrictions(self._tree.root, concerned, self._result)
        kept = self._kept(part, shown, found)
        refused = self._try(part, part.selection(shown, found.selection(kept)), shown)
        if refused is not None and kept != Kept() and not is_refusal(refused):
            # PostgreSQL may not come to where it fails.
            kept = Kept()
            refused = self._try(part, part.selection(shown, found.selection(kept)), shown)
        if refused is None:
            if part.item is not item:
                found.take(kept)
        elif not is_refusal(refused):
            raise refused
        elif relation.kind is RelationKind.VIEW and not forced.is_forced(self._call.plan):
            self._expand(part, relation, named, reason or refused)
        else:
            raise reason or refused

    def _expand(
        self, part: Part, view: Relation, columns: Sequence[str], reason: GatewayError
    ) -> None:
        """Replace a view by its query, and what that reads by extracts.

        That is read by the role itself, which may not be allowed to (42501). What the owner of the
        view may do has been looked at by then.
        """
        query = names.view_query(self._catalog, view.relid)
        planned = self._planned(query)
        (tree,) = pipeline.parse_tree((planned.analysis and planned.analysis.tree) or "")
        for relid, attributes in selected_attributes(tree).items():
            self._selected[relid] = self._selected.get(relid, frozenset()) | attributes
        parts = part.expand(query, columns)
        self._classify(parts)
        for inner in parts:
            self._bring(inner, reason)

    def _columns(
        self, part: Part, relation: Relation, whole: Plan, reason: GatewayError | None
    ) -> list[str]:
        """Return the columns of a relation that the statement reads, as it names them."""
        selected = self._selected.get(relation.relid, frozenset())
        first = WHOLE_ROW + 1 if part.column_aliases else self._first_attribute
        if any(attribute < first for attribute in selected):
            raise reason or UnsupportedError(
                f'whole rows and system columns of "{relation.name}" are not supported'
            )
        named = self._named_columns(part, whole)
        columns = whole.analysis.columns if whole.analysis else None
        of_all = zip(named, columns or (), strict=True)
        is_all = WHOLE_ROW in selected or is_counted(self._tree.root, part.item)
        return [name for name, column in of_all if is_all or column.attnum in selected]

    @staticmethod
    def _named_columns(part: Part, whole: Plan) -> list[str]:
        """Return all columns of a relation as the statement names them."""
        columns = whole.analysis.columns if whole.analysis else None
        own = [column.name for column in columns or ()]
        aliases = part.column_aliases
        return aliases + own[len(aliases) :]

    def _kept(self, part: Part, shown: Sequence[str], found: Restrictions) -> Kept:
        """Return which restrictions of a relation Spark can compute: as many as possible.

        A condition is not computed before those on the same relation that stand before it.
        """

        def computes(kept: Kept) -> bool:
            return self._computes(part.selection(shown, found.selection(kept)))

        number = len(found.conditions)
        most = Kept(number, limited=found.limited is not None)
        if most == Kept() or computes(most):
            return most
        kept = Kept()
        while kept.conditions < number and computes(Kept(kept.conditions + 1)):
            kept = Kept(kept.conditions + 1)
        return kept

    def _computes(self, query: str) -> bool:
        """Return whether Spark can compute a query, as far as that is known before it does."""
        try:
            with self._undone_on_error():
                plan = self._planned(query)
                plan = partitions.narrowed(replace(self._call, plan=plan), by_spark=True).plan
                reads.prepare(replace(self._call, plan=plan)).close()
        except OutdatedPlanError:
            raise
        except GatewayError as error:
            # As of `_try`: it may not stand by itself.
            if not is_refusal(error) and not error.sqlstate.startswith("42"):
                raise
            return False
        return True

    def _try(
        self, part: Part, query: str, shown: list[str] | None = None, *, alone: bool = False
    ) -> GatewayError | None:
        """Try to replace a part by the rows of a query; return what speaks against it, if anything.

        That may be a value that cannot be computed.

        None too where PostgreSQL can compute the query itself: the part stays then.

        Args:
            part: The part.
            query: What yields its rows.
            shown: Names of its columns, where they are not those of the query.
            alone: Whether nothing else of the statement reads a relation.
        """
        try:
            with self._undone_on_error():
                plan = self._planned(query)
        except OutdatedPlanError:
            raise
        except GatewayError as error:
            return error  # it does not stand by itself
        if plan.route is not Route.READ:
            return None
        plan = partitions.narrowed(replace(self._call, plan=plan), by_spark=True).plan
        if plan.analysis is not None and not plan.analysis.columns:
            # Tables without columns cannot be copied into.
            return self._try(part, f"SELECT true FROM ({query}) q", [], alone=alone)  # noqa: S608
        if not alone and not self._keeps_snapshot:
            kinds = self._catalog.observations.relations(plan.tables).values()
            mixed = [relation for relation in kinds if relation.kind is RelationKind.RESIDENT]
            if mixed:
                return MixedError(mixed[0].name)
        size = self._count.size
        try:
            with self._undone_on_error():
                self._extract(part, plan, query, shown)
        except ExtractTooLargeError:
            raise
        except GatewayError as error:
            self._count.size = size
            # Of a relation it may be a condition, which can stay where it was.
            is_told = part.relation is not None or self._writes_nothing
            if not is_refusal(error) and not (is_told and _is_of_data(error)):
                raise
            return error
        return None

    def _extract(self, part: Part, plan: Plan, query: str, shown: list[str] | None) -> None:
        """Have Spark compute a query into an extract, and put that in place of the part."""
        call = replace(self._call, plan=plan)
        extract = extracts.new_extract()
        columns = extracts.columns_of(call)
        if self._tell is not None:
            extracts.create(call, extract, columns, query)
            self._tell(extract, call)
        else:
            compiled, batches = reads.start(call)
            with batches:
                extracts.create(call, extract, columns, query)
                counted = self._count.counted(batches)
                inserts.copy(self._session, compiled, counted, extract, columns)
        if shown is None:
            shown = [column.name for column in call.columns or ()]
            if part.is_source:
                # The type of a constant without one depends on the column it is inserted into.
                for number, text in text_columns(call.query).items():
                    columns[number] = _literal(text)
        part.replace(extract, [Yielded(*pair) for pair in zip(shown, columns, strict=False)])
        self._extracts.append(extract)

    def _planned(self, query: str) -> Plan:
        """Plan a query that may have any of the statement's parameters."""
        (statement,) = split(query)
        self._catalog.analyses.deallocate(PREPARED)
        return router.plan(self._catalog, statement, self._call.parameter_oids, PREPARED)

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        """Leave the transaction as it was when what is done inside fails."""
        self._session.catalog.transaction.savepoint(SAVEPOINT)
        try:
            yield
        except GatewayError:
            self._session.catalog.transaction.abandon(SAVEPOINT)
            raise
        self._session.catalog.transaction.release(SAVEPOINT)

    # after ----------------------------------------------------------------------------------------

    def _replanned(self, text: str) -> Plan:
        """Plan the statement as PostgreSQL is to run it.

        Raises:
            UnsupportedError: 0A000, it would be another one.
        """
        written = self._catalog.observations.relations(written_relations(self._call.query)).values()
        changed = ", ".join(f'"{relation.name}"' for relation in written)
        done = f"changing {changed} by" if changed else "computing"
        unreadable = UnsupportedError(
            f"{done} what journaled tables hold is not supported in this form",
            hint="Read them in a subquery that stands by itself.",
        )
        try:
            plan = self._planned(text)
        except OutdatedPlanError:
            raise
        except GatewayError as error:
            raise unreadable from error
        inserts_rows = self._call.plan.route is Route.INSERT_QUERY
        route = Route.INSERT if inserts_rows else Route.CATALOG
        if plan.route is not route or not _same_rows(plan, self._call.plan):
            raise unreadable
        return plan


class MixedError(UnsupportedError):
    """Spark would read a resident table at another moment than PostgreSQL (SQLSTATE 0A000)."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'reading "{name}" on Spark for a statement of PostgreSQL is not supported in'
            " READ COMMITTED transactions",
            hint="BEGIN ISOLATION LEVEL REPEATABLE READ first.",
        )


def _returns_each_row(query: Node) -> bool:
    """Return whether a query returns each row of its FROM once, or none."""
    changing = ("hasAggs", "hasWindowFuncs", "hasTargetSRFs", "hasDistinctOn")
    return command(query) is Command.SELECT and not any(query.get(name) for name in changing)


def _not_by_itself() -> UnsupportedError:
    return UnsupportedError(
        "a subquery that does not stand by itself, in this place of a statement that writes, is"
        " not supported by gateway.executor = spark",
        hint=forced.HINT,
    )


def is_refusal(error: GatewayError) -> bool:
    """Return whether something is not supported."""
    return error.sqlstate == codes.FEATURE_NOT_SUPPORTED


def _is_of_data(error: GatewayError) -> bool:
    """Return whether a value could not be computed, where PostgreSQL may not compute it."""
    return error.sqlstate.startswith("22")


def _same_rows(one: Plan, other: Plan) -> bool:
    return replanning.row_type(one) == replanning.row_type(other)


def _literal(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"
