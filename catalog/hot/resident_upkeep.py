"""Upkeep of resident tables as the bookkeeping sees it; for administrators' sessions."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from catalog.bookkeeping.tail import PLAIN_SETTINGS
from catalog.connection.libpq_results import chunk_rows
from catalog.errors import CatalogError
from catalog.model import TableSnapshot
from catalog.pg.sqlstate import SERIALIZATION_FAILURE, UNDEFINED_TABLE
from catalog.pg.types import INT4, INT8, JSON, OID
from catalog.results import RelationKind, SnapshotRequest
from catalog.session.connections import CatalogSession
from catalog.session.names import qualified, relation_oids
from catalog.statements.splitting import RelationName

KeyTexts = tuple[str, ...]
"""Values of a key as PostgreSQL's texts."""

RESIDENT: Final = "resident"

TIERED: Final = "tiered"

_RESIDENT = (
    "SELECT relid, asked, tail_rows, rest_s, writers, row_count, row_bytes, changes, tail_changes,"
    " tail_bytes"
    " FROM pg_journal.resident_tables($1)"
)


@dataclass(frozen=True, slots=True)
class ResidentTable:
    """What upkeep has to know of a resident table."""

    relid: int
    asked: str
    """What its owner asks for: auto, always, never."""
    tail_rows: int
    """Row versions in the tail."""
    rest_s: float
    """Seconds since the newest of them."""
    writers: int
    """Transactions that wrote within the last ten seconds."""
    rows: int
    """Rows of the table where it may be past its bounds, else 0."""
    row_bytes: int
    changes: int
    """Rows ever inserted, updated and deleted, as statistics count them."""
    tail_changes: int
    """Row versions that ever came to the tail, as statistics count them."""
    tail_bytes: int
    """Bytes of the row versions in the tail; 0 for few."""


def rows_left(session: CatalogSession, relid: int) -> int:
    """Return how many rows the catalog table of a tiered table holds, or its tail unbeknown to it.

    None if all is well, and when it has become resident meanwhile, or is gone.

    Raises:
        CatalogError: 42P01 when it goes meanwhile.
    """
    if session.observations.relations([relid])[relid].kind is not RelationKind.JOURNALED:
        return 0
    unaccounted = int(_text(session, "SELECT pg_journal.unaccounted($1)", relid) or "0")
    return held_count(session, relid) + unaccounted


def begin_counting(session: CatalogSession, relid: int) -> None:
    """Begin a transaction of one snapshot, for which the rows of a table are there as a whole.

    TRUNCATE, and what writes a table anew, take them away from older snapshots as well.

    Raises:
        CatalogError: 42P01 when the table goes meanwhile, 55P03 when others define it, 40001 when
            another one has got its name.
    """
    relation = session.observations.relations([relid])[relid]
    if not relation.name:
        raise CatalogError(f"relation with OID {relid} does not exist", sqlstate=UNDEFINED_TABLE)
    name = RelationName(relation.schema, relation.name)
    session.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # A function would take the snapshot before the lock is there.
    _run(session, f"LOCK TABLE ONLY {qualified(name)} IN ACCESS SHARE MODE")
    if relation_oids(session, [name]) != [relid]:
        raise CatalogError(
            f"table {relid} is not {qualified(name)} any more", sqlstate=SERIALIZATION_FAILURE
        )


def held_count(session: CatalogSession, relid: int) -> int:
    """Return how many rows the catalog table of a table holds.

    Raises:
        CatalogError: 42P01 when it has gone.
    """
    return int(_text(session, "SELECT pg_journal.held_count($1)", relid) or "0")


def resident_tables(
    session: CatalogSession, known: Mapping[int, ResidentTable], elapsed_s: float
) -> list[ResidentTable]:
    """Return all resident tables of the database.

    Args:
        session: An administrator's.
        known: Tables as they were found the last time, by OID; what has not changed since is not
            counted again.
        elapsed_s: How long ago that was.
    """
    given = [
        {
            "relid": relid,
            "changes": table.changes if table.rows else None,
            "tail_changes": table.tail_changes,
        }
        for relid, table in known.items()
    ]
    result = session.execute_parameters(
        _RESIDENT, [json.dumps(given).encode()], parameter_oids=[JSON]
    )
    found = []
    for row in result.rows:
        relid, asked, tail_rows, rest_s, *numbers = (value or b"0" for value in row)
        table = ResidentTable(
            int(relid), asked.decode(), int(tail_rows), float(rest_s), *map(int, numbers)
        )
        found.append(_completed(table, known.get(table.relid), elapsed_s))
    return found


