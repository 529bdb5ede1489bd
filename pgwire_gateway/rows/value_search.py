"""Current rows of a table by values of columns other than the key's, found without Spark."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from catalog.journal.layout import column_name
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.tails import indices_of_keys
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite.needs.keys import Key


def rows_with(
    observation: Observation,
    relid: int,
    columns: Sequence[int],
    values: Collection[Key],
    lookups: Lookups,
) -> pa.Table | None:
    """Return the current rows that have one of some values, in storage layout, in no order.

    Args:
        observation: What is seen.
        relid: The table.
        columns: Attribute numbers.
        values: What the columns have together.
        lookups: Reads the files.

    Returns:
        The rows; None where the table is to be read by Spark.

    Raises:
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    snapshot, tail = observation.result.snapshots[relid], observation.tails.get(relid)
    table = snapshot.table
    if snapshot.outside is not None:
        return None
    if not table.key or not plain_keys.has_one_form(table, (*table.key, *columns)):
        return None
    # Whoever has had the value at some time may have it now.
    stored = lookups.values.keys(snapshot, columns, values)
    if stored is None:
        return None
    names, keys = ([column_name(attnum) for attnum in some] for some in (columns, table.key))
    if tail is None:
        tail = storage_schema(table).empty_table()
    recent = tail.take(indices_of_keys(tail, names, values)).select(keys)
    found = stored.union(plain_keys.tuples(recent, keys))
    # What ended when the key's type changed has none.
    candidates = {key for key in found if None not in key}
    if not candidates:
        return storage_schema(table).empty_table()
    rows = observation.current_rows(relid, sorted(candidates, key=repr), lookups)
    return None if rows is None else rows.take(indices_of_keys(rows, names, values))
