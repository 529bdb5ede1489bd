"""The newest version of each row, as more row versions come: what is known is not sorted again."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pgwire_gateway.wire_types.row_differences import occur
from pgwire_gateway.wire_types.tails import latest_per_key, version_numbers


def with_added(newest: pa.Table, added: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the newest version of each row, tombstones included, in no order.

    Args:
        newest: One version of each row.
        added: Row versions of the same layout, of whatever age.
        names: Columns that tell rows apart, as in :func:`.tails.latest_per_key`.
    """
    if not newest.num_rows or not added.num_rows:
        return latest_per_key(added, names) if added.num_rows else newest
    oldest_added = pc.min(version_numbers(added)).as_py()
    if oldest_added <= pc.max(version_numbers(newest)).as_py():
        return latest_per_key(pa.concat_tables([newest, added]).combine_chunks(), names)
    latest = latest_per_key(added, names)
    keys = list(names)
    kept = newest.filter(pc.invert(occur(newest.select(keys), latest.select(keys))))
    return pa.concat_tables([kept, latest]).combine_chunks()