def _completed(
    table: ResidentTable, known: ResidentTable | None, elapsed_s: float
) -> ResidentTable:
    """Return a table with what was known of it and has not been counted again."""
    if known is not None and table.rows < 0:
        table = replace(table, rows=known.rows, row_bytes=known.row_bytes)
    if known is not None and table.tail_rows < 0:
        table = replace(
            table,
            tail_rows=known.tail_rows,
            tail_bytes=known.tail_bytes,
            rest_s=known.rest_s + elapsed_s,
            writers=known.writers,
        )
    return table


def shrunken_tables(session: CatalogSession) -> dict[int, str]:
    """Return the tiered tables that could be resident, with what their owners ask for."""
    rows = session.execute(
        "SELECT j.relid, j.wanted_residency FROM pg_journal.shrunken_tables(NULL) s"
        " JOIN pg_journal.journals j ON j.relid = s"
    ).rows
    return {int(relid or b"0"): (asked or b"").decode() for relid, asked in rows}


def is_shrunken(session: CatalogSession, relid: int) -> bool:
    """Return whether a table is one of these."""
    return _text(session, "SELECT pg_journal.shrunken_tables($1)", relid) is not None


def obstacle(session: CatalogSession, relid: int) -> str | None:
    """Return what keeps a resident table from becoming tiered, None for nothing."""
    reason = _text(session, "SELECT pg_journal.obstacle($1)", relid)
    if reason is None:
        column = _text(session, "SELECT pg_journal.unstorable($1)", relid)
        reason = f'values of column "{column}" that data files cannot hold' if column else None
    return reason


def identity_block(session: CatalogSession, relid: int) -> int:
    """Take 2^32 row identities for rows of a table without key; return what is before the first."""
    block = _text(
        session,
        "UPDATE pg_journal.journals SET identity_blocks = identity_blocks + 1 WHERE relid = $1"
        " RETURNING identity_blocks",
        relid,
    )
    return int(block or 0) << 32


def held_rows(session: CatalogSession, relid: int) -> list[list[Any]]:
    """Return what a resident table holds, in transfer forms of its columns."""
    text = _text(session, "SELECT pg_journal.held_rows($1)", relid)
    return list(json.loads(text)) if text else []


@dataclass(frozen=True, slots=True)
class TailReading:
    """A tail that is being read, of the moment of a snapshot."""

    snapshot: TableSnapshot
    size_bytes: int
    """How many bytes the values of its rows take up."""
    lines: Iterator[bytes]
    """Its rows as CSV of transfer forms, which are fetched as they are taken.

    Each line holds the live columns in attribute-number order, version number, subsequent version
    number and row identity.
    """


@contextmanager
def tail_read(session: CatalogSession, relid: int) -> Iterator[TailReading]:
    """Read the tail of a table, in a transaction that does nothing else."""
    session.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        result = session.observations.snapshot([SnapshotRequest(relid, rows=False)])
        for name, value in PLAIN_SETTINGS:
            _run(session, f"SET LOCAL {name} = '{value}'")
        opened = session.execute_parameters(
            "SELECT row_bytes, size_bytes FROM pg_journal.open_tail($1)",
            [str(relid).encode()],
            parameter_oids=[OID],
        )
        row_bytes, size_bytes = (int(value or b"0") for value in next(iter(list(opened.rows))))
        lines = _lines(session, chunk_rows(row_bytes))
        yield TailReading(result.snapshots[relid], size_bytes, lines)
    finally:
        session.transaction.rollback()


def tail_bytes(session: CatalogSession, relid: int) -> int:
    """Return how many bytes the rows of a tail take up; 0 for few, and for a table that is gone."""
    sql = "SELECT pg_journal.tail_bytes(j.relid, j.tail_relid) FROM pg_journal.journals j"
    return int(_text(session, f"{sql} WHERE j.relid = $1", relid) or 0)


def stands_alone(session: CatalogSession, relid: int) -> bool:
    """Tell whether a tail can be written to files without what there was before."""
    return _text(session, "SELECT pg_journal.stands_alone($1)", relid) == "t"


def _lines(session: CatalogSession, at_once: int) -> Iterator[bytes]:
    fetch = "FETCH ALL FROM pgwire_tail"
    rows = session.execute(fetch, result_format=1, chunk_rows=at_once).rows
    for row in rows:
        yield row[0] or b""


