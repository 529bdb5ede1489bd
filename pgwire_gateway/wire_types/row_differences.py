"""What others have made of some rows since these were read, told by their row versions.

Rows are told apart by the columns of :func:`.tails.plain_identity`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.journal.layout import SUBSEQUENT, VERSION
from pgwire_gateway.wire_types.tails import latest_per_key

_PLACE = "place"


@dataclass(frozen=True, slots=True)
class Superseded:
    """Rows of which there are newer versions than those that were read."""

    identities: pa.Table
    """What tells these rows from others."""
    current: pa.Table
    """The newest versions, in storage layout, of those that have not gone."""


def added_versions(before: pa.Table, now: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the row versions, in storage layout, that are there now and were not before."""
    columns = [*names, VERSION]
    return now.filter(pc.invert(occur(now.select(columns), before.select(columns))))


def occur(rows: pa.Table, others: pa.Table) -> pa.Array:
    """Tell of each row whether it is among others that have columns of these names."""
    names = rows.schema.names
    chosen = np.zeros(rows.num_rows, np.bool_)
    if rows.num_rows and others.num_rows:
        left = rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
        found = left.join(others.cast(rows.schema), names, join_type="left semi")
        chosen[found.column(_PLACE).to_numpy()] = True
    return pa.array(chosen)


def superseded(identities: pa.Table, added: pa.Table) -> Superseded | None:
    """Return which of some rows have newer versions, and what they are now.

    What has come under the identity of a row that had gone is another row. None where a row that
    has gone may be there under another identity: a row version of the same number tells of it.

    Args:
        identities: What tells the rows apart, under the names of the storage layout.
        added: Row versions of the whole table that have come since.
    """
    names = identities.schema.names
    versions = added.filter(occur(added.select(names).cast(identities.schema), identities))
    latest = latest_per_key(versions, names)
    ended = versions.filter(pc.is_valid(versions.column(SUBSEQUENT)))
    if not ended.num_rows:
        return Superseded(latest.select(names), latest)
    living = added.filter(pc.is_null(added.column(SUBSEQUENT)))
    if pc.any(occur(living.select([VERSION]), ended.select([VERSION]))).as_py():
        return None
    gone = occur(latest.select(names), ended.select(names))
    return Superseded(latest.select(names), latest.filter(pc.invert(gone)))
