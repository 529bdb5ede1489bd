"""Which values of a row that violates a constraint an error shows, as PostgreSQL decides it."""

from catalog.session.readable_columns import readable_columns
from pgwire_gateway.session.invocation import Invocation
from rewrite.command import written_columns


def shown_columns(call: Invocation) -> frozenset[int] | None:
    """Return the columns that the role may read, and those its statement writes; None for all."""
    readable = readable_columns(call.session.catalog, call.target)
    return None if readable.is_whole else readable.columns | written_columns(call.query)
