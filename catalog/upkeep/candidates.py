"""Which journals need upkeep, whether a role may ask for it, and what it waits for."""

from catalog.pg.types import OID
from catalog.session.connections import CatalogSession

_MAINTAINABLE = """
SELECT c.oid FROM pg_catalog.pg_class c
WHERE c.relkind = 'r' AND c.relpersistence = 'p'
  AND pg_catalog.has_table_privilege(c.oid, 'MAINTAIN') ORDER BY c.oid
"""

LOCK_WAIT_MS = 1000
"""How long upkeep waits for a lock; the other tables must not wait for one that is in use."""


def maintainable_tables(session: CatalogSession) -> list[int]:
    """Return the permanent tables of the database the role may VACUUM."""
    return [int(row[0] or b"0") for row in session.execute(_MAINTAINABLE).rows]


def may_maintain(session: CatalogSession, relid: int) -> bool:
    """Return whether the role may VACUUM a table."""
    result = session.execute_parameters(
        "SELECT pg_catalog.has_table_privilege($1, 'MAINTAIN')",
        [str(relid).encode()],
        parameter_oids=[OID],
    )
    (row,) = result.rows
    return row[0] == b"t"


def large_tails(session: CatalogSession, rows: int, size_bytes: int) -> list[int]:
    """Return the tables with tails of more row versions, or more bytes; for administrators.

    Those that somebody keeps from being read are left out.
    """
    result = session.execute_parameters(
        "SELECT pg_journal.large_tails($1, $2)", [str(rows).encode(), str(size_bytes).encode()]
    )
    return [int(row[0] or b"0") for row in result.rows]


def worn_tables(
    session: CatalogSession, threshold: int, scale_factor: float, most_segments: int
) -> dict[int, bool]:
    """Return the tiered tables without hot rows whose readers have much to merge.

    For each, whether so much has changed that all of it is worth to be written anew.

    Args:
        session: An administrator's.
        threshold: So many row versions in deltas are no reason for that.
        scale_factor: So many more, as a part of the rows in its base.
        most_segments: So many bases it may have, and so many deltas.

    The storage parameters ``autovacuum_enabled``, ``autovacuum_vacuum_threshold``,
    ``autovacuum_vacuum_scale_factor`` and ``autovacuum_vacuum_max_threshold`` of a table go first
    (PostgreSQL 18, 24.1.6).
    """
    result = session.execute_parameters(
        "SELECT relid, is_outworn FROM pg_journal.worn_tables($1, $2, $3)",
        [str(value).encode() for value in (threshold, scale_factor, most_segments)],
    )
    return {int(relid or b"0"): outworn == b"t" for relid, outworn in result.rows}


def wait_at_most(session: CatalogSession, wait_ms: int, *, local: bool = False) -> None:
    """Let statements of this session, or transaction, wait no longer for a lock (55P03)."""
    scope = "LOCAL" if local else "SESSION"
    for _ in session.execute(f"SET {scope} lock_timeout = {wait_ms}").rows:
        pass


def await_writer(session: CatalogSession, relid: int) -> None:
    """Wait until nobody is writing a tiered table.

    Raises:
        CatalogError: 55P03 when the transaction that does, maybe a prepared one, takes too long.
    """
    result = session.execute_parameters(
        "SELECT 1 FROM pg_journal.journals WHERE relid = $1 FOR UPDATE",
        [str(relid).encode()],
        parameter_oids=[OID],
    )
    for _ in result.rows:
        pass
