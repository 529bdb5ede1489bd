"""Bitmaps of the keys of row versions; :mod:`catalog.journal.key_bitmap` is their layout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from catalog.journal.key_bitmap import SHIFT, WORD_BITS, WORDS, KeyRange


@dataclass(frozen=True, slots=True)
class KeyBitmap:
    """Which integers are keys of some rows."""

    range: KeyRange
    relation: pa.Table
    """One row; its one column is the list of the words, as signed integers of 64 bits."""


def key_bitmap(rows: pa.Table, names: Sequence[str]) -> KeyBitmap | None:
    """Return the bitmap of the keys of rows, of whatever order.

    Args:
        rows: One row at least.
        names: The columns that tell rows apart.

    Returns:
        None where that is not one column of integers, or where they are too far apart.
    """
    if len(names) != 1 or not pt.is_signed_integer(rows.schema.field(names[0]).type):
        return None
    keys = np.sort(rows.column(names[0]).to_numpy().astype(np.int64))
    span = KeyRange.of(int(keys[0]), int(keys[-1]))
    if span is None:
        return None
    bits = keys - span.origin
    places, firsts = np.unique(bits >> SHIFT, return_index=True)
    set_bits = np.left_shift(np.uint64(1), (bits & (WORD_BITS - 1)).astype(np.uint64))
    words = np.zeros(int(places[-1]) + 1, np.uint64)
    words[places] = np.bitwise_or.reduceat(set_bits, firsts)
    column = pa.array([words.view(np.int64)], pa.list_(pa.int64()))
    return KeyBitmap(span, pa.table({WORDS: column}))
