"""What clients are told of messages: nothing that tells about the bookkeeping's functions."""

import re
from typing import Final

from catalog.errors import SEALED
from catalog.server.migrations import own_functions

OWN_FIELDS: Final = frozenset("WpqFLR")
"""Fields that tell about a function of ours instead of the client's statement."""

_OWN_NAME: Final = (
    rf"(?:{'|'.join(sorted(own_functions()))}"
    r"|(?:capture|referenced|seek|reseek|propose|cold|thaw)_\d+)"
)

_OWN_FUNCTION: Final = re.compile(
    rf'function (?:(?:pg_journal\.)?{_OWN_NAME}\(|"{_OWN_NAME}" (?:statement|during) )'
)
"""A line that names one; the schema is left out where the path has it."""

_OWN_STATEMENT: Final = re.compile(
    r'^(?:SQL statement|SQL expression|PL/pgSQL assignment) "(?:(?!^PL/pgSQL function ).)*?"\n'
    rf"(?=PL/pgSQL {_OWN_FUNCTION.pattern})",
    re.MULTILINE | re.DOTALL,
)
"""What one of them was executing, which may have several lines, and stands before it."""

_OWN_TUPLE: Final = re.compile(rf"^while [^\n]*\n(?=[^\n]*{_OWN_FUNCTION.pattern})", re.MULTILINE)
"""What it was doing to a row or an index entry of some relation, which stands before that."""

_COPY: Final = re.compile(r"\n?^COPY .+, line \d+.*\Z", re.MULTILINE)
"""The last line of the context of what goes wrong in a COPY."""


CRASH_ROUTINE: Final = "quickdie"
"""PostgreSQL's routine that warns of a crash of the server before it hangs up."""

_RAISED: Final = "exec_stmt_raise"
"""PostgreSQL's routine that says what RAISE of PL/pgSQL is given."""


_NOT_GRANTED: Final = "restrict_and_check_grant"
"""PostgreSQL's routine that warns of privileges which the role cannot grant or revoke."""

_JOURNAL_KEPT: Final = re.compile(r'could be revoked for .*"journal_\d{5,}"$')
"""What it says of a journal, whose name among the bookkeeping's is the OID of a table of users."""


def is_for_clients(severity: str, routine: str, message: str) -> bool:
    """Return whether a notice is passed on, by its severity, the routine that said it, and what.

    Parse trees, plans and the like show what calls of ours are given. So of what PostgreSQL says at
    LOG and below clients hear only what their own code says. DROP OWNED comes across the privileges
    on journals, which follow those on their tables.
    """
    if routine == _NOT_GRANTED and _JOURNAL_KEPT.search(message):
        return False
    return routine == _RAISED or not (severity == "LOG" or severity.startswith("DEBUG"))


def without_copy(context: str) -> str:
    """Return the lines that do not tell about a COPY that is ours."""
    return _COPY.sub("", context)


def is_sealed(data_type: str) -> bool:
    """Return whether the data type of an error tells the gateway something, and clients nothing."""
    return SEALED.match(data_type) is not None


def is_own(context: str) -> bool:
    """Return whether a context has lines about our functions."""
    return _OWN_FUNCTION.search(context) is not None


def clients_part(context: str) -> str | None:
    """Return the lines about the client's functions; None where ours met the error."""
    lines = _OWN_TUPLE.sub("", _OWN_STATEMENT.sub("", context)).split("\n")
    if _OWN_FUNCTION.search(lines[0]):
        return None
    return "\n".join(line for line in lines if not _OWN_FUNCTION.search(line))
