"""Analysis of statements that do not wait for rows that others have locked.

PostgreSQL locks tables when it analyses a statement, and waits for that also where NOWAIT or SKIP
LOCKED is said of rows (SQL commands, SELECT, The Locking Clause). Who writes a tiered table as a
whole has locked the table and means its rows: it is waited for no longer than for a moment.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from psycopg.pq.abc import PGresult

from catalog.connection.backend import Backend
from catalog.connection.steps import Query, Step
from catalog.errors import CatalogError, GatewayError
from catalog.pg import sqlstate
from catalog.statements.splitting import parse_tree

# Cheaper than to parse what cannot be one.
_LIKELY: Final = re.compile(r"\b(NOWAIT|SKIP)\b", re.IGNORECASE)

_LOCKS: Final = "LockingClause"
_WAITS: Final = "LockWaitBlock"

# Whoever else has a table locked, by a definition, is waited for as PostgreSQL does.
_BOUND: Final = Query(
    "SELECT pg_catalog.set_config('pg_journal.lock_timeout', s.own, true),"
    " pg_catalog.set_config('lock_timeout', CASE WHEN"
    " s.own::pg_catalog.interval OPERATOR(pg_catalog.>) '0'"
    " AND s.own::pg_catalog.interval OPERATOR(pg_catalog.<=) '1 second' OR NOT EXISTS ("
    "SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c"
    " ON c.oid OPERATOR(pg_catalog.=) l.relation"
    " WHERE l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock' AND l.granted"
    " AND l.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()"
    " AND c.relnamespace OPERATOR(pg_catalog.=) 'pg_journal'::pg_catalog.regnamespace"
    " AND pg_catalog.starts_with(c.relname::pg_catalog.text, 'tail_'))"
    " THEN s.own ELSE '1s' END, true)"
    " FROM pg_catalog.current_setting('lock_timeout') AS s (own)",
    internal=True,
)
_UNBOUND: Final = Query(
    "SELECT pg_catalog.set_config('lock_timeout',"
    " pg_catalog.current_setting('pg_journal.lock_timeout'), true)",
    internal=True,
)


class LockedTableError(GatewayError):
    """Somebody writes a table as a whole of which a statement does not wait for rows (55P03)."""

    sqlstate = sqlstate.LOCK_NOT_AVAILABLE

    def named(self, *tables: str) -> GatewayError:
        """Return the error with the names of the tables of which it is one."""
        listed = ", ".join(f'"{table}"' for table in tables)
        return GatewayError(
            f"could not obtain lock on relation {listed}",
            sqlstate=self.sqlstate,
            detail="Rows cannot be locked one by one while others write the table as a whole.",
        )


def is_unwaited(sql: str) -> bool:
    """Return whether a statement locks rows without waiting for those that others have locked."""
    return _LIKELY.search(sql) is not None and _has_policy(parse_tree(sql))


def _has_policy(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_policy, value))
    if not isinstance(value, dict):
        return False
    clause = value.get(_LOCKS)
    if clause is not None and clause.get("waitPolicy", _WAITS) != _WAITS:
        return True
    return any(map(_has_policy, value.values()))


def run(
    backend: Backend, before: Sequence[Step], own: Sequence[Step], after: Sequence[Step]
) -> list[PGresult]:
    """Run the steps of an analysis, and others in the same trip; return what all have answered.

    Raises:
        LockedTableError: It would have waited for who writes a table as a whole.
        CatalogError: PostgreSQL's own errors.
    """
    is_bounded = False

    def heard(step: Step, result: PGresult) -> None:
        nonlocal is_bounded
        if step is _BOUND:
            is_bounded = result.get_value(0, 0) != result.get_value(0, 1)

    try:
        results = backend.run_all([*before, _BOUND, *own, _UNBOUND, *after], heard)
    except CatalogError as error:
        if not is_bounded or error.sqlstate != sqlstate.LOCK_NOT_AVAILABLE:
            raise
        raise LockedTableError(error.message) from error
    place = len(before)
    end = place + 1 + len(own)
    return [*results[:place], *results[place + 1 : end], *results[end + 1 :]]
