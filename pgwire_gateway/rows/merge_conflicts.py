"""Rows that a MERGE must not write, as it would write one twice, or give two one key."""

from typing import Any

import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.model import JournalTable
from catalog.pg import sqlstate as codes
from pgwire_gateway.rows import unique_keys
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.wire_types.catalog_rows import input_columns
from rewrite.errors import UnsupportedError
from rewrite.results import CONFLICT, MergeConflict


class ChangedTwiceError(GatewayError):
    """Several rows of the source change one of the target, or are proposed with one key (21000)."""


def require_none(session: ClientSession, table: JournalTable, batch: Any) -> None:
    """Refuse a batch of rows, as the compiled statement yields them, with a row in conflict.

    Raises:
        GatewayError: 21000 for a row that is changed twice, 23505 for a key that another row has.
        UnsupportedError: 0A000 for what depends on the order of rows, and for another key.
    """
    found = batch.filter(pc.not_equal(batch.column(CONFLICT), 0)).slice(0, 1)
    if not found.num_rows:
        return
    kind = MergeConflict(found.column(CONFLICT)[0].as_py())
    columns = [(f"n{attnum}", table.column(attnum).type_oid) for attnum in table.key]
    values = [str(text) for (text,) in input_columns(found, columns)]
    key = unique_keys.primary(table)
    if kind is MergeConflict.SECOND_TIME:
        named = unique_keys.described(session, table, key, values) if values else None
        raise ChangedTwiceError(
            "MERGE command cannot affect row a second time",
            sqlstate=codes.CARDINALITY_VIOLATION,
            detail=named and f"{named} is matched more than once.",
            hint="Ensure that not more than one source row matches any one target row.",
        )
    if kind is MergeConflict.KEY_EXISTS:
        raise unique_keys.duplicate(session, table, key, values)
    if kind is MergeConflict.ORDER:
        raise UnsupportedError(
            "ON CONFLICT DO UPDATE with WHERE, or of a key, of which one of several rows of one key"
            " is a part is not supported",
            hint="Propose one row of each key.",
        )
    if kind is MergeConflict.KEY_DELETED:
        raise UnsupportedError(
            "MERGE that inserts a row with the key of one that it deletes is not supported"
        )
    if kind is MergeConflict.KEY_LEFT:
        raise UnsupportedError(
            "MERGE that gives a row the key of one that it deletes, or gives another key, is not"
            " supported"
        )
    raise UnsupportedError("changing the primary key of rows by a large MERGE is not supported")
