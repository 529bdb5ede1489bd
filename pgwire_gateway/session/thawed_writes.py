"""Statements that write single rows of a tiered table: PostgreSQL runs them, on rows put there.

The rows that a statement can touch are named by constants for their keys. They are looked up in
tail and files, put into the catalog table, and the statement runs as it was sent; what it has made
of them goes to the tail. Other writers of the table wait meanwhile.
"""

from dataclasses import dataclass

from catalog.results import ThawedChange
from catalog.steps import Execute, Query
from pgwire_gateway.errors import UnsupportedError
from pgwire_gateway.session import forced, reads, router
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation, Observer
from pgwire_gateway.session.plans import EXECUTORS, Route
from pgwire_gateway.session.portals import NoRows, StatementResult, format_codes
from pgwire_gateway.session.results import CatalogRows, field_descriptions
from pgwire_gateway.wire_types.catalog_rows import input_columns
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.context import ParameterValue
from rewrite.needs.definitions import Definitions, Relation, UniqueKey
from rewrite.needs.keys import Key, keys
from rewrite.needs.results import Refusal
from rewrite.needs.statement import needs

MOST_ROWS = 200
"""Rows of more keys than these are left to Spark."""

REASON = "single rows by key"

HINT = (
    "Name the rows by constants for their keys, or keep the table resident: "
    "ALTER TABLE ... SET (gateway.residency = always)."
)


@dataclass(frozen=True, slots=True)
class SingleRows:
    """The rows of a tiered table that a statement can touch."""

    thawed: tuple[TextRow, ...]
    """Those there are."""
    absent: tuple[TextRow, ...]
    """Keys without a row; the other columns are None."""


def run(call: Invocation) -> StatementResult:
    """Run a statement that only PostgreSQL can run; all is written when this returns.

    Raises:
        GatewayError: PostgreSQL's own errors; 0A000 where rows are not named by their keys, 40001
            when the table changed since the snapshot of a REPEATABLE READ transaction.
    """
    bound = reads.bind(call)
    began = not call.session.transaction.open
    version, observation = Observer(call.session).observe_for_write(call.plan)
    try:
        return change(call, single_rows(call, observation, bound), version, began=began)
    except Refusal as refusal:
        raise _unsupported(call, refusal) from refusal


def applies(call: Invocation) -> bool:
    """Return whether a statement would be run this way.

    Raises:
        UnsupportedError: It would not, and there is no other way for it.
    """
    observation = Observer(call.session).observe(call.plan.tables, call.plan)
    try:
        single_rows(call, observation, reads.bind(call))
    except Refusal as refusal:
        if call.plan.route is Route.THAW:
            raise _unsupported(call, refusal) from refusal
        return False
    return True


def _unsupported(call: Invocation, refusal: Refusal) -> UnsupportedError:
    return UnsupportedError(
        f"this {call.statement.kind.name} of a tiered table is not supported: {refusal}", hint=HINT
    )


def single_rows(
    call: Invocation, observation: Observation, bound: tuple[ParameterValue, ...]
) -> SingleRows:
    """Look up the rows that a statement can touch.

    Raises:
        Refusal: They are not named by their keys, or are too many.
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    relid, table = call.target, observation.result.snapshots[call.target].table
    if forced.is_forced(call.plan):
        raise Refusal("gateway.executor keeps PostgreSQL from running it")
    if call.plan.journals:
        raise Refusal("reading journals in a statement on single rows is not supported")
    snapshots = observation.result.snapshots
    tiered = frozenset(relid for relid, found in snapshots.items() if found.seen is None)
    generated = frozenset(column.attnum for column in table.columns if column.generated)
    relation = Relation((UniqueKey(table.key),) if table.key else (), generated)
    definitions = Definitions(tiered, call.session.volatilities.of, {relid: relation})
    found = needs([call.query], definitions)
    thawed, absent = [], []
    for key in sorted(keys(found, table, bound, most=MOST_ROWS), key=repr):
        row = _current_row(call, observation, key)
        if row is None:
            absent.append([_text(key, table.key, c.attnum) for c in table.columns] + [None])
        else:
            thawed.append(row)
    return SingleRows(tuple(thawed), tuple(absent))


def change(call: Invocation, rows: SingleRows, version: int, *, began: bool) -> StatementResult:
    """Let PostgreSQL run a statement on thawed rows; all is written when this returns.

    Args:
        call: The statement, whose target is locked for writing.
        rows: The rows it can touch.
        version: The version number of what it writes.
        began: Whether the transaction was begun for it.

    Raises:
        Refusal: A row could not be thawed; nothing was done.
        OutdatedPlanError: Definitions have changed since it was planned; nothing was done.
        GatewayError: PostgreSQL's own errors.
    """
    session = call.session
    places = session.catalog.thaw(call.target, rows.thawed)
    if not places:
        raise Refusal("a row that is stored does not satisfy a constraint now")
    session.last_decision = f"{EXECUTORS[Route.THAW]}: {REASON}"
    change = ThawedChange(call.target, version, rows.thawed, places, rows.absent)
    returned, result = session.catalog.run_thawed(
        change, _step(call), router.named(call.statement), call.plan.basis, began=began
    )
    tag = result.command_tag or ""
    if call.columns is None:
        return StatementResult(None, NoRows(), lambda _: tag)
    columns = field_descriptions(call.columns, call.result_formats)
    types = [column.type_oid for column in call.columns]
    codes = format_codes(call.result_formats, len(types))
    verb = tag.rpartition(" ")[0]
    return StatementResult(
        columns, CatalogRows(returned, types, codes), lambda taken: f"{verb} {taken}"
    )


def _step(call: Invocation) -> Query | Execute:
    code = call.catalog_format
    if call.plan.prepared:
        return Execute(call.plan.prepared, call.values, call.formats, code)
    return Query(call.statement.text, call.values, call.parameter_oids, call.formats, code)


def _current_row(call: Invocation, observation: Observation, key: Key) -> TextRow | None:
    """Return the current row of a key; None where it has none."""
    relid = call.target
    found = observation.of_keys({relid: key}, call.services.lookups)
    if relid not in found.single_rows:
        raise Refusal("the files of the table are read by Spark only")
    row = found.current_row(relid)
    if not row.num_rows:
        return None
    columns = observation.result.snapshots[relid].table.columns
    texts = input_columns(row, [(f"c{column.attnum}", column.type_oid) for column in columns])
    return [*(text for (text,) in texts), None]


def _text(key: Key, attnums: tuple[int, ...], attnum: int) -> str | None:
    return str(key[attnums.index(attnum)]) if attnum in attnums else None
