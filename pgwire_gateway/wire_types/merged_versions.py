"""Row versions in memory, divided into the current ones and those that were superseded."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.journal.layout import SUBSEQUENT
from pgwire_gateway.wire_types.tails import recency_columns, row_numbers, version_numbers
from pgwire_gateway.wire_types.versions import VERSION_TYPE


def merged(
    base: pa.Table, recent: pa.Table, names: Sequence[str]
) -> tuple[pa.Table, pa.Table] | None:
    """Return the current rows, and all other row versions with when they were superseded.

    It is what :class:`rewrite.journal.compaction.Merge` has Spark do. None where the base has two
    versions of a row.

    Args:
        base: Versions in storage layout that were current, one of each row.
        recent: All that came after them, tombstones included.
        names: What tells rows apart, as in :func:`.tails.latest_per_key`.
    """
    versions = pa.concat_tables([base, recent]).combine_chunks()
    count = versions.num_rows
    rows = row_numbers(versions, names)
    if np.unique(rows[: base.num_rows]).size != base.num_rows:
        return None
    is_recent = np.arange(count) >= base.num_rows
    places = np.lexsort((*recency_columns(versions), is_recent, rows))
    is_newest = np.zeros(count, np.bool_)
    is_newest[places[np.flatnonzero(np.diff(rows[places], append=-1))]] = True
    ends = versions.column(SUBSEQUENT)
    is_current = pa.array(is_newest & ends.is_null().to_numpy())
    followers = np.zeros(count, np.int64)
    followers[places[:-1]] = version_numbers(versions).to_numpy()[places[1:]]
    # Versions with no follower are current, or tombstones, which have their end.
    ended = pc.coalesce(ends, pa.array(followers).cast(VERSION_TYPE))
    index = versions.schema.get_field_index(SUBSEQUENT)
    superseded = versions.set_column(index, versions.schema.field(index), ended)
    return versions.filter(is_current), superseded.filter(pc.invert(is_current))
