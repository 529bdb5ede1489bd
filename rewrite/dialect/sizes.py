"""Bounds on values that functions make larger than their arguments.

PostgreSQL's values have less than 1 GB. In the JVM one value of that size can exhaust the memory
all clients share, so results are refused long before; and what is computed never exceeds the
bound, because Spark may fold constants also where a condition forbids it.
"""

from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b

MAX_BYTES: Final = 16 << 20
"""Largest text a function may make of its arguments."""
MAX_CHARACTERS: Final = MAX_BYTES // 4
"""As many fit, whatever they are."""

_MAX_ALLOC: Final = 0x3FFF_FFFF
"""``MaxAllocSize`` of memutils.h."""
_HEADER: Final = 4
"""``VARHDRSZ``."""
LARGEST: Final = _MAX_ALLOC - _HEADER
"""Bytes of the longest text PostgreSQL can hold."""

TOO_LARGE: Final = b.raise_error(sqlstate.PROGRAM_LIMIT_EXCEEDED, "requested length too large")


def unsupported(function: str) -> b.Tree:
    """Return the error for a result PostgreSQL would have."""
    return b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        f"results of {function}() of more than {MAX_BYTES >> 20} MB are not supported",
    )


def at_most(count: b.Tree, limit: b.Tree) -> b.Tree:
    """Return the smaller of two counts, NULL if the first is."""
    return b.case((b.infix(exp.GT, count, limit), limit), otherwise=count)