def has_each_row_once(session: CatalogSession, relid: int, tail_rows: int) -> bool:
    """Tell whether the tail of a resident table without segments has all its rows, each once.

    Each row has been captured at least once. So where there are no more row versions than rows,
    none has been changed, and none is gone. False, too, where others have the table, or its tail,
    locked.

    Args:
        session: An administrator's, in a transaction of one snapshot.
        relid: The table.
        tail_rows: Row versions in its tail, of the same snapshot.
    """
    found = session.execute_parameters(
        "SELECT pg_journal.has_each_row_once($1, $2)",
        [str(relid).encode(), str(tail_rows).encode()],
        parameter_oids=[OID, INT8],
    )
    return next(iter(list(found.rows)))[0] == b"t"


def check_tail(session: CatalogSession, relid: int) -> int | None:
    """Return in how many rows table and tail differ; None when there is more than the tail."""
    found = _text(
        session,
        "SELECT pg_journal.check_tail($1) WHERE NOT EXISTS ("
        "SELECT FROM pg_journal.segments s WHERE s.relid = $1 AND s.retired_at IS NULL)",
        relid,
    )
    return None if found is None else int(found)


@contextmanager
def exclusive(session: CatalogSession, relid: int, residency: str, wait_ms: int) -> Iterator[None]:
    """Keep writers of a table away until the transaction that this context is ends.

    Args:
        session: An administrator's, in no transaction.
        relid: The table, whatever its name is by then.
        residency: What it was when it was looked at.
        wait_ms: How long its writers are waited for.

    Raises:
        CatalogError: 55P03 when writers do not make way within the time, 40001 when others have
            changed its residency.
    """
    session.transaction.begin()
    try:
        _run(session, f"SET LOCAL lock_timeout = {wait_ms}")
        _text(session, "SELECT pg_journal.lock_table($1, 'EXCLUSIVE')", relid)
        require_residency(session, relid, residency)
        yield
    except BaseException:
        session.transaction.rollback()
        raise
    session.transaction.commit()


def require_residency(session: CatalogSession, relid: int, residency: str) -> None:
    """Refuse to go on with a table whose residency is another one than when it was looked at.

    Raises:
        CatalogError: 40001.
    """
    found = _text(session, "SELECT residency FROM pg_journal.journals WHERE relid = $1", relid)
    if found != residency:
        raise CatalogError(
            f"table {relid} is not {residency} any more", sqlstate=SERIALIZATION_FAILURE
        )


def make_tiered(session: CatalogSession, relid: int) -> None:
    """Take the rows out of a resident table whose journal has them all.

    Raises:
        CatalogError: 55000 when something keeps it resident.
    """
    _text(session, "SELECT pg_journal.make_tiered($1)", relid)


def make_resident(session: CatalogSession, relid: int) -> None:
    """Have PostgreSQL answer for a table whose rows have been put into the catalog table.

    Raises:
        CatalogError: 55000 when it does already, and would have the rows twice.
    """
    _text(session, "SELECT pg_journal.make_resident($1)", relid)


def cool(session: CatalogSession, relid: int) -> bool:
    """Take hot rows out of the catalog table of a tiered table; return whether there could be any.

    Raises:
        CatalogError: 55P03 when writers do not make way within the time.
    """
    return _text(session, "SELECT pg_journal.cool_down($1, false)", relid) == "t"


@dataclass(frozen=True, slots=True)
class HotTable:
    """What upkeep has to know of a tiered table with hot rows."""

    relid: int
    tail_rows: int
    """Row versions in the tail."""
    tail_bytes: int
    """Their bytes; 0 for few."""
    rest_s: float
    """Seconds since a row was written, or made hot."""
    hot_rows: int
    """Keys that were made hot, or rows that are there."""
    asked_rows: int | None
    """How many may be, if the owner has said so."""
    asked_age_s: float | None
    """How long they stay when nobody writes, if the owner has said so."""
    unkeyed: bool
    """Whether they have no key: nobody looks for them."""


