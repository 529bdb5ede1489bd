"""Contexts of errors and notices, without the lines that tell about the bookkeeping's functions."""

import re
from typing import Final

from catalog.migrations import own_functions

OWN_FIELDS: Final = frozenset("WpqFLR")
"""Fields that tell about a function of ours instead of the client's statement."""

_OWN_FUNCTION: Final = re.compile(
    rf"function (pg_journal\.)?({'|'.join(sorted(own_functions()))}|capture_\d+)\("
)
"""A line that names one; the schema is left out where the path has it."""


def is_own(context: str) -> bool:
    """Return whether a context has lines about our functions."""
    return _OWN_FUNCTION.search(context) is not None


def clients_part(context: str) -> str | None:
    """Return the lines about the client's functions; None where ours met the error."""
    lines = context.splitlines()
    if not lines or _OWN_FUNCTION.search(lines[0]):
        return None
    return "\n".join(line for line in lines if not _OWN_FUNCTION.search(line))
