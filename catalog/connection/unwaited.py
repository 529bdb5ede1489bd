"""Analysis of statements that do not wait for rows that others have locked.

PostgreSQL locks tables when it analyses a statement, and waits for that also where NOWAIT or SKIP
LOCKED is said of rows (SQL commands, SELECT, The Locking Clause). Who writes a tiered table as a
whole has locked the table and means its rows: it is waited for no longer than for a moment.
"""

import re
from typing import Final

from catalog.connection.steps import Query, Step

_ASKED: Final = re.compile(r"\b(NOWAIT|SKIP\s+LOCKED)\b", re.IGNORECASE)

# Whoever else has a table locked, by a definition, is waited for as PostgreSQL does.
_BOUND: Final = Query(
    "SELECT pg_catalog.set_config('pg_journal.lock_timeout', s.own, true),"
    " pg_catalog.set_config('lock_timeout', CASE WHEN s.own::pg_catalog.interval"
    " BETWEEN '1 microsecond' AND '1 second' OR NOT EXISTS ("
    "SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation"
    " WHERE l.mode = 'ExclusiveLock' AND l.granted AND l.pid <> pg_catalog.pg_backend_pid()"
    " AND c.relnamespace = 'pg_journal'::pg_catalog.regnamespace AND c.relname ~ '^tail_[0-9]+$')"
    " THEN s.own ELSE '1s' END, true)"
    " FROM pg_catalog.current_setting('lock_timeout') AS s (own)",
    internal=True,
)
_UNBOUND: Final = Query(
    "SELECT pg_catalog.set_config('lock_timeout',"
    " pg_catalog.current_setting('pg_journal.lock_timeout'), true)",
    internal=True,
)


def is_unwaited(sql: str) -> bool:
    """Return whether a statement may say so; where it does not, a lock is waited for in vain."""
    return _ASKED.search(sql) is not None


def bounded(sql: str, steps: list[Step]) -> list[Step]:
    """Return the steps that analyse a statement, and what bounds their waiting, around them."""
    return [_BOUND, *steps, _UNBOUND] if is_unwaited(sql) else steps