def hot_tables(session: CatalogSession) -> list[HotTable]:
    """Return all tables of the database that can have hot rows."""
    result = session.execute(
        "SELECT relid, tail_rows, tail_bytes, rest_s, hot_rows, asked_rows, asked_age_s, unkeyed"
        " FROM pg_journal.hot_tables()"
    )
    found = []
    for *numbers, asked_rows, asked_age, unkeyed in result.rows:
        relid, tail, size, rest, rows = (value or b"0" for value in numbers)
        most = None if asked_rows is None else int(asked_rows)
        age_s = None if asked_age is None else float(asked_age)
        found.append(
            HotTable(
                int(relid),
                int(tail),
                int(size),
                float(rest),
                int(rows),
                most,
                age_s,
                unkeyed == b"t",
            )
        )
    return found


def shed(session: CatalogSession, relid: int) -> int:
    """Take rows without a key out of the catalog table, beside writers; return how many.

    Raises:
        CatalogError: 55P03 when others have locked the table.
    """
    return int(_text(session, "SELECT pg_journal.shed($1)", relid) or 0)


def overheat(session: CatalogSession, relid: int) -> None:
    """Let no more rows of a table become hot before all have gone cold."""
    _text(session, "SELECT pg_journal.overheat($1)", relid)


def seize(session: CatalogSession, relid: int) -> None:
    """Take the locks that swapping segments needs; part of a transaction that does nothing else.

    Raises:
        CatalogError: 55P03 when others have them.
    """
    _text(session, "SELECT pg_journal.seize($1)", relid)


def answered_keys(session: CatalogSession, relid: int) -> list[tuple[str, ...]] | None:
    """Return the keys a tiered table's catalog table answers for, as texts; None for none."""
    text = _text(session, "SELECT pg_journal.answered_keys($1)", relid)
    return None if text is None else [tuple(key) for key in json.loads(text)]


def differing_keys(session: CatalogSession, relid: int, most: int) -> list[KeyTexts]:
    """Compare some hot keys, chosen at random, with the journal; return those that differ.

    A row whose newest version may be in files is left out, see :func:`filed_keys`.
    """
    result = session.execute_parameters(
        "SELECT pg_journal.check_hot($1, $2)",
        [str(relid).encode(), str(most).encode()],
        parameter_oids=[OID, INT8],
    )
    ((found,),) = result.rows
    return [] if found is None else [tuple(key) for key in json.loads(found)]


@dataclass(frozen=True, slots=True)
class FiledKeys:
    """Keys that PostgreSQL answers for, and whose rows are in files."""

    keys: tuple[KeyTexts, ...]
    unfit: frozenset[KeyTexts]
    """Those with rows in PostgreSQL that no file can hold."""
    held: list[list[Any]]
    """The other rows in PostgreSQL, in transfer forms of the columns, as in a tail."""
    tail: list[list[Any]]
    """The newest row versions that the tail has of them, likewise."""
    mark: int | None
    """The version number that has ended all rows before it, in microseconds."""


@dataclass(frozen=True, slots=True)
class KeySample:
    """Which keys are to be looked at."""

    most: int
    """How many, chosen at random."""
    most_bytes: int
    """Rows of more bytes are left out."""
    part: int = 0
    """Which part of all keys they are of."""
    parts: int = 1
    """How many parts there are."""


def filed_keys(session: CatalogSession, relid: int, sample: KeySample) -> FiledKeys | None:
    """Return some keys whose newest version may be in files; None for none.

    Args:
        session: An administrator's, in a transaction of one snapshot.
        relid: A tiered table with hot rows, or a resident one with a key.
        sample: Which ones.
    """
    numbers = (relid, sample.most, sample.most_bytes, sample.part, sample.parts)
    result = session.execute_parameters(
        "SELECT pg_journal.filed_keys($1, $2, $3, $4, $5)",
        [str(number).encode() for number in numbers],
        parameter_oids=[OID, INT8, INT8, INT4, INT4],
    )
    ((found,),) = result.rows
    if found is None:
        return None
    told = json.loads(found)
    keys, unfit = (tuple(tuple(key) for key in told[name]) for name in ("keys", "unfit"))
    return FiledKeys(keys, frozenset(unfit), told["held"], told["tail"], told["mark"])


def silence_triggers(session: CatalogSession) -> None:
    """Let no trigger fire in this transaction."""
    _run(session, "SET LOCAL session_replication_role = replica")


def _run(session: CatalogSession, sql: str) -> None:
    for _ in session.execute(sql).rows:
        pass


def _text(session: CatalogSession, sql: str, relid: int) -> str | None:
    result = session.execute_parameters(sql, [str(relid).encode()], parameter_oids=[OID])
    row = next(iter(list(result.rows)), [None])
    return None if row[0] is None else row[0].decode()
