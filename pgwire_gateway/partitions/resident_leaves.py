"""Rows of resident leaves that Spark changes beside those of tiered ones.

Whoever writes them waits until the transaction ends. So what their journals said when the leaves
had been locked is what PostgreSQL has, and it changes them by their keys; capture does the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import array
from catalog.bookkeeping.tail import encode_rows
from catalog.model import JournalTable
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.wire_types.changed_rows import ChangedRows, TextRow
from rewrite.results import RowChange

AT_ONCE: Final = 10_000
"""Rows that one call brings at most."""


def hold(
    call: Invocation, tree: int, held: Sequence[int], others: Sequence[int], *, waits: bool
) -> bool:
    """Keep resident leaves of a partitioned table as they are until the transaction ends.

    Args:
        call: The statement.
        tree: OID of the partitioned table.
        held: Leaves that nobody else is to write.
        others: Leaves that are to stay resident.
        waits: Whether to wait for who writes them, however long.

    Returns:
        Whether it is done; where not, none of them is locked.

    Raises:
        OutdatedPlanError: One of them is not resident any more.
        CatalogError: 0A000 for leaves that cannot become tiered, as code of users runs for them or
            for another reason; 40P01, 55P03 and 57014 as for LOCK TABLE.
    """
    arrays = (array(sorted(held)), array(sorted(others)))
    flag = b"t" if waits else b"f"
    answer = call.session.catalog.call(bookkeeping.HOLD_LEAVES, _number(tree), *arrays, flag)
    return answer == b"true"


def expect(call: Invocation, tree: int, resident: Sequence[int], tiered: Sequence[int]) -> None:
    """Let PostgreSQL put rows into leaves: resident ones stay so, and tiered ones are locked.

    Raises:
        OutdatedPlanError: One of the former is not resident any more.
    """
    arrays = (array(sorted(resident)), array(tiered))
    call.session.catalog.call(bookkeeping.ANNOUNCE_TREE, _number(tree), *arrays)


def change(
    call: Invocation,
    table: JournalTable,
    compiled: RowChange,
    batches: Callable[[], Iterable[Any]],
) -> None:
    """Change the rows of a leaf that is held, first those that go.

    Args:
        call: The statement.
        table: The leaf.
        compiled: What a MERGE has been compiled to.
        batches: Yields its rows that are in the leaf, each time anew.

    Raises:
        CatalogError: PostgreSQL's own errors for rows that it refuses; 40001 when others have
            changed one since the snapshot of a REPEATABLE READ transaction.
    """
    for goes in (True, False):
        for rows in _texts(table, compiled, batches(), goes=goes):
            for start in range(0, len(rows), AT_ONCE):
                some = encode_rows(rows[start : start + AT_ONCE])
                kept, gone = (None, some) if goes else (some, None)
                leaf = _number(table.relid)
                call.session.catalog.call(bookkeeping.CHANGE_LEAF, leaf, kept, gone)
                call.running.check()


def add(
    call: Invocation,
    tree: int,
    table: JournalTable,
    compiled: RowChange,
    batches: Iterable[Any],
) -> bool:
    """Put rows into a partitioned table, to whatever leaves; return whether there are any.

    Args:
        call: The statement, of a role that need not have the right to insert all columns.
        tree: OID of the partitioned table.
        table: One of its leaves, whose columns the rows have.
        compiled: What a MERGE has been compiled to.
        batches: The rows.

    Raises:
        CatalogError: PostgreSQL's own errors for rows that it refuses.
    """
    some = False
    for batch in batches:
        rows = ChangedRows(table, compiled, ()).new_rows([batch])
        for start in range(0, len(rows), AT_ONCE):
            encoded = encode_rows(rows[start : start + AT_ONCE])
            where = (_number(tree), _number(table.relid))
            call.session.catalog.call(bookkeeping.ADD_ROWS, *where, encoded)
            call.running.check()
            some = True
    return some


def _texts(
    table: JournalTable, compiled: RowChange, batches: Iterable[Any], *, goes: bool
) -> Iterator[list[TextRow]]:
    for batch in batches:
        rows = ChangedRows(table, compiled, ())
        kept, gone = rows.parted([batch])
        yield rows.new_rows(gone if goes else kept)


def _number(relid: int) -> bytes:
    return str(relid).encode()
