"""One run of a statement on hot rows: PostgreSQL's, between calls of the bookkeeping."""

from collections.abc import Sequence
from typing import Final

from catalog.bookkeeping.calls import Call
from catalog.connection.steps import Execute, Query
from catalog.errors import CatalogError
from catalog.failpoints import Failpoint, reach
from catalog.hot import hot_keys
from catalog.hot.hot_keys import Unsearched, Writing
from catalog.pg import sqlstate
from catalog.results import LocalResult
from pgwire_gateway.hot import own_hot_rows, unwaited_rows
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import EXECUTORS, Route
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.rows.needed_rows import NeededRows
from pgwire_gateway.rows.text_rows import texts_of
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult, format_codes
from pgwire_gateway.session.results import CatalogRows, field_descriptions
from rewrite.needs.keys import Key
from rewrite.row_locks import runs_once

REASON: Final = "single rows by key"
"""Why PostgreSQL runs such a statement, for people."""


def run(  # noqa: PLR0913 - what goes along with it
    call: Invocation,
    after: Sequence[Call] = (),
    *,
    before: Sequence[Call] = (),
    began: bool,
    commits: bool = False,
    guarded: bool = False,
) -> tuple[StatementResult, list[bytes]]:
    """Run the statement; return its result and the answers of calls after it."""
    result, answers = call.session.catalog.writes.run_between(
        step(call),
        router.named(call.statement),
        call.plan.basis,
        began=began,
        before=before,
        after=after,
        commits=commits,
        guarded=guarded,
    )
    if result is None:
        raise TypeError(call.plan.route)
    reach(Failpoint.RUN)
    inserts = call.plan.route is Route.INSERT
    by_key = f"{EXECUTORS[Route.THAW]}: {REASON}"
    call.session.last_decision = call.plan.decision if inserts else by_key
    return result_of(call, result), answers[len(before) :]


def may_commit(call: Invocation) -> bool:
    """Return whether the transaction of a statement may be committed in the trip that runs it.

    Afterwards nothing is looked at, and nothing fails but a disk with many rows on it: columns of
    several formats are encoded here, where a value may have no binary form.
    """
    plan, transaction = call.plan, call.session.transaction
    others = plan.seeks or plan.takes or plan.is_external or plan.leaves is not None
    formats = set(format_codes(call.result_formats, len(call.columns or ())))
    is_alone = call.alone and not others and not transaction.commits_apart
    return is_alone and len(formats) <= 1


def commits_apart(call: Invocation, error: CatalogError) -> bool:
    """Return whether an error is COMMIT's, which others have to go before, and note that.

    What a statement defers to the end of the transaction is known only when it runs.
    """
    transaction = call.session.transaction
    if error.sqlstate != sqlstate.FEATURE_NOT_SUPPORTED or not transaction.defers:
        return False
    transaction.commits_apart = True
    transaction.settle()
    return True


def step(call: Invocation) -> Query | Execute:
    """Return the statement as PostgreSQL runs it."""
    code = call.catalog_format
    tree = call.plan.analysis and call.plan.analysis.tree
    once = "ROWMARKCLAUSE" in (tree or "") and runs_once(call.plan.locking or call.query)
    # A plan that is kept has been made before; it may lock all leaves of a partitioned table, and
    # so wait for who writes one that is not concerned, and who waits for another one.
    if call.plan.prepared and not once and not call.plan.pruned:
        return Execute(call.plan.prepared, call.values, call.formats, code, is_clients=True)
    return Query(
        call.statement.text,
        call.values,
        call.parameter_oids,
        call.formats,
        code,
        nested_loops=not once,
        is_clients=True,
    )


def result_of(call: Invocation, result: LocalResult) -> StatementResult:
    """Return what a statement that PostgreSQL has run says."""
    tag = result.command_tag or ""
    if call.columns is None:
        return StatementResult(None, NoRows(), lambda _: tag)
    columns = field_descriptions(call.columns, call.result_formats)
    types = [column.type_oid for column in call.columns]
    codes = format_codes(call.result_formats, len(types))
    verb = tag.rpartition(" ")[0]
    return StatementResult(
        columns,
        CatalogRows(result.rows, types, codes, are_held=True, encoding=call.session.encoding),
        lambda taken: f"{verb} {taken}",
    )


def afterwards(needed: NeededRows) -> list[Call]:
    """Return the calls that tell what is to be looked for once a statement on hot rows has run."""
    return [hot_keys.searching(part.table.relid, None) for part in _written(needed)]


def _written(needed: NeededRows) -> list[NeededRows]:
    return [part for part in (needed, *needed.further) if part.needs.written]


def kept(
    call: Invocation, needed: NeededRows, result: StatementResult, answers: Sequence[bytes]
) -> StatementResult:
    """Return the result of a statement, unless journals held unique values it has written.

    Its keys were known before, or are drawn, and looked for apart.
    """
    for part, answer in zip(_written(needed), answers, strict=bool(answers)):
        relid = part.table.relid
        writer = JournalWriter(call.session, relid, call.running)
        values = hot_keys.unsearched(answer).values
        with own_hot_rows.conflicting(call, relid, Unsearched([], 0, values)):
            writer.require_new_values(values)
    return result


def searched(
    call: Invocation, writing: Writing, result: StatementResult, answers: Sequence[bytes]
) -> StatementResult:
    """Return the result of a statement, unless the journal held one of its new keys before."""
    if answers:
        writer = JournalWriter(call.session, writing.relid, call.running)
        written = hot_keys.unsearched(answers[0])
        with own_hot_rows.conflicting(call, writing.relid, written):
            writer.require_kept(written)
    return result


def writing_of(call: Invocation, needed: NeededRows, keys: Sequence[Key]) -> Writing:
    """Return what a statement is going to do with hot rows."""
    texts = tuple(texts_of(needed.table, key) for key in keys)
    locks = call.plan.locks is not None or not needed.takes
    return Writing(
        needed.table.relid, texts, locks, beside=needed.beside, waits=unwaited_rows.waits(call)
    )
