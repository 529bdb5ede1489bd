"""Forget retired segments and dropped tables once nobody can read them any more.

Files are removed by the caller, who knows where the warehouse is: first the files, then the entries
here, so that a crash in between only leaves entries whose files are gone already.
"""

import json
from collections.abc import Iterable

from catalog.bookkeeping.calls import array
from catalog.session.connections import CatalogSession

_OLDEST = """(SELECT coalesce(max(pg_catalog.age(held.xmin)), 0)
FROM (SELECT a.backend_xmin FROM pg_catalog.pg_stat_activity a
       WHERE (a.datname = pg_catalog.current_database() OR a.datname IS NULL)
         AND a.pid <> pg_catalog.pg_backend_pid()
      UNION ALL
      SELECT s.xmin FROM pg_catalog.pg_replication_slots s) held (xmin))"""
"""Age of the oldest snapshot that is in use, on standbys that tell of theirs too: what went later,
its transaction can still read."""

_RETIRED = f"""
SELECT s.segment_id, s.path FROM pg_journal.segments s
WHERE s.retired_at IS NOT NULL AND pg_catalog.age(s.xmin) > {_OLDEST}
ORDER BY s.segment_id
"""  # noqa: S608 - of constants

_DROPPED = f"""
SELECT l.location FROM pg_journal.dropped_locations l
WHERE pg_catalog.age(l.xmin) > {_OLDEST}
ORDER BY l.location
"""  # noqa: S608 - of constants

_LOCKED = """
SELECT l.relation FROM pg_catalog.pg_locks l
WHERE l.relation = ANY ($1::oid[]) AND l.database =
      (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
"""

_JOURNALED = "SELECT j.relid FROM pg_journal.journals j WHERE j.relid = ANY ($1::oid[])"


def retired_segments(administrator: CatalogSession) -> dict[int, str]:
    """Return paths by number of the segments that were retired.

    Those that a snapshot in use can show are not among them. Statements that were given their lists
    before, and have no such snapshot while Spark runs them, may still read the others: the caller
    knows of these.
    """
    rows = administrator.execute(_RETIRED).rows
    return {int(number or b"0"): (path or b"").decode() for number, path in rows}


def forget_segments(administrator: CatalogSession, segment_ids: list[int]) -> None:
    """Drop the entries of retired segments whose files are gone."""
    _run(
        administrator,
        "DELETE FROM pg_journal.segments"
        " WHERE retired_at IS NOT NULL AND segment_id = ANY ($1::bigint[])",
        array(segment_ids),
    )


def dropped_locations(administrator: CatalogSession) -> list[str]:
    """Return the directories of dropped tables, like segments."""
    rows = administrator.execute(_DROPPED).rows
    return [(row[0] or b"").decode() for row in rows]


def forget_locations(administrator: CatalogSession, locations: list[str]) -> None:
    """Drop the entries of dropped tables whose directories are gone."""
    _run(
        administrator,
        "DELETE FROM pg_journal.dropped_locations WHERE location IN"
        " (SELECT pg_catalog.json_array_elements_text($1::json))",
        json.dumps(locations).encode(),
    )


def database(administrator: CatalogSession) -> int:
    """Return the OID of the database."""
    sql = (
        "SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()"
    )
    ((oid,),) = administrator.execute(sql).rows
    return int(oid or b"0")


def databases(session: CatalogSession) -> set[int]:
    """Return the OIDs of all databases."""
    rows = session.execute("SELECT d.oid FROM pg_catalog.pg_database d").rows
    return {int(row[0] or b"0") for row in rows}


def possible(administrator: CatalogSession, relids: Iterable[int]) -> set[int]:
    """Return those of some OIDs that are tables with journals, or may still become some.

    Whoever makes a table has it locked until others see it: somebody whose COMMIT was not answered
    may be about to, and a prepared transaction may at any time.
    """
    found = set()
    # In this order: a lock that is gone has left what there is to be seen.
    for sql in (_LOCKED, _JOURNALED):
        rows = administrator.execute_parameters(sql, [array(list(relids))]).rows
        found |= {int(row[0] or b"0") for row in rows}
    return found


def _run(administrator: CatalogSession, sql: str, value: bytes) -> None:
    for _ in administrator.execute_parameters(sql, [value]).rows:
        pass
