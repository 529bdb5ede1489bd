"""Ranges that have some integers, with the wide gaps between them left out."""

from typing import Final

import numpy as np
import pyarrow as pa

MOST_RANGES: Final = 8
"""Each is a condition more for whoever looks at rows one by one."""

_MOST_GAPS: Final = 100
"""A gap is left out if it is more than this part of what is between the first and the last."""

_NARROWEST_GAP: Final = 1000
"""Files can be left out only in pieces of some thousand rows."""


def value_ranges(values: pa.ChunkedArray) -> tuple[tuple[int, int], ...]:
    """Return first and last value of ranges that have all of some integers, none of them NULL.

    >>> value_ranges(pa.chunked_array([[7, 1, 2, 3, 900_000, 3], [900_001]]))
    ((1, 7), (900000, 900001))
    """
    # Differences of the smallest and the largest of 64 bits have 64 bits themselves.
    found = np.unique(values.to_numpy()).astype(np.int64)
    if not len(found):
        return ()
    gaps = np.diff(found).view(np.uint64)
    widest = np.argsort(gaps)[-(MOST_RANGES - 1) :]
    span = int(found[-1]) - int(found[0])
    left_out = np.sort(widest[gaps[widest] > max(span // _MOST_GAPS, _NARROWEST_GAP)])
    first = found[np.concatenate(([0], left_out + 1))]
    last = found[np.concatenate((left_out, [-1]))]
    return tuple(zip(first.tolist(), last.tolist(), strict=True))
