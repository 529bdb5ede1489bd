"""INSERT with ON CONFLICT of many rows into leaves of a partitioned table: a MERGE of Spark's.

What is in conflict is what the partitioned table's own keys say. Rows stay in their leaves: as in
PostgreSQL, none that is there goes to another one.
"""

from dataclasses import replace

from catalog.model import JournalTable
from catalog.results import PartitionTree
from catalog.session import names, partition_rules
from catalog.session.upserts import Upsert
from pgwire_gateway.dml import changes, partitions, upserts
from pgwire_gateway.hot import announcements
from pgwire_gateway.partitions import merged_leaves
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal


def run_alone(call: Invocation) -> StatementResult:
    """Run an INSERT with ON CONFLICT into a table, or a partitioned one with one tiered leaf.

    Raises:
        GatewayError: PostgreSQL's own errors; 0A000 for what neither it nor Spark does.
    """
    began = not call.session.transaction.open
    try:
        return upserts.run(call)
    except UnsupportedError as error:
        has_failed = call.session.catalog.transaction_status == "E"
        if has_failed or not isinstance(error.__cause__, Refusal):
            raise
        with changes.told(call, error.__cause__):
            merge = merged(call)
        if merge is None:
            raise
    return _run(call, merge, began=began)


def run(call: Invocation, *, began: bool) -> StatementResult | None:
    """Run an INSERT with ON CONFLICT into several leaves; None where it is no MERGE.

    Args:
        call: The statement.
        began: Whether a transaction that is open was begun for it.

    Raises:
        GatewayError: As of a single table; 0A000 for what leaves have by themselves, or what would
            move rows.
    """
    merge = merged(call)
    return None if merge is None else _run(call, merge, began=began)


def _run(call: Invocation, merge: Invocation, *, began: bool) -> StatementResult:
    if began and call.session.transaction.open:
        announcements.undo(call)
    return upserts.result(call, merge, _merge)


def _merge(merge: Invocation) -> StatementResult:
    if merge.plan.leaves is None:
        raise TypeError(merge.plan.route)
    return merged_leaves.run(merge, merge.plan.leaves)


def merged(call: Invocation) -> Invocation | None:
    """Return the MERGE that does what an INSERT into a partitioned table does; None where none is.

    Raises:
        UnsupportedError: It depends on what leaves have by themselves, or moves rows.
    """
    upsert, catalog = upserts.parsed(call), call.session.catalog
    if upsert is None:
        return None
    (relid,) = names.relation_oids(catalog, [upsert.target])
    found = catalog.observations.relations([relid]).get(relid) if relid else None
    tree = found and found.tree
    if found is None or not tree or not any(leaf.is_tiered for leaf in tree.leaves):
        return None
    table = _table(call, relid, found.schema, found.name, tree)
    if table is None:
        return None
    merge = upserts.merged_into(call, upsert, table)
    if merge is None:
        return None
    _require_rules_of_table(call, upsert, relid)
    _require_stays(upsert, tree)
    return partitions.merging(call, merge.plan)


def _table(
    call: Invocation, relid: int, schema: str, name: str, tree: PartitionTree
) -> JournalTable | None:
    """Return a partitioned table as one by itself: it has the columns of its leaves.

    None where it is not known at once whether rows are in conflict by its primary key.
    """
    primary, others = partition_rules.unique_keys(call.session.catalog, relid)
    if primary is not None and (primary.computed is not None or not tree.key):
        return None
    leaf = next(leaf.relid for leaf in tree.leaves if leaf.is_tiered)
    observation = Observer(call.session).observe([leaf], call.plan)
    sample = observation.result.snapshots[leaf].table
    known = {column.name: column for column in sample.columns}
    columns = [replace(known[name], attnum=attnum) for attnum, name in tree.columns.items()]
    return replace(
        sample,
        relid=relid,
        schema=schema,
        name=name,
        columns=tuple(sorted(columns, key=lambda column: column.attnum)),
        key=tree.key,
        key_name=None if primary is None else primary.name,
        unique_keys=tuple(others),
    )


def _require_rules_of_table(call: Invocation, upsert: Upsert, relid: int) -> None:
    """Refuse leaves that refuse other rows than the partitioned table, or tell others apart."""
    catalog = call.session.catalog
    if partition_rules.leaves_have_rules(catalog, relid):
        raise UnsupportedError(
            "ON CONFLICT of many rows into partitions with constraints or generated columns of"
            " their own is not supported",
            hint="Have the partitioned table keep the same, by the same names.",
        )
    named = upsert.arbiter or upsert.constraint
    if not named and partition_rules.leaves_have_keys(catalog, relid):
        raise UnsupportedError(
            "ON CONFLICT DO NOTHING without a key, of many rows, into partitions with unique keys"
            " of their own is not supported",
            hint="Name the key after ON CONFLICT.",
        )


def _require_stays(upsert: Upsert, tree: PartitionTree) -> None:
    """Refuse what could give a row a place in another leaf, which PostgreSQL does not do either."""
    routing = tree.columns if tree.routed_by is None else tree.routed_by
    if upsert.moves({tree.columns[attnum] for attnum in routing}):
        raise UnsupportedError(
            "ON CONFLICT DO UPDATE, of many rows, of columns that the table is partitioned by is"
            " not supported",
            hint="A row must stay in its partition: leave these columns out of SET.",
        )
